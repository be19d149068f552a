package e2e

import (
	"fmt"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// The kinds of findings about what is neither a payment nor a settlement.
const (
	foundRefund       = "refund that differs from what was asked for"
	foundRefundedMore = "payment refunded with more than its net"
	foundBook         = "book transfer that differs from what was asked for"
	foundHold         = "hold that differs from what was asked for"
	foundHeld         = "sum that is held, or available, and must not be"
	foundFee          = "fee that the tenant bears wrongly"
	foundLimit        = "settlement above its tenant's limit"
	foundFrozen       = "payout submitted while it was frozen"
	foundFloat        = "difference between the wallet and the books"
)

// moves compares refunds, book transfers, holds, fees and limits with what the harness has asked
// for, and with the bank's records.
func (c *checker) moves() {
	c.refunds()
	c.bookTransfers()
	c.holds()
	c.fees()
	c.limits()
}

// refunds looks for the one transfer of each refund that was accepted, and adds up those of each
// payment.
func (c *checker) refunds() {
	asked := map[string]*refundAsked{}
	for i, r := range c.r.moves.refunds {
		switch ref := r.accepted.MerchantTxRef; {
		case !r.decided():
			c.find(foundUndecided, "refund %d of payment %d", i, r.payment.no)
		case !r.done:
		case asked[ref] != nil:
			c.find(foundRefund, "%s is the answer to two of them", ref)
		default:
			asked[ref] = r
		}
	}
	sums := map[string]money.Amount{}
	for ref, t := range c.s.transfers {
		if t.RefundOf == nil {
			continue
		}
		r := asked[ref]
		delete(asked, ref)
		amount, err := money.Parse(t.Amount)
		if r == nil || err != nil {
			c.find(foundUnexplained, "refund %s: %+v", ref, t)
			continue
		}
		c.refund(r, t)
		switch t.Status {
		case "success":
			c.balances[t.AccountRef] = c.balances[t.AccountRef].Sub(c.gone(ref, amount))
			if !c.contradicted[ref] { // the bank has paid what it had said that it would not
				sums[*t.RefundOf] = sums[*t.RefundOf].Add(c.gone(ref, amount))
			}
		case "failed", "refunded":
		default:
			c.find(foundUnended, "refund %s is %s", ref, t.Status)
		}
	}
	for ref, r := range asked {
		c.find(foundVanished, "refund %s of payment %d", ref, r.payment.no)
	}
	for _, r := range c.r.moves.refunds {
		most := r.payment.net()
		if r.payment.course == altered {
			most = most.Add(altering)
		}
		if sum := sums[r.entry]; sum.Cmp(most) > 0 {
			c.find(foundRefundedMore, "payment %d of %s: %s", r.payment.no, most, sum)
		}
	}
}

func (c *checker) refund(r *refundAsked, t seenTransfer) {
	ok := *t.RefundOf == r.entry && t.AccountRef == r.payment.account && t.Amount == r.accepted.Amount && r.accepted.RefundOf == r.entry
	if ok = ok && (!r.amount.IsPositive() || t.Amount == r.amount.String()); !ok {
		c.find(foundRefund, "of payment %d, %s of %s: %+v", r.payment.no, r.entry, r.amount, t)
	}
	if t.AccountNumber != r.payment.payer() {
		c.find(foundRefund, "payment %d came from %s, and goes back to %s", r.payment.no, r.payment.payer(), t.AccountNumber)
	}
	if p, ok := c.atBank[t.MerchantTxRef]; ok && p.AccountNumber != r.payment.payer() {
		c.find(foundRefund, "payment %d came from %s, and the bank has paid %s", r.payment.no, r.payment.payer(), p.AccountNumber)
	}
}

// bookTransfers looks for the debit and the credit of each book transfer that was accepted.
func (c *checker) bookTransfers() {
	sides := map[string][]place{}
	for account, entries := range c.s.entries {
		for _, e := range entries {
			if e.Kind == "book_transfer" {
				sides[e.TransactionGroupID] = append(sides[e.TransactionGroupID], place{account, e})
			}
		}
	}
	for i, b := range c.r.moves.books {
		if !b.decided() {
			c.find(foundUndecided, "book transfer %d of %s", i, b.amount)
		}
		if !b.done {
			continue
		}
		found := sides[b.accepted.ID]
		delete(sides, b.accepted.ID)
		var said []string
		for _, side := range found {
			said = append(said, fmt.Sprint(side.account, side.Direction, side.Amount, side.Status))
		}
		debit, credit := fmt.Sprint(b.from, "debit", b.amount, "confirmed"), fmt.Sprint(b.to, "credit", b.amount, "confirmed")
		if len(said) != 2 || (said[0] != debit || said[1] != credit) && (said[1] != debit || said[0] != credit) {
			c.find(foundBook, "%s of %s from %s to %s: %v", b.accepted.ID, b.amount, b.from, b.to, said)
		}
		c.balances[b.from], c.balances[b.to] = c.balances[b.from].Sub(b.amount), c.balances[b.to].Add(b.amount)
	}
	for group, found := range sides {
		c.find(foundUnexplained, "book transfer %s: %+v", group, found)
	}
}

// holds looks for each hold that was accepted, and compares what is held with those that are open.
func (c *checker) holds() {
	unasked, open := map[string]seenHold{}, map[string]money.Amount{}
	for id, h := range c.s.holds {
		unasked[id] = h
	}
	for i, d := range c.r.moves.holds {
		if !d.decided() || d.done && d.what == holdReleased && !d.release.decided() {
			c.find(foundUndecided, "hold %d of %s", i, d.amount)
		}
		if !d.done {
			continue
		}
		h := c.s.holds[d.accepted.ID]
		delete(unasked, d.accepted.ID)
		want := map[string]string{holdReleased: "released", holdExpired: "expired", holdKept: "open"}[d.what]
		if h.AccountRef != d.account || h.Amount != d.amount.String() || h.Status != want {
			c.find(foundHold, "%s of %s on %s (%s): %+v", d.accepted.ID, d.amount, d.account, d.what, h)
		}
		if want == "open" {
			open[d.account] = open[d.account].Add(d.amount)
		}
	}
	for id, h := range unasked {
		c.find(foundUnexplained, "hold %s: %+v", id, h)
	}
	for account, b := range c.s.funds {
		balance, err := signedNaira(b.Balance)
		if available := balance.Sub(open[account]); err != nil || b.Held != open[account].String() || b.Available != available.String() {
			c.find(foundHeld, "%s: %+v, and %s is held", account, b, open[account])
		}
	}
}

// fees compares what tenants bear of the bank's charges with these: no more, and nothing of a
// payout for which the bank took none. Of whom the platform bears it pays none.
func (c *checker) fees() {
	borne := map[string]money.Amount{}
	for account, entries := range c.s.entries {
		for _, e := range entries {
			if e.Kind != "fee" || e.Status != "confirmed" {
				continue
			}
			amount, err := money.Parse(e.Amount)
			if e.TransferRef == nil || err != nil || c.s.transfers[*e.TransferRef].AccountRef != account || tenantOf(account) != c.r.bearer {
				c.find(foundFee, "%s on %s: %+v", e.ID, account, e)
				continue
			}
			if e.Direction == "credit" {
				amount = amount.Neg()
			}
			borne[*e.TransferRef] = borne[*e.TransferRef].Add(amount)
			c.balances[account] = c.balances[account].Sub(amount)
		}
	}
	for ref, t := range c.s.transfers {
		if tenantOf(t.AccountRef) != c.r.bearer {
			continue
		}
		taken := c.taken(ref)
		if borne[ref].Sign() < 0 || borne[ref].Cmp(taken) > 0 {
			c.find(foundFee, "the bank took %s for %s, and the tenant bears %s", taken, ref, borne[ref])
		}
		switch {
		case !taken.IsPositive():
		case borne[ref].Equal(taken):
			c.r.moves.did[feeBorne]++
		default:
			c.r.moves.did[feeShort]++
		}
	}
}

const (
	feeBorne = "fee that its tenant bears"
	feeShort = "fee that its tenant bears in part, for want of money"
)

// taken is what the bank took for a payout beside its sum.
func (c *checker) taken(ref string) money.Amount {
	p, ok := c.atBank[ref]
	if _, left := booked(p, false); ok && (p.FeeKept || left.IsPositive()) {
		return chargesOf(p)
	}
	return money.Zero
}

func chargesOf(p fakebank.Payout) money.Amount { return p.Fee.Add(p.VAT).Add(p.StampDuty) }

// limits adds up what the limited tenant has paid out, by account and day in Lagos. What an
// operator has resolved counts whatever the limit.
func (c *checker) limits() {
	sums := map[string]money.Amount{}
	for ref, t := range c.s.transfers {
		amount, err := money.Parse(t.Amount)
		if tenantOf(t.AccountRef) != c.r.limited || t.RefundOf != nil || err != nil {
			continue
		}
		if amount.Cmp(maxTransfer) > 0 {
			c.find(foundLimit, "%s of %s", ref, t.Amount)
		}
		if t.Status == "success" && !c.contradicted[ref] {
			day := t.AccountRef + " on " + clock.Day(t.CreatedAt)
			sums[day] = sums[day].Add(amount)
		}
	}
	for day, sum := range sums {
		if sum.Cmp(maxAccountDay) > 0 {
			c.find(foundLimit, "%s from %s", sum, day)
		}
	}
}
