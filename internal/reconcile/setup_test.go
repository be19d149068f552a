package reconcile_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/reconcile"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// defaults are the settings' defaults.
var defaults = config.Defaults()

var byHand = audit.By{Actor: "cli:ada", Reason: "asked the bank"}

// bundle is the reconciliation with its bank, the payments' use cases and one account.
type bundle struct {
	*testenv.Env
	ctx      context.Context
	bank     *fakebank.Bank
	payments *payment.Service
	svc      *reconcile.Service
	log      *testenv.Log
	account  uuid.UUID
	tenant   uuid.UUID
	// of the reconciliations that are made from here on; 0: as in production
	sliceRecords int
}

func setup(t testing.TB) *bundle { return setupAt(t, fakebank.Options{}) }

// setupAt is setup with a bank of its own.
func setupAt(t testing.TB, o fakebank.Options) *bundle {
	e := testenv.New(t)
	b := &bundle{Env: e, ctx: context.Background(), log: testenv.NewLog(t)}
	b.bank = e.Bank(o)
	b.payments, b.svc = b.servicesWith(b.client())
	before := e.Tenant()
	b.Account(before, "neighbour")
	b.tenant = e.Tenant()
	b.account = b.Account(b.tenant, "customer-1")
	b.OpenAtBank(b.bank, b.account)
	after := e.Tenant()
	b.Account(after, "neighbour")
	b.Untouched(before.String(), after.String())
	return b
}

func (b *bundle) client() *nomba.Client { return testenv.BankClient(b.T, b.bank, b.Clock) }

// servicesWith makes another reconciliation, and other payments, with an account at that bank.
func (b *bundle) servicesWith(bank provider.Bank) (*payment.Service, *reconcile.Service) {
	log := b.log.Logger()
	p := payment.New(payment.Options{
		Pool: b.Pool, Bank: bank, Clock: b.Clock, Log: log, WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret),
		ConfirmDelays: defaults.ConfirmDelays, ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
	})
	b.T.Cleanup(p.Close)
	transfers := transfer.New(transfer.Options{Pool: b.Pool, Bank: bank, Clock: b.Clock, Log: log, Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks})
	b.T.Cleanup(transfers.Close)
	svc := reconcile.New(reconcile.Options{Pool: b.Pool, Bank: bank, Payments: p, Transfers: transfers, Clock: b.Clock, Log: log, MinAge: 30 * time.Minute})
	if b.sliceRecords > 0 {
		svc.InSlicesOf(b.sliceRecords)
	}
	return p, svc
}

// paySilently makes a payment at the bank of which no event comes.
func (b *bundle) paySilently(amount string) fakebank.Transaction {
	b.T.Helper()
	return testenv.PaySilently(b.T, b.bank, b.account, amount)
}

// recorded changes the status of the bank's record of a payment.
func (b *bundle) recorded(txn fakebank.Transaction, status string) {
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = status })
}

// hook is the signed event of a payment.
func (b *bundle) hook(t fakebank.Transaction) payment.InboundRequest {
	return b.sign(b.bank.EventFor(t))
}

// eventOf signs an event.
func (b *bundle) eventOf(e fakebank.Event) payment.InboundRequest {
	b.T.Helper()
	return b.sign(testenv.EventBody(b.T, e))
}

func (b *bundle) sign(body []byte) payment.InboundRequest {
	b.T.Helper()
	signature, timestamp := testenv.Sign(b.T, b.bank, body)
	return payment.InboundRequest{Body: body, Signature: signature, Timestamp: timestamp}
}

func (b *bundle) receive(d payment.InboundRequest) payment.Receipt {
	b.T.Helper()
	r, err := b.payments.Receive(b.ctx, d)
	require.NoError(b.T, err)
	return r
}

func (b *bundle) post(id uuid.UUID) payment.Posted {
	b.T.Helper()
	p, err := b.payments.Post(b.ctx, id)
	require.NoError(b.T, err)
	return p
}

func (b *bundle) postAll(ids []uuid.UUID) {
	b.T.Helper()
	for _, id := range ids {
		b.post(id)
	}
}

// confirmed makes a payment that the bank confirms; its id is the event's.
func (b *bundle) confirmed() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.Clock.Advance(30 * time.Second)
	require.NoError(b.T, b.payments.Confirm(b.ctx, id))
	require.Equal(b.T, "confirmed", b.credit(id))
	return id, txn
}

// reversedByRecall makes a confirmed payment that the bank has taken back, as a run has found.
func (b *bundle) reversedByRecall() fakebank.Transaction {
	b.T.Helper()
	id, txn := b.confirmed()
	b.recorded(txn, "REFUND")
	b.lastHour()
	require.NoError(b.T, b.payments.Confirm(b.ctx, id))
	require.Equal(b.T, "reversed", b.credit(id))
	require.Empty(b.T, b.lastHour().Exceptions)
	return txn
}

// underWayForADay makes a payment whose end the bank has not said in a day: it is under review.
func (b *bundle) underWayForADay() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	b.recorded(txn, fakebank.StatusPending)
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.Clock.Advance(25 * time.Hour)
	require.NoError(b.T, b.payments.Confirm(b.ctx, id))
	return id, txn
}

// credit is the status of an event's credit.
func (b *bundle) credit(id uuid.UUID) string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit' AND reversal_of IS NULL`, id)
}

// books checks that balance, statement and entries agree, and returns the balance and the entries'
// statuses.
func (b *bundle) books() (balance string, statuses []string) {
	b.T.Helper()
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 1000})
	require.NoError(b.T, err)
	for _, l := range s.Lines {
		statuses = append(statuses, string(l.Entry.Direction)+" "+string(l.Entry.Status))
	}
	bal, err := ledger.ReadBalance(b.ctx, b.Pool, b.account)
	require.NoError(b.T, err)
	require.Equal(b.T, s.ClosingBalance.String(), bal.Balance.String())
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
	return bal.Balance.String(), statuses
}

// recalls is what is held of the account, and what was taken back; the books hold all the while.
func (b *bundle) recalls() [2]string {
	b.T.Helper()
	b.books()
	testenv.FindsNothing(b.T, b.Pool, invariant.Verify)
	return b.Recalled(b.account)
}

// dueNow are the ids of the items of that kind that are due.
func (b *bundle) dueNow(kind work.Kind) []uuid.UUID {
	return b.Overdue(kind, b.Clock.Now(), b.Clock.Now().Add(time.Microsecond), 1000)
}

// lastHour reconciles the hour before now and all of this second.
func (b *bundle) lastHour() reconcile.Report {
	b.T.Helper()
	r, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
	require.NoError(b.T, err)
	kept, err := b.svc.Reconciliation(b.ctx, r.ID)
	require.NoError(b.T, err)
	found, err := json.Marshal(r)
	require.NoError(b.T, err)
	read, err := json.Marshal(kept)
	require.NoError(b.T, err)
	require.JSONEq(b.T, string(found), string(read))
	return r
}

// due does all periodic runs that are due, and posts what they have stored.
func (b *bundle) due() (last reconcile.Report) {
	b.T.Helper()
	for more := true; more; {
		r, ran, again, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
		require.NoError(b.T, err)
		require.True(b.T, ran)
		b.postAll(r.ToPost)
		last, more = r, again
	}
	return last
}

// said are the exceptions of a report, in short, by their reference.
func said(r reconcile.Report) map[string]string {
	got := map[string]string{}
	for _, x := range r.Exceptions {
		ref := x.MerchantTxRef
		if ref == "" {
			ref = x.ProviderTxnRef
		}
		got[ref] = string(x.Kind) + ": " + x.Detail
	}
	return got
}

// dismiss acknowledges the exception that stands about a reference.
func dismiss(svc *reconcile.Service, ref string) (reconcile.Exception, error) {
	it, err := svc.OpenException(context.Background(), ref)
	if err != nil {
		return reconcile.Exception{}, err
	}
	return *it.Exception, svc.Dismiss(context.Background(), it, byHand)
}
