package transfer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// states are payouts of one account, by the state that they are in.
type states struct {
	paid, failed, processing, refund, awaiting, pending transfer.Transfer
	payment                                             uuid.UUID // the entry of which the refund is
	saved                                               transfer.Beneficiary
}

// fill makes a payout in each state, of 10.00 to 60.00, of an account that has 1,100.00.
func (b *bundle) fill() (s states) {
	b.T.Helper()
	b.fund("1000.00")
	ref := testenv.Value[string](b.Env, `SELECT account_ref FROM accounts WHERE id = $1`, b.account)
	settle := func(amount string) transfer.Transfer {
		made, err := b.svc.Settle(b.ctx, b.tenant, ref, order(amount), b.key(uuid.NewString(), order(amount)))
		require.NoError(b.T, err)
		return b.get(accepted(b.T, made).MerchantTxRef)
	}
	s.paid = b.run(settle("10.00"))
	b.bank.Faults.Set(pays(fakebank.Reject, 1))
	s.failed = b.run(settle("20.00"))
	b.bank.Faults.Set(lags(365 * 24 * time.Hour))
	s.processing = settle("30.00")
	b.asked(s.processing, 1)
	s.processing = b.get(s.processing.MerchantTxRef)
	b.bank.Faults.Clear()
	_, s.payment = b.received("100.00", &payer)
	s.refund = b.refunded(s.payment, "40.00")
	b.policy(1, "45.00", "")
	s.awaiting = settle("50.00")
	b.policy(0, "", "")
	s.pending = settle("45.00")
	s.saved = b.save("0123456789", ref)
	require.Equal(b.T, []transfer.Status{transfer.Success, transfer.Failed, transfer.Processing, transfer.Pending, transfer.Pending, transfer.Pending},
		[]transfer.Status{s.paid.Status, s.failed.Status, s.processing.Status, s.refund.Status, s.awaiting.Status, s.pending.Status})
	return s
}

// neighbours fills an account of another tenant's and another one of the test's own tenant, and
// returns what the latter has.
func (b *bundle) neighbours() (s states) {
	b.T.Helper()
	for _, tenant := range []uuid.UUID{b.Tenant(), b.tenant} {
		other := *b
		other.tenant, other.account = tenant, b.Account(tenant, "filled")
		s = other.fill()
	}
	return s
}

// Whatever is done with the payouts of an account changes nothing of another's, be it the same
// tenant's.
func TestNothingOfTheNeighboursChanges(t *testing.T) {
	b := setup(t)
	b.neighbours()
	// days' sums and the balances of the service's own accounts are of all payouts
	common := []string{"ledger_days (", "ledger_balances (ffffffff", b.account.String()}
	var own states
	b.Touches(func() { own = b.fill() }, append(common, "tenants (")...)
	touches := func(id uuid.UUID, do func() error) {
		t.Helper()
		b.Touches(func() { require.NoError(t, do()) }, append([]string{id.String()}, common...)...)
	}
	touches(own.pending.ID, func() error { b.run(own.pending); return nil })
	touches(own.refund.ID, func() error { b.run(own.refund); return nil })
	touches(own.awaiting.ID, func() error {
		_, err := b.decide(own.awaiting, uuid.New(), transfer.Approve)
		b.run(own.awaiting)
		return err
	})
	touches(own.processing.ID, func() error {
		_, err := b.svc.Resolve(b.ctx, own.processing.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
		return err
	})
	touches(own.processing.ID, func() error {
		return b.svc.BookCharges(b.ctx, own.processing.MerchantTxRef, transfer.Charges{Fee: money.Must("5.00"), VAT: money.Must("1.00")}, byHand)
	})
	touches(own.paid.ID, func() error { return b.svc.Poll(b.ctx, own.paid.MerchantTxRef, byHand) })
	touches(own.paid.ID, func() error { b.recheck(own.paid); return nil })
	touches(own.paid.ID, func() error { _, err := b.svc.Expedite(b.ctx, own.paid.MerchantTxRef); return err })
	fresh := b.settle("11.00")
	touches(fresh.ID, func() error { _, err := b.svc.Cancel(b.ctx, fresh.MerchantTxRef, byHand); return err })
	rejected := b.waiting(1)
	touches(rejected.ID, func() error { _, err := b.decide(rejected, uuid.New(), transfer.Reject); return err })
	touches(own.saved.ID, func() error {
		_, err := b.svc.RenameBeneficiary(b.ctx, b.tenant, own.saved.ID, "another", saver)
		return err
	})
	touches(own.saved.ID, func() error {
		_, _, err := b.svc.ExemptBeneficiary(b.ctx, b.tenant, own.saved.ID, true, saver)
		return err
	})
	touches(own.saved.ID, func() error { _, err := b.svc.RemoveBeneficiary(b.ctx, b.tenant, own.saved.ID, saver); return err })
	group, entry := b.received("100.00", &payer)
	b.holdFor(ledger.HeldForRefund, entry, "100.00")
	touches(group, func() error { return b.svc.RefundByPolicy(b.ctx, group) })
	b.agree()
}

// sums are the amounts of payouts.
func sums(list []transfer.Transfer) string {
	var all []string
	for _, t := range list {
		all = append(all, t.Amount.String())
	}
	return strings.Join(all, " ")
}

// A tenant's list has its own payouts, those alone that the filter asks for.
func TestFilteredPayouts(t *testing.T) {
	b := setup(t)
	others := b.neighbours()
	own := b.fill()
	amount := money.Must("30.00")
	for want, filters := range map[string][]transfer.Filter{
		"45.00 50.00 40.00 30.00 20.00 10.00":                                     {{AccountRef: "shop"}, {Search: "SHOP"}},
		"45.00 50.00 40.00 30.00 20.00 10.00 45.00 50.00 40.00 30.00 20.00 10.00": {{}, {Search: "0123456789"}},
		"45.00 50.00 40.00": {{AccountRef: "shop", Status: transfer.Pending}, {Search: "shop", Status: transfer.Pending}},
		"30.00":             {{AccountRef: "shop", Status: transfer.Processing}, {AccountRef: "shop", Amount: &amount}, {Search: own.processing.MerchantTxRef}},
		"10.00":             {{AccountRef: "shop", Status: transfer.Success}, {AccountRef: "shop", Search: "amina"}},
		"20.00":             {{AccountRef: "shop", Status: transfer.Failed}},
		"50.00":             {{AccountRef: "shop", Awaiting: transfer.AwaitingApproval}},
		"50.00 50.00":       {{Awaiting: transfer.AwaitingApproval}},
		"30.00 30.00":       {{Amount: &amount}, {Status: transfer.Processing}},
		"":                  {{AccountRef: "shop", Status: transfer.Refunded}, {Search: "nobody"}, {Status: transfer.Failed, Awaiting: transfer.AwaitingApproval}},
	} {
		for _, f := range filters {
			list, info, err := b.svc.List(b.ctx, b.tenant, f, page.Request{Limit: 20, Total: true})
			require.NoError(t, err)
			if f.Search == "amina" { // whoever the bank has named
				list = slices.DeleteFunc(list, func(t transfer.Transfer) bool { return t.Status != transfer.Success })
			} else {
				require.Equal(t, len(list), info.Total.Count)
			}
			require.Equal(t, want, sums(list), "%+v", f)
		}
	}
	for want, f := range map[error]transfer.Filter{transfer.ErrStatus: {Status: "lost"}, transfer.ErrAwaiting: {Awaiting: "money"}, account.ErrNotFound: {AccountRef: "nobody"}} {
		_, _, err := b.svc.List(b.ctx, b.tenant, f, page.Request{Limit: 20})
		require.ErrorIs(t, err, want)
	}
	awaiting, err := b.svc.AwaitingApproval(b.ctx, b.tenant)
	require.NoError(t, err)
	require.Equal(t, []any{2, "100.00"}, []any{awaiting.Count, awaiting.Amount.String()})
	for ref, p := range map[string]transfer.Transfer{"shop": own.paid, "filled": others.paid} {
		require.Equal(t, ref, p.AccountRef)
		found, more, err := b.svc.Search(b.ctx, b.tenant, p.MerchantTxRef, nil, 5)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, []transfer.Transfer{p}, found)
	}
	saved, _, err := b.svc.Beneficiaries(b.ctx, b.tenant, page.Request{Limit: 5})
	require.NoError(t, err)
	require.Equal(t, []transfer.Beneficiary{own.saved}, saved)
	other := b.Tenant()
	found, _, err := b.svc.Search(b.ctx, other, own.paid.MerchantTxRef, nil, 5)
	require.NoError(t, err)
	require.Empty(t, found)
	_, err = b.svc.Get(b.ctx, other, own.paid.MerchantTxRef)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = b.svc.Approval(b.ctx, other, own.awaiting.MerchantTxRef)
	require.ErrorIs(t, err, transfer.ErrNotFound)
	_, err = b.svc.Beneficiary(b.ctx, other, own.saved.ID)
	require.ErrorIs(t, err, transfer.ErrBeneficiary)
}

// There may be more than a search shows where any of what it looks for has more, or all of it
// together.
func TestMoreOfASearch(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	whole := b.settle("10.00").MerchantTxRef
	for _, amount := range []string{"20.00", "20.00", "30.00", "30.00", "30.00"} {
		b.settle(amount)
	}
	for name, c := range map[string]struct {
		text, sum string
		found     int
		more      bool
	}{
		"a whole reference":      {whole, "", 1, false},
		"and a sum":              {whole, "10.00", 1, false},
		"of a sum, all":          {"nobody", "20.00", 2, false},
		"of a sum":               {"nobody", "30.00", 2, true},
		"of a text":              {"shop", "", 2, true},
		"of both, each of which": {whole, "20.00", 2, true},
	} {
		var sum *money.Amount
		if c.sum != "" {
			sum = new(money.Must(c.sum))
		}
		found, more, err := b.svc.Search(b.ctx, b.tenant, c.text, sum, 2)
		require.NoError(t, err)
		require.Equal(t, []any{c.found, c.more}, []any{len(found), more}, name)
	}
}

// Whatever the payouts are ordered by, the pages have each once, in one order.
func TestSortedPayouts(t *testing.T) {
	b := setup(t)
	b.neighbours()
	b.fill()
	for sort, want := range map[page.Sort]string{
		{}:                                  "45.00 50.00 40.00 30.00 20.00 10.00 45.00 50.00 40.00 30.00 20.00 10.00",
		{By: page.Created, Ascending: true}: "10.00 20.00 30.00 40.00 50.00 45.00 10.00 20.00 30.00 40.00 50.00 45.00",
		{By: page.Amount}:                   "50.00 50.00 45.00 45.00 40.00 40.00 30.00 30.00 20.00 20.00 10.00 10.00",
		{By: page.Amount, Ascending: true}:  "10.00 10.00 20.00 20.00 30.00 30.00 40.00 40.00 45.00 45.00 50.00 50.00",
	} {
		for _, limit := range []int{1, 5} {
			var all []transfer.Transfer
			r := page.Request{Limit: limit, Sort: sort}
			for {
				list, info, err := b.svc.List(b.ctx, b.tenant, transfer.Filter{}, r)
				require.NoError(t, err)
				if all = append(all, list...); !info.HasMore {
					break
				}
				r.After = *info.NextCursor
			}
			require.Equal(t, want, sums(all), "%+v by %d", sort, limit)
			ids := map[uuid.UUID]bool{}
			for _, p := range all {
				ids[p.ID] = true
			}
			require.Len(t, ids, 12)
		}
	}
}

// An operator's list has all tenants' payouts, or one tenant's, each with its own tenant, account
// and item of work.
func TestRecordsOfPayouts(t *testing.T) {
	b := setup(t)
	b.neighbours()
	own := b.fill()
	b.Exec(`UPDATE tenants SET name = 'Ours' WHERE id = $1`, b.tenant)
	b.Exec(`UPDATE transfers SET difference = 'x', differs_since = $2 WHERE id = $1`, own.paid.ID, b.Clock.Now())
	count := func(f transfer.RecordFilter) (n int) {
		t.Helper()
		r := page.Request{Limit: 5}
		for {
			list, info, err := b.svc.Records(b.ctx, f, r)
			require.NoError(t, err)
			if n += len(list); !info.HasMore {
				return n
			}
			r.After = *info.NextCursor
		}
	}
	for want, filters := range map[int][]transfer.RecordFilter{
		18: {{}}, 12: {{TenantID: b.tenant}}, 9: {{Status: transfer.Pending}}, 6: {{TenantID: b.tenant, Status: transfer.Pending}},
		3: {{Status: transfer.Processing}, {Status: transfer.Failed}, {Status: transfer.Success}},
		2: {{TenantID: b.tenant, Status: transfer.Failed}, {TenantID: b.tenant, Status: transfer.Processing}}, 1: {{Differing: true}, {Differing: true, TenantID: b.tenant}},
		0: {{Status: transfer.Refunded}, {Differing: true, Status: transfer.Failed}, {TenantID: uuid.New()}},
	} {
		for _, f := range filters {
			require.Equal(t, want, count(f), "%+v", f)
		}
	}
	_, _, err := b.svc.Records(b.ctx, transfer.RecordFilter{Status: "lost"}, page.Request{Limit: 5})
	require.ErrorIs(t, err, transfer.ErrStatus)
	d, err := b.svc.Show(b.ctx, own.pending.MerchantTxRef)
	require.NoError(t, err)
	require.Equal(t, []any{own.pending.ID, b.tenant, "Ours", b.account, "shop", "45.00"}, []any{d.ID, d.TenantID, d.TenantName, d.AccountID, d.AccountRef, d.Amount.String()})
	require.Len(t, d.Entries, 1)
	require.Equal(t, "45.00", d.Entries[0].Amount.String())
	d, err = b.svc.Show(b.ctx, own.paid.MerchantTxRef)
	require.NoError(t, err)
	require.Equal(t, "20.00", d.ProviderFee.String())
	require.Len(t, d.Entries, 1, "the fee is the platform's")
	next := func() string {
		d, err := b.svc.Show(b.ctx, own.awaiting.MerchantTxRef)
		require.NoError(t, err)
		return d.NextStep
	}
	require.Contains(t, next(), "wait for the approval of its tenant's members")
	b.approve(own.awaiting)
	require.Contains(t, next(), "wait for confirmed cover")
	_, err = b.svc.Show(b.ctx, "nobody's")
	require.ErrorIs(t, err, transfer.ErrNotFound)
}
