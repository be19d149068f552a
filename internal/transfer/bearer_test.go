package transfer_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// bearerBundle is a bundle whose tenant bears what the bank takes: 10.00 is expected for a payout
// of 100.00, and fee and taxes are what it is.
func bearerBundle(t *testing.T, fee, vat string, change ...func(*transfer.Options)) *bundle {
	b := setup(t)
	b.bank = b.Bank(fakebank.Options{PayoutFee: money.Must(fee), PayoutVAT: money.Must(vat)})
	b.client = b.newClient(5 * time.Second)
	b.svc = b.bearerService(change...)
	b.bears("tenant")
	return b
}

func (b *bundle) bearerService(change ...func(*transfer.Options)) *transfer.Service {
	return b.service(append(change, func(o *transfer.Options) {
		require.NoError(b.T, o.Fees.UnmarshalText([]byte(defaults.FeeTiers)))
	})...)
}

func (b *bundle) bears(who string) {
	b.T.Helper()
	b.Exec(`UPDATE tenants SET payout_fee_by = $2 WHERE id = $1`, b.tenant, who)
}

// has checks the account's balance, and the fees in its statement that stand.
func (b *bundle) has(balance string, fees ...string) {
	b.T.Helper()
	require.Equal(b.T, balance, testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, b.account).String())
	got := testenv.Value[[]string](b.Env, `
		SELECT coalesce(array_agg(format('%s %s %s %s', direction, amount, contra, status) ORDER BY seq), '{}') FROM ledger_entries
		WHERE account_id = $1 AND kind = 'fee' AND status <> 'reversed'`, b.account)
	require.Equal(b.T, append([]string{}, fees...), got)
}

// Each end of a payout with each word of the bank about its fee, and what the tenant has borne of
// it. The wallet never notices who bears it.
func TestTenantBearsTheFee(t *testing.T) {
	later := func(do fakebank.Action) fakebank.Rule {
		return with(pays(do, 1), func(r *fakebank.Rule) { r.Delay = 10 * time.Minute })
	}
	soon := func(do fakebank.Action) fakebank.Rule {
		return with(pays(do, 1), func(r *fakebank.Rule) { r.Delay = time.Second })
	}
	const expected = "debit 10.00 bank_fees confirmed"
	for name, c := range map[string]struct {
		fee, vat string
		rule     fakebank.Rule
		first    string   // the balance at the first end, of 200.00
		fees     []string // and the fees
		then     func(*bundle, transfer.Transfer)
		last     string
		lines    []string
	}{
		"as expected": {fee: "10.00", vat: "0.00", rule: pays(fakebank.Paid, 1), first: "90.00", fees: []string{expected}},
		"more, and VAT": {
			fee: "20.00", vat: "1.50", rule: pays(fakebank.Paid, 1), first: "78.50",
			fees: []string{expected, "debit 10.00 bank_fees confirmed", "debit 1.50 taxes confirmed"},
		},
		"less":          {fee: "4.00", vat: "0.30", rule: pays(fakebank.Paid, 1), first: "95.70", fees: []string{expected, "credit 6.00 bank_fees confirmed", "debit 0.30 taxes confirmed"}},
		"none":          {fee: "0.00", vat: "0.00", rule: pays(fakebank.Paid, 1), first: "100.00"},
		"rejected":      {fee: "20.00", vat: "1.50", rule: pays(fakebank.Reject, 1), first: "200.00"},
		"failed":        {fee: "20.00", vat: "1.50", rule: soon(fakebank.FailLater), first: "200.00"},
		"failed, kept":  {fee: "20.00", vat: "1.50", rule: soon(fakebank.FailKept), first: "178.50", fees: []string{expected, "debit 10.00 bank_fees confirmed", "debit 1.50 taxes confirmed"}},
		"returned":      {fee: "10.00", vat: "1.50", rule: later(fakebank.Refund), first: "88.50", fees: []string{expected, "debit 1.50 taxes confirmed"}, then: (*bundle).recheck, last: "200.00", lines: []string{expected, "debit 1.50 taxes confirmed", "credit 10.00 bank_fees confirmed", "credit 1.50 taxes confirmed"}},
		"returned bare": {fee: "10.00", vat: "0.00", rule: later(fakebank.RefundKept), first: "90.00", fees: []string{expected}, then: (*bundle).recheck, last: "190.00", lines: []string{expected}},
		"not named": {
			fee: "20.00", vat: "1.50", rule: pays(fakebank.NoFee, 1), first: "90.00", fees: []string{"debit 10.00 bank_fees provisional"},
			then: func(b *bundle, p transfer.Transfer) {
				b.recheck(p)
				b.has("90.00", "debit 10.00 bank_fees provisional")
				b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.FeeUnsaid = false })
				b.recheck(p)
				b.recheck(p)
			}, last: "78.50", lines: []string{expected, "debit 10.00 bank_fees confirmed", "debit 1.50 taxes confirmed"},
		},
		"not named, and returned": {
			fee: "20.00", vat: "1.50", rule: pays(fakebank.NoFee, 1), first: "90.00", fees: []string{"debit 10.00 bank_fees provisional"},
			then: func(b *bundle, p transfer.Transfer) {
				b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.FeeUnsaid = false })
				_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
				require.NoError(b.T, err)
				b.recheck(p)
			}, last: "200.00",
		},
		"not named, told to a person": {
			fee: "20.00", vat: "1.50", rule: pays(fakebank.NoFee, 1), first: "90.00", fees: []string{"debit 10.00 bank_fees provisional"},
			then: func(b *bundle, p transfer.Transfer) {
				require.NoError(b.T, b.svc.BookCharges(b.ctx, p.MerchantTxRef, transfer.Charges{Fee: money.Must("20.00"), VAT: money.Must("1.50")}, audit.By{Actor: "cli:ada", Reason: "a letter"}))
			}, last: "78.50", lines: []string{expected, "debit 10.00 bank_fees confirmed", "debit 1.50 taxes confirmed"},
		},
		"paid after it failed": {
			fee: "20.00", vat: "0.00", rule: later(fakebank.PaidLate), first: "200.00", then: func(b *bundle, p transfer.Transfer) {
				b.recheck(p)
				b.resolved(p, true)
			}, last: "80.00", lines: []string{"debit 20.00 bank_fees confirmed"},
		},
		"failed after it was paid": {
			fee: "10.00", vat: "0.00", rule: later(fakebank.FailedLate), first: "90.00", fees: []string{expected}, then: func(b *bundle, p transfer.Transfer) {
				b.recheck(p)
				b.has("90.00", expected)
				b.resolved(p, false)
			}, last: "200.00", lines: []string{expected, "credit 10.00 bank_fees confirmed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bearerBundle(t, c.fee, c.vat)
			b.fund("200.00")
			b.bank.Faults.Set(c.rule)
			p := b.settle("100.00")
			b.has("90.00", "debit 10.00 bank_fees provisional")
			b.bears("platform") // what was accepted stays as it was accepted
			p = b.run(p)
			b.bank.Faults.Clear()
			b.has(c.first, c.fees...)
			b.whole()
			if c.then != nil {
				b.Clock.Advance(11 * time.Minute)
				c.then(b, p)
				b.has(c.last, c.lines...)
				b.whole()
			}
		})
	}
}

// whole checks that the books agree with themselves and the wallet.
func (b *bundle) whole() {
	b.T.Helper()
	b.consistent(testenv.Value[int64](b.Env, `SELECT count(*) FROM transfers WHERE differs_since IS NOT NULL`))
	trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, "9999-12-30")
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", trial.Total.String())
	books := testenv.Value[money.Amount](b.Env, `
		SELECT coalesce(sum(CASE direction WHEN 'debit' THEN -amount ELSE amount END), 0) FROM ledger_entries
		WHERE status <> 'reversed' AND contra = 'provider_float' AND transfer_ref IS NOT NULL`)
	if testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE status = 'processing' OR differs_since IS NOT NULL OR status = 'success' AND booked_fee IS NULL`) == 0 {
		require.Equal(b.T, books.String(), b.bank.Wallet().String())
	}
}

// The fee is covered before the payout leaves: neither is accepted without the other. A payout that
// waits for money waits for its fee too, and one that ends without leaving frees both.
func TestFeeIsCoveredFirst(t *testing.T) {
	b := bearerBundle(t, "10.00", "0.00")
	b.fund("109.99")
	_, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("100.00"), idempotency.Request{})
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	b.has("109.99")
	b.fund("0.01")
	p := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Success, p.Status)
	b.has("0.00", "debit 10.00 bank_fees confirmed")
	b.whole()

	first, second := b.credit("110.00"), b.credit("110.00")
	one, two := b.settle("100.00"), b.settle("100.00")
	b.MoveCredit(first, ledger.EventConfirm)
	b.step(two)
	require.Equal(t, transfer.Pending, b.get(two.MerchantTxRef).Status, "the first one's debit stands before it, and its fee's")
	one = b.run(one)
	require.Equal(t, transfer.Success, one.Status)
	b.has("0.00", "debit 10.00 bank_fees confirmed", "debit 10.00 bank_fees confirmed", "debit 10.00 bank_fees provisional")
	b.MoveCredit(second, ledger.EventReverse) // it proved false
	two = b.run(two)
	require.Equal(t, transfer.Failed, two.Status)
	b.has("0.00", "debit 10.00 bank_fees confirmed", "debit 10.00 bank_fees confirmed")
	b.whole()

	b.credit("200.00")
	waiting := b.settle("100.00")
	_, err = b.svc.Cancel(b.ctx, waiting.MerchantTxRef, audit.By{Actor: "cli:ada", Reason: "withdrawn"})
	require.NoError(t, err)
	b.has("200.00", "debit 10.00 bank_fees confirmed", "debit 10.00 bank_fees confirmed")
	b.whole()
}

// What the account does not have of a higher fee is the platform's to bear; a later step debits it
// when there is money, and none of another settlement's.
func TestPlatformBearsWhatIsMissing(t *testing.T) {
	b := bearerBundle(t, "20.00", "1.50")
	b.fund("115.00")
	p := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Success, p.Status)
	b.has("0.00", "debit 10.00 bank_fees confirmed", "debit 5.00 bank_fees confirmed")
	b.whole()
	spent := func() string {
		trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, "9999-12-30")
		require.NoError(t, err)
		return trial.Accounts[2].Debit.String() + " " + trial.Accounts[3].Debit.String()
	}
	require.Equal(t, "5.00 1.50", spent())

	b.credit("50.00") // not confirmed: it may be taken back
	b.Clock.Advance(16 * time.Minute)
	b.recheck(p)
	require.Equal(t, "5.00 1.50", spent())
	b.fund("6.00")
	b.Clock.Advance(3 * time.Hour)
	b.recheck(p)
	b.has("50.00", "debit 10.00 bank_fees confirmed", "debit 5.00 bank_fees confirmed", "debit 5.00 bank_fees confirmed", "debit 1.00 taxes confirmed")
	require.Equal(t, "0.00 0.50", spent())
	b.whole()
}

// Many settlements and their ends at once, each with a higher fee than was expected: what is
// available never falls below zero, nothing is booked twice, and what was accepted is paid.
func TestManyFeesAtOnce(t *testing.T) {
	const many = 500
	b := bearerBundle(t, "12.50", "0.94")
	other := b.bearerService()
	b.fund("30000.00")
	accepted := b.settleAtOnce(other, many, func(i int) string { return fmt.Sprintf("%d.00", 50+i%50) })
	require.NotEmpty(t, accepted)
	require.Less(t, len(accepted), many)
	b.advanceAtOnce(accepted)
	require.Equal(t, len(accepted), testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE status = 'success' AND tenant_fee >= 10`))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE account_id = $1 AND running_balance < 0`, b.account))
	b.whole()
}

// settleAtOnce asks for n settlements at once, which b's service and another one take forward as
// soon as they are accepted. It returns these; the others lack money.
func (b *bundle) settleAtOnce(other *transfer.Service, n int, amount func(i int) string) (accepted []transfer.Settled) {
	b.T.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		all.Go(func() {
			s, err := b.svc.Settle(b.ctx, b.tenant, "shop", order(amount(i)), idempotency.Request{})
			if err != nil {
				require.ErrorIs(b.T, err, ledger.ErrInsufficientFunds)
				return
			}
			for _, svc := range []*transfer.Service{b.svc, other} {
				all.Go(func() { _ = svc.Advance(b.ctx, s.TransferID) })
			}
			mu.Lock()
			accepted = append(accepted, s)
			mu.Unlock()
		})
	}
	all.Wait()
	return accepted
}

// advanceAtOnce takes the settlements forward, each time ten minutes later, until all have ended.
func (b *bundle) advanceAtOnce(accepted []transfer.Settled) {
	b.T.Helper()
	var all sync.WaitGroup
	for range 20 {
		if testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE status IN ('pending', 'processing')`) == 0 {
			break
		}
		b.Clock.Advance(10 * time.Minute)
		for _, s := range accepted {
			all.Go(func() { _ = b.svc.Advance(b.ctx, s.TransferID) })
		}
		all.Wait()
	}
}
