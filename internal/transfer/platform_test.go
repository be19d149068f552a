package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// price has the platform take a flat fee of the tenant's settlements, from a time on, and VAT of
// 7.5 % on it.
func (b *bundle) price(flat string, from time.Time) {
	b.T.Helper()
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), $1, 'payout', 0, $2::text::numeric, 0, $3, $3::timestamptz - interval '1 hour', 'cli:ada', 'a contract')`, b.tenant, flat, from)
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), '00000000-0000-0000-0000-000000000000', 'vat', 7.5, 0, 0, '2020-01-02', '2020-01-01', 'cli:ada', 'the law') ON CONFLICT DO NOTHING`)
}

// platform checks the account's balance and what the platform has of it; all invariants hold.
func (b *bundle) platform(balance string, charges ...string) {
	b.T.Helper()
	got := testenv.Value[[]string](b.Env, `
		SELECT coalesce(array_agg(format('%s %s %s %s', direction, amount, contra, status) ORDER BY seq), '{}') FROM ledger_entries
		WHERE account_id = $1 AND kind = 'platform_fee'`, b.account)
	require.Equal(b.T, append([]string{}, charges...), got)
	require.Equal(b.T, balance, testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, b.account).String())
	b.sound()
}

// sound checks that all invariants hold, and that all accounts sum to zero.
func (b *bundle) sound() {
	b.T.Helper()
	findings, err := invariant.Verify(b.ctx, b.Pool)
	require.NoError(b.T, err)
	for _, f := range findings { // the credits of these tests have no events
		require.Contains(b.T, []string{invariant.CheckCreditEvent, invariant.CheckConfirmation}, f.Check, f)
	}
	trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, clock.Day(b.Clock.Now()))
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", trial.Total.String())
}

const (
	feeDebit = "debit 10.00 platform_revenue "
	vatDebit = "debit 0.75 taxes "
	feeBack  = "credit 10.00 platform_revenue reversed"
	vatBack  = "credit 0.75 taxes reversed"
)

// The fee is debited with the settlement, both or neither, and goes the way of it: whatever becomes
// of the payout, its entries say the same, and the wallet never notices.
func TestPlatformFeeOfAPayout(t *testing.T) {
	later := func(do fakebank.Action) fakebank.Rule {
		return with(pays(do, 1), func(r *fakebank.Rule) { r.Delay = 10 * time.Minute })
	}
	soon := func(do fakebank.Action) fakebank.Rule {
		return with(pays(do, 1), func(r *fakebank.Rule) { r.Delay = time.Second })
	}
	taken := []string{feeDebit + "confirmed", vatDebit + "confirmed"}
	back := []string{feeDebit + "reversed", vatDebit + "reversed", feeBack, vatBack}
	for name, c := range map[string]struct {
		rule  fakebank.Rule
		first string // the balance at the first end, of 200.00
		fees  []string
		then  func(*bundle, transfer.Transfer)
		last  string
		lines []string
	}{
		"paid":         {rule: pays(fakebank.Paid, 1), first: "89.25", fees: taken},
		"rejected":     {rule: pays(fakebank.Reject, 1), first: "200.00", fees: back},
		"failed":       {rule: soon(fakebank.FailLater), first: "200.00", fees: back},
		"failed, kept": {rule: soon(fakebank.FailKept), first: "200.00", fees: back},
		"returned":     {rule: later(fakebank.Refund), first: "89.25", fees: taken, then: (*bundle).recheck, last: "200.00", lines: back},
		"resolved as paid": {rule: later(fakebank.PaidLate), first: "200.00", fees: back, then: func(b *bundle, p transfer.Transfer) {
			b.recheck(p)
			b.resolved(p, true)
		}, last: "100.00", lines: back},
		"resolved as not": {rule: later(fakebank.FailedLate), first: "89.25", fees: taken, then: func(b *bundle, p transfer.Transfer) {
			b.recheck(p)
			b.resolved(p, false)
		}, last: "200.00", lines: back},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.price("10", b.Clock.Now().Add(-time.Hour))
			b.Clock.Advance(time.Second) // of a process whose clock is ahead
			b.fund("200.00")
			b.Clock.Advance(-time.Second)
			b.bank.Faults.Set(c.rule)
			p := b.settle("100.00")
			b.platform("89.25", feeDebit+"provisional", vatDebit+"provisional")
			b.price("20", b.Clock.Now().Add(time.Microsecond)) // of what is accepted later
			p = b.run(p)
			b.bank.Faults.Clear()
			b.platform(c.first, c.fees...)
			b.whole()
			if c.then != nil {
				b.Clock.Advance(11 * time.Minute)
				c.then(b, p)
				b.platform(c.last, c.lines...)
				b.whole()
			}
		})
	}
}

// A settlement that its account does not cover with the fee is refused; one that waits for money
// waits for the fee too, and one that ends unpaid frees both. A repeat is the same settlement.
func TestPlatformFeeIsCoveredFirst(t *testing.T) {
	b := setup(t)
	b.price("10", b.Clock.Now().Add(-time.Hour))
	b.fund("110.74")
	_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("100.00"), idempotency.Request{})
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	b.platform("110.74")
	b.fund("0.01")
	var first transfer.Settled
	for range 2 {
		s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("100.00"), b.key("order-1", order("100.00")))
		require.NoError(t, err)
		if first.TransferID == (transfer.Settled{}).TransferID {
			first = s
		}
	}
	done := b.run(b.get(accepted(t, first).MerchantTxRef))
	require.Equal(t, transfer.Success, done.Status)
	taken := []string{feeDebit + "confirmed", vatDebit + "confirmed"}
	b.platform("0.00", taken...)

	sure, unsure := b.credit("110.75"), b.credit("110.75")
	one, two := b.settle("100.00"), b.settle("100.00")
	b.MoveCredit(sure, ledger.EventConfirm)
	b.step(two)
	require.Equal(t, transfer.Pending, b.get(two.MerchantTxRef).Status, "the first one's debit stands before it, and its fee's")
	require.Equal(t, transfer.Success, b.run(one).Status)
	b.MoveCredit(unsure, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(two).Status, "never covered")
	b.platform("0.00", append(append(taken, taken...), feeDebit+"reversed", vatDebit+"reversed", feeBack, vatBack)...)

	b.credit("200.00")
	waiting := b.settle("100.00")
	_, err = b.svc.Cancel(b.ctx, waiting.MerchantTxRef, audit.By{Actor: "cli:ada", Reason: "withdrawn"})
	require.NoError(t, err)
	require.Equal(t, "200.00", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, b.account).String())
	b.sound()
	b.whole()
}

// 500 settlements at once against money for some of them, each claimed by two services, and each
// price change between: the balance never falls below zero, and each has its own fee once.
func TestPlatformFeesOfPayoutsAtOnce(t *testing.T) {
	const many = 500
	b := setup(t)
	b.price("10", b.Clock.Now().Add(-time.Hour))
	other := b.service()
	b.fund("20000.00")
	half := func() []transfer.Settled {
		return b.settleAtOnce(other, many/2, func(int) string { return "50.00" })
	}
	accepted := half()
	b.price("20", b.Clock.Now().Add(time.Second))
	b.Clock.Advance(time.Minute)
	accepted = append(accepted, half()...)
	require.Less(t, len(accepted), many)
	b.advanceAtOnce(accepted)
	require.Equal(t, len(accepted), testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE status = 'success'`))
	require.Equal(t, []int{250, len(accepted) - 250}, []int{
		testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE platform_fee = 10 AND platform_vat = 0.75`),
		testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE platform_fee = 20 AND platform_vat = 1.50`),
	})
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE account_id = $1 AND running_balance < 0`, b.account))
	b.sound()
	b.whole()
}
