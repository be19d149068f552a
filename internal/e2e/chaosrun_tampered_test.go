package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

// wellEnded is a small run in which all is right: a payment of each course, and a settlement of
// each end.
func wellEnded() (*record, *seen) {
	r := newRecord()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	v := &seen{entries: map[string][]seenEntry{}, balances: map[string]string{"a-0": "3175.00", "a-1": "0.00", "a-2": "80.00"}, transfers: map[string]seenTransfer{}}
	credit := func(account, net, status string, c course) {
		p := r.draft(account, naira(net).Add(naira("25.00")), naira("25.00"), c)
		p.txID = "tx-" + p.narration()
		if !p.unannounced() {
			p.accepted = now
		}
		record := fakebank.Transaction{ID: p.txID, Status: fakebank.StatusSuccess, Amount: p.gross, Fee: p.fee}
		switch c {
		case falsely:
			record.Status = fakebank.StatusFailed
		case recalled, withdrawn:
			record.Status = fakebank.StatusRefund
		case altered:
			record.Amount = record.Amount.Add(altering)
		}
		v.list = append(v.list, record)
		r.published[p.no] = &published{first: now, times: 1}
		v.entries[account] = append(v.entries[account], seenEntry{ID: p.txID, Direction: "credit", Amount: net, Fee: "25.00", Status: status, ProviderTxnRef: p.txID})
		if status == "reversed" {
			v.entries[account] = append(v.entries[account], seenEntry{ID: "not " + p.txID, Direction: "debit", Amount: net, Status: status, ReversalOf: &p.txID})
		}
	}
	credit("a-0", "3000.00", "confirmed", arrives)
	credit("a-0", "275.00", "confirmed", silence)
	credit("a-0", "400.00", "reversed", falsely)
	credit("a-0", "500.00", "needs_review", altered)
	credit("a-1", "100.00", "confirmed", arrives)
	credit("a-1", "60.00", "reversed", recalled)
	credit("a-1", "70.00", "reversed", withdrawn)
	credit("a-2", "80.00", "confirmed", lingers)
	settle := func(account, amount, end string) {
		o := r.order(account, naira(amount))
		o.ref = "ref-" + o.destination
		v.transfers[o.ref] = seenTransfer{o.ref, end, amount, account, o.destination}
		status := "confirmed"
		if end != "success" {
			status = "reversed"
		}
		v.entries[account] = append(v.entries[account], seenEntry{ID: "debit " + o.ref, Direction: "debit", Amount: amount, Status: status, TransferRef: &o.ref})
		p := fakebank.Payout{Ref: o.ref, AccountNumber: o.destination, Amount: o.amount, Status: fakebank.StatusSuccess}
		if end == "refunded" {
			p.Status = fakebank.StatusRefund
		}
		if end == "success" {
			v.paid = append(v.paid, p)
		}
		if end != "failed" {
			v.payouts = append(v.payouts, p)
		}
	}
	settle("a-0", "100.00", "success")
	settle("a-0", "50.00", "refunded")
	settle("a-1", "100.00", "success")
	r.order("a-1", naira("5.00")).refusal = "insufficient funds"
	return r, v
}

// The checker finds nothing in a run that is right, and names each thing that is tampered into it.
func TestTamperedRecords(t *testing.T) {
	t.Parallel()
	r, v := wellEnded()
	require.Empty(t, check(r, v))
	first := func(v *seen) *seenEntry { return &v.entries["a-0"][0] }
	transfer := func(v *seen, no int, change func(*seenTransfer)) {
		ref := v.paid[no].Ref
		x := v.transfers[ref]
		change(&x)
		v.transfers[ref] = x
	}
	for _, c := range []struct {
		name   string
		tamper func(*record, *seen)
		kinds  []string
	}{
		{"an event is lost", func(_ *record, v *seen) { v.entries["a-0"] = v.entries["a-0"][1:] }, []string{foundLost, foundRunning}},
		{"an event that was never answered 200", func(r *record, v *seen) {
			r.payments[0].accepted = time.Time{}
			v.entries["a-0"] = v.entries["a-0"][1:]
		}, []string{foundUnaccepted}},
		{"a payment that only the list knew is lost", func(_ *record, v *seen) { v.entries["a-0"] = slices.Delete(v.entries["a-0"], 1, 2) }, []string{foundMissed, foundBalance}},
		{"an entry twice", func(_ *record, v *seen) { v.entries["a-0"] = append(v.entries["a-0"], *first(v)) }, []string{foundTwice, foundRunning}},
		{"an entry twice, on two accounts", func(_ *record, v *seen) { v.entries["a-1"] = append(v.entries["a-1"], *first(v)) }, []string{foundTwice}},
		{"an entry on another account", func(_ *record, v *seen) {
			v.entries["a-1"] = append(v.entries["a-1"], *first(v))
			v.entries["a-0"] = v.entries["a-0"][1:]
		}, []string{foundElsewhere}},
		{"another sum", func(_ *record, v *seen) { first(v).Amount = "3000.01" }, []string{foundAmount}},
		{"another fee", func(_ *record, v *seen) { first(v).Fee = "0.00" }, []string{foundAmount}},
		{"a credit that stays provisional", func(_ *record, v *seen) { first(v).Status = "provisional" }, []string{foundStatus}},
		{"false money is confirmed", func(_ *record, v *seen) { v.entries["a-0"][2].Status = "confirmed" }, []string{foundStatus}},
		{"a credit from nowhere", func(_ *record, v *seen) {
			v.entries["a-1"] = append(v.entries["a-1"], seenEntry{Direction: "credit", Amount: "1.00", Status: "reversed", ProviderTxnRef: "tx-forged"})
		}, []string{foundUnexplained}},
		{"a payment is not published", func(r *record, _ *seen) { delete(r.published, 1) }, []string{foundNotPublished}},
		{"a delivery is not genuine", func(r *record, _ *seen) { r.published[1].odd = "the signature does not hold" }, []string{foundOdd}},
		{"a settlement vanishes", func(_ *record, v *seen) { delete(v.transfers, v.paid[0].Ref) }, []string{foundVanished, foundPaid, foundDebit}},
		{"a settlement does not end", func(_ *record, v *seen) { transfer(v, 0, func(x *seenTransfer) { x.Status = "processing" }) }, []string{foundUnended, foundPaid}},
		{"a settlement of another sum", func(_ *record, v *seen) { transfer(v, 0, func(x *seenTransfer) { x.Amount = "1.00" }) }, []string{foundOther, foundPaid}},
		{"a refused settlement is done", func(r *record, _ *seen) { r.orders[0].ref, r.orders[0].refusal = "", "insufficient funds" }, []string{foundRefused}},
		{"a settlement without an answer", func(r *record, _ *seen) { r.orders[3].refusal = "" }, []string{foundUndecided}},
		{"two transfers for one settlement", func(_ *record, v *seen) {
			transfer(v, 0, func(x *seenTransfer) {
				x.MerchantTxRef = "again"
				v.transfers["again"] = *x
				x.MerchantTxRef = v.paid[0].Ref
			})
		}, []string{foundPaidTwice, foundUnpaid}},
		{"the bank pays twice", func(_ *record, v *seen) {
			p := v.paid[0]
			p.Ref = "another"
			v.payouts, v.paid = append(v.payouts, p), append(v.paid, p)
		}, []string{foundPaidTwice, foundPaid}},
		{"the bank pays what has failed", func(_ *record, v *seen) { transfer(v, 1, func(x *seenTransfer) { x.Status = "failed" }) }, []string{foundPaid, foundBalance, foundDebit}},
		{"the bank has not paid", func(_ *record, v *seen) { v.paid = v.paid[1:] }, []string{foundUnpaid}},
		{"a debit twice", func(_ *record, v *seen) {
			e := v.entries["a-1"]
			v.entries["a-1"] = append(e, e[len(e)-1])
		}, []string{foundDebit, foundRunning}},
		{"money that was taken back stays", func(_ *record, v *seen) { v.entries["a-1"][1].Status = "confirmed" }, []string{foundStatus, foundList}},
		{"the bank gave a payout back", func(_ *record, v *seen) { v.payouts[0].Status = fakebank.StatusRefund }, []string{foundList}},
		{"the bank paid another sum", func(_ *record, v *seen) { v.payouts[0].Amount = naira("1000.00") }, []string{foundList}},
		{"a late payment is not there", func(_ *record, v *seen) { v.entries["a-2"] = nil }, []string{foundMissed, foundList}},
		{"a balance that is wrong", func(_ *record, v *seen) { v.balances["a-1"] = "0.01" }, []string{foundBalance, foundRunning}},
		{"an impossible answer", func(r *record, _ *seen) { r.mishears("a balance above all that was sent") }, []string{foundMisheard}},
	} {
		r, v := wellEnded()
		c.tamper(r, v)
		kinds := byKind(check(r, v))
		for _, kind := range c.kinds {
			require.Positive(t, kinds[kind], "%s: found %v", c.name, kinds)
		}
	}
}
