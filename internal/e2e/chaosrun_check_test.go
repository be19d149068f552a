package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// seen is what is there after the run: as the API shows it to the tenants, and in the bank's own
// books.
type seen struct {
	entries   map[string][]seenEntry // by the account's reference, oldest first
	balances  map[string]string
	transfers map[string]seenTransfer // by merchantTxRef
	payouts   []fakebank.Payout       // all that the bank ever took
	paid      []fakebank.Payout       // those whose money has gone
	list      []fakebank.Transaction  // all that was ever paid in, by the bank's record
	holds     map[string]seenHold     // by id
	funds     map[string]seenFunds    // by the account's reference
}

// seenFunds is a balance with its parts.
type seenFunds struct{ Balance, Available, Held string }

type seenEntry struct {
	ID, Direction, Amount, Fee, Status, ProviderTxnRef, TransactionGroupID, Kind string
	TransferRef, ReversalOf                                                      *string
	CreatedAt                                                                    time.Time
	Running                                                                      string
}

// isPayment reports whether it is the credit of a payment.
func (e *seenEntry) isPayment() bool {
	return e.Direction == "credit" && e.ReversalOf == nil && e.Kind == ""
}

type seenTransfer struct {
	MerchantTxRef, Status, Amount, AccountRef, AccountNumber string
	RefundOf                                                 *string
	CreatedAt                                                time.Time
}

// finding is something that must not be.
type finding struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

// The kinds of findings.
const (
	foundLost         = "event answered 200 and not posted"
	foundMissed       = "payment that only the bank's list knew, not posted"
	foundTwice        = "payment posted twice"
	foundElsewhere    = "payment posted to another account"
	foundAmount       = "payment posted with another sum"
	foundStatus       = "payment that did not end as the bank's record says"
	foundUnexplained  = "entry that nothing explains"
	foundNotPublished = "payment that was not published to its tenant"
	foundOdd          = "delivery that is not genuine"
	foundVanished     = "settlement answered 202 and not there"
	foundUnended      = "settlement that has not ended"
	foundOther        = "settlement that differs from its order"
	foundRefused      = "settlement that was refused and done"
	foundPaidTwice    = "settlement paid twice"
	foundPaid         = "payout of a transfer that does not say success"
	foundUnpaid       = "transfer that says success and was not paid"
	foundDebit        = "debit that is not its transfer's"
	foundBalance      = "balance that is not what came in less what went out"
	foundRunning      = "statement that does not add up"
	foundMisheard     = "answer that cannot be right"
	foundInvariant    = "invariant broken"
	foundProcess      = "process that did what none may do"
	foundQueue        = "queue with work left"
	foundNotDone      = "work that did not end in time"
	foundUnaccepted   = "event that was never accepted"
	foundUndecided    = "settlement without a definite answer"
	foundFewFaults    = "fewer faults than were asked for"
	foundUnnamed      = "contradiction of the bank that the service does not name"
	foundList         = "record of the bank's list that the books contradict"
)

// check compares what the harness did, and what it received, with what is there. It finds nothing
// when all is well.
func check(r *record, s *seen) []finding {
	c := &checker{r: r, s: s, balances: map[string]money.Amount{}, atBank: map[string]fakebank.Payout{}, contradicted: map[string]bool{}}
	for _, p := range s.payouts {
		c.atBank[p.Ref] = p
	}
	for _, ref := range r.resolved {
		c.contradicted[ref] = true
	}
	c.payments()
	c.orders()
	c.moves()
	c.bank()
	c.books()
	c.list()
	for _, text := range r.misheard {
		c.find(foundMisheard, "%s", text)
	}
	return c.found
}

type checker struct {
	r        *record
	s        *seen
	found    []finding
	balances map[string]money.Amount // by account: as they must be

	atBank map[string]fakebank.Payout // by reference
	// transfers whose end the bank took back, and an operator has resolved
	contradicted map[string]bool
}

func (c *checker) find(kind, format string, args ...any) {
	c.found = append(c.found, finding{kind, fmt.Sprintf(format, args...)})
}

// place is an entry with its account.
type place struct {
	account string
	seenEntry
}

// payments looks for the one credit of each payment, and its end.
func (c *checker) payments() {
	credits := map[string][]place{}
	for account, entries := range c.s.entries {
		for _, e := range entries {
			if e.isPayment() {
				credits[e.ProviderTxnRef] = append(credits[e.ProviderTxnRef], place{account, e})
			}
		}
	}
	for _, p := range c.r.payments {
		found := credits[p.txID]
		delete(credits, p.txID)
		if p.course == altered && len(found) == 2 && found[0].Status == "reversed" {
			found = found[1:] // which an operator has posted in its place
		}
		switch {
		case len(found) == 0 && p.unannounced():
			c.find(foundMissed, "payment %d, %s, to %s", p.no, p.txID, p.account)
		case len(found) == 0 && p.accepted.IsZero():
			c.find(foundUnaccepted, "payment %d, %s, to %s", p.no, p.txID, p.account)
		case len(found) == 0:
			c.find(foundLost, "payment %d, %s, to %s, accepted %s", p.no, p.txID, p.account, p.accepted.Format(time.RFC3339Nano))
		case len(found) > 1:
			c.find(foundTwice, "payment %d, %s: %d credits", p.no, p.txID, len(found))
		default:
			c.payment(p, found[0])
		}
		c.delivery(p)
	}
	for ref, found := range credits {
		c.find(foundUnexplained, "credit of %s on %s for transaction %s", found[0].Amount, found[0].account, ref)
	}
}

func (c *checker) payment(p *sent, e place) {
	net, status := p.net(), "confirmed"
	switch {
	case p.course == falsely || p.course == recalled || p.course == withdrawn:
		status = "reversed"
	case p.course == altered:
		net = net.Add(altering)
	}
	if e.account != p.account {
		c.find(foundElsewhere, "payment %d to %s stands on %s", p.no, p.account, e.account)
	}
	if e.Amount != net.String() || e.Fee != p.fee.String() {
		c.find(foundAmount, "payment %d of %s less %s stands as %s with fee %s", p.no, p.gross, p.fee, e.Amount, e.Fee)
	}
	if e.Status != status {
		c.find(foundStatus, "payment %d (%s) is %s, not %s", p.no, p.course, e.Status, status)
	}
	if status == "confirmed" {
		c.balances[p.account] = c.balances[p.account].Add(net)
	}
}

func (c *checker) delivery(p *sent) {
	t := c.r.published[p.no]
	switch {
	case t == nil && (p.unannounced() || !p.accepted.IsZero()):
		c.find(foundNotPublished, "payment %d to %s", p.no, p.account)
	case t != nil && t.odd != "":
		c.find(foundOdd, "of payment %d: %s", p.no, t.odd)
	}
}

// orders looks for the one transfer of each settlement that was accepted, and for none of the
// others.
func (c *checker) orders() {
	byDestination := map[string][]seenTransfer{}
	for _, t := range c.s.transfers {
		if t.RefundOf != nil {
			continue
		}
		byDestination[t.AccountNumber] = append(byDestination[t.AccountNumber], t)
	}
	for _, o := range c.r.orders {
		there := byDestination[o.destination]
		delete(byDestination, o.destination)
		switch {
		case o.ref == "" && o.refusal == "":
			c.find(foundUndecided, "settlement %d of %s", o.no, o.amount)
		case o.ref == "" && len(there) > 0:
			c.find(foundRefused, "settlement %d: %s, yet there is %s", o.no, o.refusal, there[0].MerchantTxRef)
		case o.ref == "":
		case len(there) == 0 || c.s.transfers[o.ref].MerchantTxRef == "":
			c.find(foundVanished, "settlement %d, %s", o.no, o.ref)
		case len(there) > 1:
			c.find(foundPaidTwice, "settlement %d became %d transfers", o.no, len(there))
		default:
			c.transfer(o, there[0])
		}
	}
	for to, there := range byDestination {
		c.find(foundUnexplained, "transfer %s to %s", there[0].MerchantTxRef, to)
	}
}

func (c *checker) transfer(o *ordered, t seenTransfer) {
	if t.MerchantTxRef != o.ref || t.AccountRef != o.account || t.Amount != o.amount.String() {
		c.find(foundOther, "settlement %d of %s from %s, %s, is %+v", o.no, o.amount, o.account, o.ref, t)
	}
	switch t.Status {
	case "success":
		c.balances[o.account] = c.balances[o.account].Sub(c.gone(o.ref, o.amount))
	case "failed", "refunded":
	default:
		c.find(foundUnended, "settlement %d, %s, is %s", o.no, o.ref, t.Status)
	}
}

// bank compares the bank's own list of what it has paid to the transfers that say success.
func (c *checker) bank() {
	destinations := map[string]string{}
	for _, p := range c.s.payouts {
		if c.s.transfers[p.Ref].RefundOf != nil {
			continue // of a payment there may be several; moves compares them with it
		}
		if first, again := destinations[p.AccountNumber]; again {
			c.find(foundPaidTwice, "%s took %s and %s", p.AccountNumber, first, p.Ref)
		}
		destinations[p.AccountNumber] = p.Ref
	}
	paid := map[string]bool{}
	for _, p := range c.s.paid {
		t := c.s.transfers[p.Ref]
		if paid[p.Ref] {
			c.find(foundPaidTwice, "%s", p.Ref)
		}
		paid[p.Ref] = true
		if t.Status != "success" || t.Amount != p.Amount.String() || t.AccountNumber != p.AccountNumber {
			c.find(foundPaid, "%s to %s of %s; the transfer says %+v", p.Ref, p.AccountNumber, p.Amount, t)
		}
	}
	for ref, t := range c.s.transfers {
		if t.Status == "success" && !paid[ref] {
			c.find(foundUnpaid, "%s of %s to %s", ref, t.Amount, t.AccountNumber)
		}
	}
}

// books adds each account's statement up, and compares each balance to what the bank's dealings
// make it.
func (c *checker) books() {
	for _, account := range slices.Sorted(maps.Keys(c.s.balances)) {
		if want := c.balances[account].String(); c.s.balances[account] != want {
			c.find(foundBalance, "%s has %s, and must have %s", account, c.s.balances[account], want)
		}
		sum := money.Zero
		debits := map[string]bool{}
		for _, e := range c.s.entries[account] {
			if e.Direction == "debit" && e.ReversalOf == nil && e.Kind == "" {
				c.debit(account, e, debits)
			}
			if e.Status != "confirmed" && e.Status != "provisional" {
				continue
			}
			amount, err := signedNaira(e.Amount)
			if err != nil {
				c.find(foundRunning, "entry %s of %s has the sum %q", e.ID, account, e.Amount)
			}
			if e.Direction == "debit" {
				amount = amount.Neg()
			}
			sum = sum.Add(amount)
		}
		if sum.String() != c.s.balances[account] {
			c.find(foundRunning, "%s: its lines make %s, its balance is %s", account, sum, c.s.balances[account])
		}
	}
}

func (c *checker) debit(account string, e seenEntry, before map[string]bool) {
	ref := ""
	if e.TransferRef != nil {
		ref = *e.TransferRef
	}
	t := c.s.transfers[ref]
	status := map[string]string{"success": "confirmed", "failed": "reversed", "refunded": "reversed"}[t.Status]
	amount, err := money.Parse(t.Amount)
	// a new debit stands in its place
	resolved := err == nil && c.contradicted[ref] && e.Status == "reversed" && e.Amount == t.Amount
	if ref != "" && resolved && t.AccountRef == account {
		return
	}
	if ref == "" || before[ref] || t.AccountRef != account || err != nil || c.gone(ref, amount).String() != e.Amount || status != "" && status != e.Status {
		c.find(foundDebit, "%s on %s of %s, %s, for %q, which is %+v", e.ID, account, e.Amount, e.Status, ref, t)
	}
	before[ref] = true
}

// gone is what the payout of an ordered sum has taken from the bank's wallet in the end: a part may
// have come back.
func (c *checker) gone(ref string, ordered money.Amount) money.Amount {
	if p, ok := c.atBank[ref]; ok && p.Back != nil && p.Status == fakebank.StatusRefund {
		return ordered.Sub(*p.Back)
	}
	return ordered
}

// byKind counts findings.
func byKind(found []finding) map[string]int {
	all := map[string]int{}
	for _, f := range found {
		all[f.Kind]++
	}
	return all
}

// excerpt shows the first findings of each kind.
func excerpt(found []finding, each int) string {
	var b strings.Builder
	shown := map[string]int{}
	for _, f := range found {
		if shown[f.Kind]++; shown[f.Kind] <= each {
			fmt.Fprintf(&b, "\n%s: %s", f.Kind, f.Detail)
		}
	}
	return b.String()
}
