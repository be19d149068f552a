package transfer_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// What the bank takes for a payout in these tests.
const (
	someFee   = "20.00"
	someTaxes = "51.50" // 1.50 and 50.00
)

// chargesBundle is a bundle whose bank names VAT and stamp duty too.
func chargesBundle(t *testing.T) *bundle {
	b := setup(t)
	b.bank = b.Bank(fakebank.Options{PayoutFee: money.Must(someFee), PayoutVAT: money.Must("1.50"), PayoutStampDuty: money.Must("50.00")})
	b.client = b.newClient(5 * time.Second)
	b.svc = b.service()
	return b
}

// spent checks what the books have of the bank's charges, in how many entries, and that the books
// agree with themselves.
func (b *bundle) spent(fee, taxes string, entries int) {
	b.T.Helper()
	of := func(a ledger.SystemAccount) string {
		return testenv.Value[money.Amount](b.Env, `SELECT coalesce((SELECT -balance FROM ledger_balances WHERE account_id = $1), 0)`, a.ID()).String()
	}
	require.Equal(b.T, []string{fee, taxes}, []string{of(ledger.BankFees), of(ledger.Taxes)})
	require.Equal(b.T, entries, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE kind = 'fee'`))
	findings, err := invariant.Verify(b.ctx, b.Pool)
	require.NoError(b.T, err)
	require.Empty(b.T, slices.DeleteFunc(findings, func(f ledger.Finding) bool { return f.Check == invariant.CheckCreditEvent }), "funds come without an event")
	trial, err := ledger.ReadTrialBalance(b.ctx, b.Pool, "9999-12-30")
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", trial.Total.String())
}

// agrees checks that the wallet lacks exactly what the books say has left it.
func (b *bundle) agrees() {
	b.T.Helper()
	books := testenv.Value[money.Amount](b.Env, `
		SELECT coalesce(sum(CASE direction WHEN 'debit' THEN -amount ELSE amount END), 0) FROM ledger_entries
		WHERE status <> 'reversed' AND (kind = 'fee' OR transfer_ref IS NOT NULL)`)
	require.Equal(b.T, books.String(), b.bank.Wallet().String())
}

// settled has a payout of 100.00 go as the bank's rule has it, and asks until nothing is left to
// ask.
func (b *bundle) settled(rule fakebank.Rule) transfer.Transfer {
	b.T.Helper()
	b.fund("1000.00")
	b.bank.Faults.Set(rule)
	p := b.run(b.settle("100.00"))
	b.bank.Faults.Clear()
	return p
}

// recheck does the next step of a transfer that has ended.
func (b *bundle) recheck(p transfer.Transfer) {
	b.T.Helper()
	b.untilDue(p)
	_ = b.svc.Advance(b.ctx, p.ID) // there is another, or it was the last
}

func (b *bundle) resolved(p transfer.Transfer, paid bool) {
	b.T.Helper()
	_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: paid}, audit.By{Actor: "cli:ada", Reason: "asked the bank"})
	require.NoError(b.T, err)
}

// Each end books what the bank's record says that it took, once, and each later word of the bank is
// booked by the difference.
func TestChargesAreBookedFromTheRecord(t *testing.T) {
	late := func(do fakebank.Action) fakebank.Rule {
		return with(pays(do, 1), func(r *fakebank.Rule) { r.Delay = 10 * time.Minute })
	}
	for name, c := range map[string]struct {
		rule  fakebank.Rule
		fee   string // at the first end
		taxes string
		then  func(*bundle, transfer.Transfer)
		fees  string // in the end
		taxed string
		lines int
	}{
		"paid":                 {rule: pays(fakebank.Paid, 1), fee: someFee, taxes: someTaxes, fees: someFee, taxed: someTaxes, lines: 2},
		"rejected":             {rule: pays(fakebank.Reject, 1), fee: "0.00", taxes: "0.00", fees: "0.00", taxed: "0.00"},
		"failed":               {rule: with(pays(fakebank.FailLater, 1), func(r *fakebank.Rule) { r.Delay = time.Second }), fee: "0.00", taxes: "0.00", fees: "0.00", taxed: "0.00"},
		"failed, the fee kept": {rule: with(pays(fakebank.FailKept, 1), func(r *fakebank.Rule) { r.Delay = time.Second }), fee: someFee, taxes: someTaxes, fees: someFee, taxed: someTaxes, lines: 2},
		"given back": {
			rule: late(fakebank.Refund), fee: someFee, taxes: someTaxes, then: (*bundle).recheck, fees: "0.00", taxed: "0.00", lines: 4,
		},
		"given back without the fee": {
			rule: late(fakebank.RefundKept), fee: someFee, taxes: someTaxes, then: (*bundle).recheck, fees: someFee, taxed: someTaxes, lines: 2,
		},
		"not named": {rule: pays(fakebank.NoFee, 1), fee: "0.00", taxes: "0.00", then: func(b *bundle, p transfer.Transfer) {
			b.recheck(p)
			b.spent("0.00", "0.00", 0)
			b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.FeeUnsaid = false })
			b.recheck(p)
			b.recheck(p)
		}, fees: someFee, taxed: someTaxes, lines: 2},
		"said otherwise later": {rule: pays(fakebank.Paid, 1), fee: someFee, taxes: someTaxes, then: func(b *bundle, p transfer.Transfer) {
			b.bank.Faults.Set(with(answers(fakebank.AlterFee, 1), func(r *fakebank.Rule) { r.Value = "25.00" }))
			b.recheck(p)
			b.spent("25.00", someTaxes, 3)
			b.recheck(p)
		}, fees: someFee, taxed: someTaxes, lines: 4},
		"paid after it failed": {rule: late(fakebank.PaidLate), fee: "0.00", taxes: "0.00", then: func(b *bundle, p transfer.Transfer) {
			b.recheck(p)
			b.spent("0.00", "0.00", 0)
			b.resolved(p, true)
		}, fees: someFee, taxed: someTaxes, lines: 2},
		"failed after it was paid": {rule: late(fakebank.FailedLate), fee: someFee, taxes: someTaxes, then: func(b *bundle, p transfer.Transfer) {
			b.recheck(p)
			b.spent(someFee, someTaxes, 2)
			b.resolved(p, false)
		}, fees: "0.00", taxed: "0.00", lines: 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := chargesBundle(t)
			p := b.settled(c.rule)
			b.spent(c.fee, c.taxes, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE kind = 'fee'`))
			if c.then != nil {
				b.Clock.Advance(11 * time.Minute)
				c.then(b, p)
			}
			b.spent(c.fees, c.taxed, c.lines)
			b.agrees()
			got := b.get(p.MerchantTxRef)
			if c.fees == "0.00" {
				require.Equal(t, [3]*money.Amount{}, [3]*money.Amount{got.ProviderFee, got.VAT, got.StampDuty}, "the bank took nothing")
				return
			}
			require.Equal(t, []string{c.fees, c.taxed}, []string{got.ProviderFee.String(), money.Sum(got.VAT, got.StampDuty).String()})
		})
	}
}

// Charges that the bank has kept of a payout that failed, and that its record does not keep any
// longer, are given back.
func TestKeptChargesThatAreGivenBack(t *testing.T) {
	b := chargesBundle(t)
	p := b.settled(with(pays(fakebank.FailKept, 1), func(r *fakebank.Rule) { r.Delay = time.Second }))
	require.Equal(t, transfer.Failed, p.Status)
	b.spent(someFee, someTaxes, 2)
	b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.FeeKept = false })
	for range 2 { // the second time changes nothing
		b.recheck(p)
		b.spent("0.00", "0.00", 4)
	}
}

// An operator's end books what the bank's record names, and nothing where the bank has none; a
// later record is booked when it is seen.
func TestChargesOfAnEndByHand(t *testing.T) {
	for _, paid := range []bool{true, false} {
		t.Run(fmt.Sprint(paid), func(t *testing.T) {
			b := chargesBundle(t)
			b.fund("1000.00")
			b.bank.Faults.Set(pays(fakebank.Lagging, 1), answers(fakebank.NotFound, 0))
			p := b.settle("100.00")
			b.step(p)
			b.resolved(p, paid)
			b.spent("0.00", "0.00", 0)
			if paid {
				b.bank.Faults.Clear()
				b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.ShownAt = nil })
				b.Clock.Advance(time.Hour)
				b.recheck(p)
				b.spent(someFee, someTaxes, 2)
				b.agrees()
			}
		})
	}
}

// The same answer for two workers at once, and again later, is booked once.
func TestChargesAreBookedOnce(t *testing.T) {
	b := chargesBundle(t)
	other := b.service()
	for range 5 {
		b.fund("100.00")
		b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
		p := b.settle("100.00")
		b.step(p)
		b.bank.Faults.Clear()
		var all sync.WaitGroup
		b.untilDue(p)
		for _, s := range []*transfer.Service{b.svc, other, b.svc, other} {
			all.Go(func() { _ = s.Advance(b.ctx, p.ID) })
		}
		all.Wait()
		p = b.run(p)
		require.Equal(t, transfer.Success, p.Status)
		_, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
		require.NoError(t, err)
		for _, s := range []*transfer.Service{b.svc, other, b.svc, other} {
			all.Go(func() { _ = s.Advance(b.ctx, p.ID) })
		}
		all.Wait()
	}
	b.spent("100.00", "257.50", 10)
	b.agrees()
}

// What a person has found out is booked where no record names the fee, is corrected by a later one,
// and never against a record that names it.
func TestChargesByHand(t *testing.T) {
	by := audit.By{Actor: "cli:ada", Reason: "the bank's letter"}
	told := transfer.Charges{Fee: money.Must("30.00"), VAT: money.Must("2.25")}
	for name, end := range map[string]func(*fakebank.Payout){
		"paid":             func(*fakebank.Payout) {},
		"failed, kept":     func(p *fakebank.Payout) { p.NextStatus, p.FeeKept = fakebank.StatusFailed, true },
		"failed, not kept": func(p *fakebank.Payout) { p.NextStatus = fakebank.StatusFailed },
	} {
		t.Run(name, func(t *testing.T) {
			b := chargesBundle(t)
			b.fund("1000.00")
			b.bank.Faults.Set(with(pays(fakebank.NoFee, 1), func(r *fakebank.Rule) { r.Delay = time.Second }))
			p := b.settle("100.00")
			book := func(c transfer.Charges) error { return b.svc.BookCharges(b.ctx, p.MerchantTxRef, c, by) }
			unasked := b.service(func(o *transfer.Options) { o.Bank = nil })
			bookUnasked := func(c transfer.Charges) error { return unasked.BookCharges(b.ctx, p.MerchantTxRef, c, by) }
			b.step(p)
			require.ErrorIs(t, book(told), transfer.ErrNoCharges, "it is still under way")
			require.ErrorIs(t, bookUnasked(told), transfer.ErrNoCharges)
			b.bank.SetPayout(p.MerchantTxRef, end)
			b.Clock.Advance(2 * time.Second)
			require.ErrorIs(t, book(told), transfer.ErrNoCharges, "no step has booked its end yet")
			p = b.run(p)
			if name == "failed, not kept" {
				require.ErrorIs(t, book(told), transfer.ErrNoCharges)
				return
			}
			b.spent("0.00", "0.00", 0)
			one := money.Must("1.00").Neg()
			for _, below := range []transfer.Charges{{Fee: one}, {Fee: told.Fee, VAT: one}, {Fee: told.Fee, StampDuty: one}} {
				require.ErrorIs(t, book(below), transfer.ErrCharges)
			}
			first := transfer.Charges{Fee: money.Must("300.00")}
			if name == "paid" {
				require.NoError(t, bookUnasked(first))
			} else {
				require.ErrorIs(t, bookUnasked(first), transfer.ErrNoCharges, "nobody says that they are kept")
				require.NoError(t, book(first))
			}
			b.spent("300.00", "0.00", 1)
			require.ErrorIs(t, bookUnasked(told), transfer.ErrChargesKnown, "a record may have named it")
			duty := told
			duty.StampDuty = money.Must("50.00")
			for _, c := range []struct {
				transfer.Charges
				taxes string
				lines int
			}{
				{told, "2.25", 3},  // the first was a slip of the pen
				{told, "2.25", 3},  // nothing is booked twice
				{duty, "52.25", 4}, // only the taxes change
				{transfer.Charges{VAT: money.Must("2.25")}, "2.25", 6}, // no fee at all
				{told, "2.25", 7},
			} {
				require.NoError(t, book(c.Charges))
				b.spent(c.Fee.String(), c.taxes, c.lines)
			}
			got := b.get(p.MerchantTxRef)
			require.Equal(t, []string{"30.00", "2.25", "0.00"}, []string{got.ProviderFee.String(), got.VAT.String(), got.StampDuty.String()})

			b.Clock.Advance(16 * time.Minute)
			b.recheck(p)
			b.spent("30.00", "2.25", 7)
			b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.FeeUnsaid = false })
			require.ErrorIs(t, book(told), transfer.ErrChargesNamed)
			b.Clock.Advance(3 * time.Hour)
			b.recheck(p)
			b.spent(someFee, someTaxes, 9)
			b.agrees()
		})
	}
}
