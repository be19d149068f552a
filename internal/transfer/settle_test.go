package transfer_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// The refusals come in the decided order: each request is wrong in all that follows, too.
func TestRefusalsInTheirOrder(t *testing.T) {
	spec.Shows(t, "limit.account-number", "limit.settle.amount", "endpoint.settle.amount.invalid", "endpoint.settle.account-number")
	b := setup(t)
	other := b.Tenant()
	wrong := transfer.Order{Amount: "0", BankCode: "no", AccountNumber: "1", AccountName: new("Somebody Else"), Narration: strings.Repeat("x", 141)}
	ref := "nobody"
	refused := func(want error) {
		t.Helper()
		_, err := b.svc.Settle(b.ctx, b.tenant, ref, wrong, idempotency.Request{})
		require.ErrorIs(t, err, want)
	}
	for _, amount := range []string{"", "0", "0.00", "-1", "+1", "1.005", "1e3", ".5", "1,000", "abc", "１", " 1", "1000000000000000"} {
		wrong.Amount = amount
		refused(transfer.ErrAmount)
	}
	wrong.Amount = "100.00"
	for _, code := range []string{"", "no", "12", "1234567", "05a"} {
		wrong.BankCode = code
		refused(transfer.ErrBankCode)
	}
	wrong.BankCode = "058"
	for _, number := range []string{"", "123456789", "01234567890", "012345678x"} {
		wrong.AccountNumber = number
		refused(transfer.ErrAccountNumber)
	}
	wrong.AccountNumber = "0123456789"
	refused(transfer.ErrNarration)
	wrong.Narration = "line\nbreak"
	refused(transfer.ErrNarration)
	wrong.Narration = ""
	refused(account.ErrNotFound)
	b.Account(other, "theirs")
	ref = "theirs"
	refused(account.ErrNotFound)
	require.Zero(t, b.bank.Calls(lookupCall), "nothing was asked of the bank yet")
	ref = "shop"
	refused(transfer.ErrNameMismatch)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	refused(transfer.ErrNameMismatch) // by the name that it gave a moment ago
	b.Clock.Advance(2 * time.Minute)
	refused(transfer.ErrBank)
	b.bank.Faults.SetDown(fakebank.Up)
	wrong.AccountNumber = "0001111111"
	refused(transfer.ErrLookup)
	wrong.AccountNumber, wrong.AccountName = "0123456789", new("bello,  amina")
	refused(transfer.ErrNameMismatch)
	wrong.AccountName = new("  amina BELLO.")
	refused(ledger.ErrInsufficientFunds)
	b.fund("99.99")
	refused(ledger.ErrInsufficientFunds)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
	b.money("99.99", "credit 99.99 confirmed")
	b.fund("0.01")
	_, err := b.svc.Settle(b.ctx, b.tenant, ref, wrong, idempotency.Request{})
	require.NoError(t, err)
}

// A settlement is its transfer and its provisional debit, and the balance is less at once.
func TestAccepted(t *testing.T) {
	spec.Shows(t, "state.transfer.accepted", "state.transfer.accepted.atomic", "endpoint.settle.atomic")
	b := setup(t)
	b.fund("100.00")
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("40.5"), idempotency.Request{})
	require.NoError(t, err)
	a := accepted(t, s)
	require.Equal(t, transfer.Accepted{MerchantTxRef: a.MerchantTxRef, Status: transfer.Pending, Amount: money.Must("40.50"), Currency: "NGN", AccountRef: "shop"}, a)
	require.Regexp(t, `^AJO[0-9a-f]{32}$`, a.MerchantTxRef)
	require.False(t, s.Replayed)
	b.money("59.50", "credit 100.00 confirmed", "debit 40.50 provisional")
	require.Equal(t, a.MerchantTxRef, testenv.Value[string](b.Env, `SELECT transfer_ref FROM ledger_entries WHERE direction = 'debit'`))
	got := b.get(a.MerchantTxRef)
	require.Equal(t, transfer.Transfer{
		ID: s.TransferID, AccountID: b.account, MerchantTxRef: a.MerchantTxRef, Status: transfer.Pending, Amount: money.Must("40.50"),
		Currency: "NGN", AccountRef: "shop", BankCode: "058", AccountNumber: "0123456789", Narration: "rent", CreatedAt: b.Clock.Now(), UpdatedAt: b.Clock.Now(), OrderedAt: new(b.Clock.Now()),
	}, got)
	_, err = b.svc.Get(b.ctx, b.Tenant(), a.MerchantTxRef)
	require.ErrorIs(t, err, transfer.ErrNotFound, "another tenant's")
	_, err = b.svc.Get(b.ctx, b.tenant, "AJOunknown")
	require.ErrorIs(t, err, transfer.ErrNotFound)
}

// A one-time account expires the moment it is paid, and a tenant's settlements go on when it is
// suspended.
func TestExpiredAccountsAndSuspendedTenants(t *testing.T) {
	spec.Shows(t, "state.other.tenant.under-way")
	b := setup(t)
	b.fund("100.00")
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = now() WHERE id = $1`, b.account)
	sent, waiting := b.settle("60.00"), b.settle("40.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Next: 1})
	b.step(sent)
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, b.tenant)
	require.Equal(t, transfer.Success, b.run(sent).Status, "it is at the bank")
	b.untilDue(waiting)
	b.step(waiting)
	require.Equal(t, transfer.Pending, b.get(waiting.MerchantTxRef).Status)
	b.Exec(`UPDATE tenants SET status = 'active' WHERE id = $1`, b.tenant)
	require.Equal(t, transfer.Success, b.run(waiting).Status)
	b.paid(sent, waiting)
}

// many calls settle n times at once and returns what came of it, by the error.
func (b *bundle) many(n int, do func(i int) (transfer.Settled, error)) (good []transfer.Settled, refusals map[error]int) {
	var mu sync.Mutex
	refusals = map[error]int{}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			s, err := do(i)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				good = append(good, s)
			case errors.Is(err, ledger.ErrInsufficientFunds):
				refusals[ledger.ErrInsufficientFunds]++
			case errors.Is(err, idempotency.ErrRunning):
				refusals[idempotency.ErrRunning]++
			default:
				b.T.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	return good, refusals
}

// 500 settlements at once against a balance for ten: exactly ten are accepted.
func TestFiveHundredAtOnce(t *testing.T) {
	spec.Shows(t, "endpoint.settle.balance")
	b := setup(t)
	b.fund("1009.99")
	services := []*transfer.Service{b.svc, b.service()}
	good, refusals := b.many(500, func(i int) (transfer.Settled, error) {
		return services[i%2].Settle(b.ctx, b.tenant, "shop", order("100.00"), idempotency.Request{})
	})
	require.Len(t, good, 10)
	require.Equal(t, map[error]int{ledger.ErrInsufficientFunds: 490}, refusals)
	require.Equal(t, 10, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
	require.Equal(t, "9.99", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, b.account).String())
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

// 500 at once under one key: one transfer; the others get its answer, or 409 while it is not there
// yet.
func TestFiveHundredUnderOneKey(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	o := order("100.00")
	good, refusals := b.many(500, func(int) (transfer.Settled, error) {
		return b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("the key", o))
	})
	require.Equal(t, 500, len(good)+refusals[idempotency.ErrRunning])
	first := 0
	for _, s := range good {
		require.Equal(t, good[0].Answer, s.Answer)
		require.Equal(t, s.Replayed, s.TransferID == uuid.Nil)
		if !s.Replayed {
			first++
		}
	}
	require.Equal(t, 1, first)
	b.money("900.00", "credit 1000.00 confirmed", "debit 100.00 provisional")
}

func TestKeys(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	o, another := order("100.00"), order("100.01")
	first, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	_, err = b.svc.Settle(b.ctx, b.tenant, "shop", another, b.key("k", another))
	require.ErrorIs(t, err, idempotency.ErrReused)

	// The key of another tenant is another key.
	stranger := *b
	stranger.tenant = b.Tenant()
	stranger.account = b.Account(stranger.tenant, "shop")
	stranger.fund("100.00")
	theirs, err := b.svc.Settle(b.ctx, stranger.tenant, "shop", o, stranger.key("k", o))
	require.NoError(t, err)
	require.False(t, theirs.Replayed)
	require.NotEqual(t, first.Answer, theirs.Answer)

	// A refusal that changed nothing is not kept: under the same key the request works once there
	// is money.
	big := order("1500.00")
	_, err = b.svc.Settle(b.ctx, b.tenant, "shop", big, b.key("big", big))
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	b.fund("600.00")
	later, err := b.svc.Settle(b.ctx, b.tenant, "shop", big, b.key("big", big))
	require.NoError(t, err)
	require.False(t, later.Replayed)

	// The answer is the first one, whatever has become of the transfer since.
	p := b.run(b.get(accepted(t, first).MerchantTxRef))
	require.Equal(t, transfer.Success, p.Status)
	again, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	require.Equal(t, transfer.Settled{Result: idempotency.Result{Answer: first.Answer, Replayed: true}}, again)
}

// The answer to COMMIT is lost: the caller gets an error though the transfer stands, and its
// repeat gets the answer that it should have had. Nothing is debited twice.
func TestLostCommit(t *testing.T) {
	spec.Shows(t, "state.transfer.accepted.atomic", "endpoint.settle.atomic")
	b := setup(t)
	b.fund("1000.00")
	lost := b.LostCommits()
	svc := b.service(func(o *transfer.Options) { o.Pool = lost.Pool })
	o := order("100.00")
	lost.LoseCommits(1)
	_, err := svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.Error(t, err)
	require.Zero(t, lost.CommitsLeft())
	again, err := svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	p := b.get(accepted(t, again).MerchantTxRef)
	require.Equal(t, transfer.Pending, p.Status)
	b.money("900.00", "credit 1000.00 confirmed", "debit 100.00 provisional")
	require.Equal(t, []uuid.UUID{p.ID}, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), "nobody has enqueued it; the sweep finds it")
}

func TestList(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	b.Account(b.tenant, "other")
	var all []string
	for range 5 {
		all = append([]string{b.settle("10.00").MerchantTxRef}, all...)
	}
	last := b.get(all[0])
	require.Equal(t, transfer.Success, b.run(last).Status)
	list := func(f transfer.Filter) (refs []string) {
		r := page.Request{Limit: 2}
		for {
			got, info, err := b.svc.List(b.ctx, b.tenant, f, r)
			require.NoError(t, err)
			for _, p := range got {
				refs = append(refs, p.MerchantTxRef)
			}
			if !info.HasMore {
				return refs
			}
			r.After = *info.NextCursor
		}
	}
	require.Equal(t, all, list(transfer.Filter{}))
	require.Equal(t, all, list(transfer.Filter{AccountRef: "shop"}))
	require.Empty(t, list(transfer.Filter{AccountRef: "other"}))
	require.Equal(t, all[:1], list(transfer.Filter{Status: transfer.Success}))
	require.Equal(t, all[1:], list(transfer.Filter{AccountRef: "shop", Status: transfer.Pending}))
	require.Equal(t, all[2:3], list(transfer.Filter{Search: strings.ToUpper(all[2][len(all[2])-12:])}), "a part of the reference")
	require.Equal(t, all, list(transfer.Filter{Search: "SHO"}), "of the account's")
	require.Equal(t, all, list(transfer.Filter{Search: last.AccountNumber[3:]}), "of the destination's number")
	require.Empty(t, list(transfer.Filter{Search: "nothing has this"}))
	_, _, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{Status: "successful"}, page.Request{Limit: 2})
	require.ErrorIs(t, err, transfer.ErrStatus)
	_, _, err = b.svc.List(b.ctx, b.tenant, transfer.Filter{AccountRef: "nobody"}, page.Request{Limit: 2})
	require.ErrorIs(t, err, account.ErrNotFound)
	_, _, err = b.svc.List(b.ctx, b.tenant, transfer.Filter{}, page.Request{Limit: 2, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
	got, _, err := b.svc.List(b.ctx, b.Tenant(), transfer.Filter{}, page.Request{Limit: 2})
	require.NoError(t, err)
	require.Empty(t, got, "another tenant's")
}
