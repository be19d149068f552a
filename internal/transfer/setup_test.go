package transfer_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

func init() { testenv.FewChecks() }

// defaults are the settings' defaults.
var defaults = config.Defaults()

// The bank's calls that the tests count.
const (
	payCall    = "POST /v2/transfers/bank"
	lookupCall = "POST /v1/transfers/bank/lookup"
	askCall    = "GET /v1/transactions/accounts/single"
)

// bundle is the use cases of one test, with the bank over real HTTP, a tenant and its account
// "shop".
type bundle struct {
	*testenv.Env
	ctx     context.Context
	bank    *fakebank.Bank
	client  provider.Bank
	svc     *transfer.Service
	log     *testenv.Log
	tenant  uuid.UUID
	account uuid.UUID
}

// setup has accounts of other tenants beside the test's own, an older and a newer one, of which one
// has the same reference; see also [bundle.neighbours].
func setup(t *testing.T, change ...func(*transfer.Options)) *bundle {
	t.Helper()
	t.Parallel()
	return newBundle(t, change...)
}

func newBundle(t *testing.T, change ...func(*transfer.Options)) *bundle {
	t.Helper()
	e := testenv.New(t)
	b := &bundle{Env: e, ctx: context.Background(), log: testenv.NewLog(t), bank: e.Bank(fakebank.Options{PayoutFee: money.Must("20.00")})}
	b.client = b.newClient(5 * time.Second)
	b.svc = b.service(change...)
	e.Account(e.Tenant(), "neighbour")
	b.tenant = e.Tenant()
	b.account = e.Account(b.tenant, "shop")
	e.Account(e.Tenant(), "shop")
	return b
}

// anotherAccount is the bundle with a fresh tenant and account, for a subtest.
func (b *bundle) anotherAccount(t *testing.T) *bundle {
	own, env := *b, *b.Env
	env.T = t
	own.Env = &env
	own.tenant = own.Tenant()
	own.account = own.Account(own.tenant, "shop")
	return &own
}

// newClient is the real adapter, which gives the bank so much time for an answer to a payout.
func (b *bundle) newClient(payTimeout time.Duration) *nomba.Client {
	b.T.Helper()
	return testenv.BankClient(b.T, b.bank, b.Clock, func(o *nomba.Options) { o.PayTimeout = payTimeout })
}

// service is another instance of the use cases, as another process has them.
func (b *bundle) service(change ...func(*transfer.Options)) *transfer.Service {
	o := transfer.Options{Pool: b.Pool, Bank: b.client, Clock: b.Clock, Log: b.log.Logger(), Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks}
	for _, f := range change {
		f(&o)
	}
	s := transfer.New(o)
	b.T.Cleanup(s.Close)
	return s
}

// Without a schedule a return by the bank would not be noticed: nothing starts that way.
func TestNoRechecks(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "transfer: Options.Rechecks is missing", func() { transfer.New(transfer.Options{Delays: defaults.SettleDelays}) })
}

// credit posts a provisional credit and returns its group.
func (b *bundle) credit(amount string) uuid.UUID { return b.Credit(b.account, amount) }

// fund gives the account confirmed money.
func (b *bundle) fund(amount string) {
	b.T.Helper()
	b.MoveCredit(b.credit(amount), ledger.EventConfirm)
}

func order(amount string) transfer.Order {
	return transfer.Order{Amount: amount, BankCode: "058", AccountNumber: "0123456789", Narration: "rent"}
}

func (b *bundle) key(key string, o transfer.Order) idempotency.Request {
	b.T.Helper()
	body, err := json.Marshal(o)
	require.NoError(b.T, err)
	r, err := idempotency.NewRequest(b.tenant, key, "POST", "/v1/accounts/shop/settle", body)
	require.NoError(b.T, err)
	return r
}

// settle has a settlement accepted and returns its transfer.
func (b *bundle) settle(amount string) transfer.Transfer {
	b.T.Helper()
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order(amount), idempotency.Request{})
	require.NoError(b.T, err)
	require.NotEqual(b.T, uuid.Nil, s.TransferID)
	return b.get(accepted(b.T, s).MerchantTxRef)
}

func accepted(t testing.TB, s transfer.Settled) transfer.Accepted {
	t.Helper()
	var a transfer.Accepted
	require.Equal(t, 202, s.Answer.Status)
	require.NoError(t, json.Unmarshal(s.Answer.Body, &a))
	return a
}

func (b *bundle) get(ref string) transfer.Transfer {
	b.T.Helper()
	t, err := b.svc.Get(b.ctx, b.tenant, ref)
	require.NoError(b.T, err)
	return t
}

// step does one step, which must leave the transfer with another one to come, and returns its time;
// the clock stands still.
func (b *bundle) step(t transfer.Transfer) time.Time {
	b.T.Helper()
	at, ok := retry.When(b.svc.Advance(b.ctx, t.ID))
	require.True(b.T, ok, "there is a next step")
	return at
}

// run does the transfer's steps, each at its time, until it has ended, and returns it.
func (b *bundle) run(t transfer.Transfer) transfer.Transfer {
	b.T.Helper()
	for range 60 {
		if t = b.get(t.MerchantTxRef); t.Status != transfer.Pending && t.Status != transfer.Processing {
			return t
		}
		b.untilDue(t)
		if err := b.svc.Advance(b.ctx, t.ID); err != nil {
			_, ok := retry.When(err)
			require.True(b.T, ok, err)
		}
	}
	b.T.Fatalf("the transfer has not ended: %+v", t)
	return t
}

// untilDue moves the clock to the transfer's next step, if that is still to come.
func (b *bundle) untilDue(t transfer.Transfer) {
	b.T.Helper()
	at := b.DueAt(work.Settle, t.ID)
	require.NotNil(b.T, at, "there is a next step")
	if at.After(b.Clock.Now()) {
		b.Clock.Set(*at)
	}
}

// money checks the books, and that the account's balance, statement and entries say what is wanted:
// the balance, then each entry as "debit 100.00 confirmed", oldest first.
func (b *bundle) money(balance string, entries ...string) {
	b.T.Helper()
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 1000})
	require.NoError(b.T, err)
	have, err := ledger.ReadBalance(b.ctx, b.Pool, b.account)
	require.NoError(b.T, err)
	require.Equal(b.T, balance, have.Balance.String())
	require.Equal(b.T, balance, s.ClosingBalance.String())
	var lines []string
	for _, l := range s.Lines {
		lines = append(lines, string(l.Entry.Direction)+" "+l.Entry.Amount.String()+" "+string(l.Entry.Status))
	}
	require.Equal(b.T, entries, lines)
}

// paid checks that the bank's paid list is exactly these transfers.
func (b *bundle) paid(want ...transfer.Transfer) {
	b.T.Helper()
	refs, have := map[string]string{}, map[string]string{}
	for _, t := range want {
		refs[t.MerchantTxRef] = t.Amount.String()
	}
	for _, p := range b.bank.Paid() {
		have[p.Ref] = p.Amount.String()
	}
	require.Equal(b.T, refs, have)
}

// row reads a column of the transfer's row.
func row[T any](b *bundle, t transfer.Transfer, column string) T {
	b.T.Helper()
	return testenv.Value[T](b.Env, `SELECT `+column+` FROM transfers WHERE id = $1`, t.ID)
}
