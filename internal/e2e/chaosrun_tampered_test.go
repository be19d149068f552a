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
	v := &seen{entries: map[string][]seenEntry{}, balances: map[string]string{"a-0": "3676.00", "a-1": "0.00", "a-2": "80.00"}, transfers: map[string]seenTransfer{}}
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
	credit("a-0", "500.00", "reversed", altered) // and corrected
	corrected := v.list[len(v.list)-1].ID
	v.entries["a-0"] = append(v.entries["a-0"], seenEntry{ID: "corrected", Direction: "credit", Amount: "501.00", Fee: "25.00", Status: "confirmed", ProviderTxnRef: corrected})
	credit("a-1", "100.00", "confirmed", arrives)
	credit("a-1", "60.00", "reversed", recalled)
	credit("a-1", "70.00", "reversed", withdrawn)
	credit("a-2", "80.00", "confirmed", lingers)
	settle := func(account, amount, end string) {
		o := r.order(account, naira(amount))
		o.ref = "ref-" + o.destination
		v.transfers[o.ref] = seenTransfer{MerchantTxRef: o.ref, Status: end, Amount: amount, AccountRef: account, AccountNumber: o.destination}
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
	besides(r, v)
	return r, v
}

// besides adds a refund, a book transfer, holds and a fee to a run, on accounts of their own.
func besides(r *record, v *seen) {
	r.bearer, r.limited = "b", "c"
	p := r.draft("b-0", naira("1025.00"), naira("25.00"), arrives)
	p.txID, p.accepted = "tx-b", time.Now()
	r.published[p.no] = &published{times: 1}
	v.list = append(v.list, fakebank.Transaction{ID: p.txID, Status: fakebank.StatusSuccess, Amount: p.gross, Fee: p.fee})
	refund := &refundAsked{payment: p, entry: "entry-b", amount: naira("400.00"), asked: asked{done: true}}
	refund.accepted.MerchantTxRef, refund.accepted.Amount, refund.accepted.AccountRef, refund.accepted.RefundOf = "ref-b", "400.00", "b-0", "entry-b"
	book := &bookAsked{from: "b-0", to: "c-0", amount: naira("100.00"), asked: asked{done: true}}
	book.accepted.ID = "book"
	r.moves.refunds, r.moves.books = []*refundAsked{refund}, []*bookAsked{book}
	v.holds, v.funds = map[string]seenHold{}, map[string]seenFunds{"b-0": {"428.50", "408.50", "20.00"}, "c-0": {"100.00", "100.00", "0.00"}}
	for what, status := range map[string]string{holdKept: "open", holdReleased: "released", holdExpired: "expired"} {
		h := &holdAsked{account: "b-0", what: what, amount: naira("20.00"), asked: asked{done: true}, release: asked{done: true}}
		h.accepted.ID = status
		r.moves.holds = append(r.moves.holds, h)
		v.holds[status] = seenHold{status, "b-0", "20.00", status}
	}
	v.transfers["ref-b"] = seenTransfer{MerchantTxRef: "ref-b", Status: "success", Amount: "400.00", AccountRef: "b-0", AccountNumber: p.payer(), RefundOf: &refund.entry}
	out := fakebank.Payout{Ref: "ref-b", AccountNumber: p.payer(), Amount: naira("400.00"), Status: fakebank.StatusSuccess, Fee: naira("20.00"), VAT: naira("1.50"), StampDuty: naira("50.00")}
	v.payouts, v.paid = append(v.payouts, out), append(v.paid, out)
	v.balances["b-0"], v.balances["c-0"] = "428.50", "100.00"
	v.entries["b-0"] = []seenEntry{
		{ID: "entry-b", Direction: "credit", Amount: "1000.00", Fee: "25.00", Status: "confirmed", ProviderTxnRef: "tx-b"},
		{ID: "debit ref-b", Direction: "debit", Amount: "400.00", Status: "confirmed", TransferRef: &out.Ref},
		{ID: "fee ref-b", Direction: "debit", Amount: "71.50", Status: "confirmed", TransferRef: &out.Ref, Kind: "fee"},
		{ID: "from", Direction: "debit", Amount: "100.00", Status: "confirmed", TransactionGroupID: "book", Kind: "book_transfer"},
	}
	v.entries["c-0"] = []seenEntry{{ID: "to", Direction: "credit", Amount: "100.00", Status: "confirmed", TransactionGroupID: "book", Kind: "book_transfer"}}
}

// refunded changes the refund of a run.
func refunded(v *seen, change func(*seenTransfer)) {
	x := v.transfers["ref-b"]
	change(&x)
	v.transfers["ref-b"] = x
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
		{"a sum under review", func(_ *record, v *seen) {
			v.entries["a-0"] = slices.Delete(v.entries["a-0"], 6, 7)
			v.entries["a-0"][4].Status = "needs_review"
		}, []string{foundStatus, foundAmount, foundList, foundRunning}},
		{"a refund goes to another", func(_ *record, v *seen) { refunded(v, func(x *seenTransfer) { x.AccountNumber = "0123456789" }) }, []string{foundRefund}},
		{"the bank refunds another", func(_ *record, v *seen) { v.payouts[len(v.payouts)-1].AccountNumber = "0123456789" }, []string{foundRefund}},
		{"a refund of another sum", func(_ *record, v *seen) { refunded(v, func(x *seenTransfer) { x.Amount = "400.01" }) }, []string{foundRefund}},
		{"a refund vanishes", func(_ *record, v *seen) { delete(v.transfers, "ref-b") }, []string{foundVanished, foundPaid}},
		{"a refund that nobody asked for", func(r *record, _ *seen) { r.moves.refunds = nil }, []string{foundUnexplained}},
		{"a refund without an answer", func(r *record, _ *seen) { r.moves.refunds[0].done = false }, []string{foundUndecided}},
		{"a payment is refunded twice", func(r *record, v *seen) {
			again := *r.moves.refunds[0]
			again.amount, again.accepted.Amount, again.accepted.MerchantTxRef = naira("600.01"), "600.01", "again"
			r.moves.refunds = append(r.moves.refunds, &again)
			x := v.transfers["ref-b"]
			x.MerchantTxRef, x.Amount = "again", "600.01"
			v.transfers["again"] = x
		}, []string{foundRefundedMore}},
		{"half a book transfer", func(_ *record, v *seen) { v.entries["c-0"] = nil }, []string{foundBook, foundRunning}},
		{"a book transfer that nobody asked for", func(r *record, _ *seen) { r.moves.books = nil }, []string{foundUnexplained, foundBalance}},
		{"a hold is lost", func(_ *record, v *seen) { delete(v.holds, "open") }, []string{foundHold}},
		{"a hold is released by nobody", func(_ *record, v *seen) { v.holds["open"] = seenHold{"open", "b-0", "20.00", "released"} }, []string{foundHold}},
		{"a hold twice", func(_ *record, v *seen) { v.holds["again"] = v.holds["open"] }, []string{foundUnexplained}},
		{"a hold holds nothing", func(_ *record, v *seen) { v.funds["b-0"] = seenFunds{"428.50", "428.50", "0.00"} }, []string{foundHeld}},
		{"more than the bank's fee is borne", func(_ *record, v *seen) { v.entries["b-0"][2].Amount = "71.51" }, []string{foundFee, foundBalance}},
		{"another tenant bears a fee", func(r *record, _ *seen) { r.bearer = "c" }, []string{foundFee}},
		{"a settlement above a limit", func(r *record, v *seen) {
			r.limited = "a"
			transfer(v, 0, func(x *seenTransfer) { x.Amount = "25000.01" })
		}, []string{foundLimit}},
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
