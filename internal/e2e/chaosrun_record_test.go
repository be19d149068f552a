package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"ajo/internal/money"
)

// course is what a payment is meant to meet with.
type course string

const (
	arrives   course = "arrives"            // its event is sent until it is answered 200
	silence   course = "event never comes"  // only the bank's list knows of it
	falsely   course = "failed at the bank" // its event says success, the bank's record does not
	altered   course = "another sum at the bank"
	recalled  course = "taken back, with an event"
	withdrawn course = "taken back without a word" // only the bank's record and its list say so
	// only the list knows of it, and for long not how it ends
	lingers course = "pending at the bank for long"
)

// unannounced reports whether no event of the payment is ever sent.
func (p *sent) unannounced() bool { return p.course == silence || p.course == lingers }

// stays reports whether the bank lets the account keep the money, with the sum of the event.
func (p *sent) stays() bool { return p.course == arrives || p.unannounced() }

// sent is a payment that the harness made at the bank, and whose event it sent.
type sent struct {
	no         int
	account    string // its reference; unique among all tenants
	txID       string
	gross, fee money.Amount
	course     course
	began      time.Time // of the first sending
	accepted   time.Time // answered 200; zero: never (sent)
	tries      int
}

func (p *sent) net() money.Amount { return p.gross.Sub(p.fee) }

// narration is what the payer writes: the number, by which a tenant's endpoint knows the payment
// again.
func (p *sent) narration() string { return "payment " + strconv.Itoa(p.no) }

// ordered is a settlement as the harness asked for it.
type ordered struct {
	no          int
	account     string
	amount      money.Amount
	destination string // each has its own
	ref         string // answered 202; empty: it was not
	refusal     string // the definite no
	tries       int
}

// payer is the account that the payment came from; each payment has its own.
func (p *sent) payer() string { return fmt.Sprintf("8%09d", p.no) }

// published is what a tenant's endpoint received about one payment.
type published struct {
	first  time.Time
	times  int
	bodies map[string]string // by the event's group: that of a payment, and of its correction
	odd    string            // what was wrong with a delivery
}

// record is all that the harness did and received. Its methods are safe for concurrent use; the
// rest is read after the run.
type record struct {
	mu        sync.Mutex
	payments  []*sent
	orders    []*ordered
	published map[int]*published      // by the payment's number
	most      map[string]money.Amount // by account: all that was sent to it so far
	false     map[string]money.Amount // by account: what of it the bank will not confirm
	resolved  []string                // references of transfers that the operator has resolved
	misheard  []string                // answers that can't be right, whatever has failed
	reads     int
	answers   map[string]int // how the API answered, by what was asked
	moves     moves
	limited   string // the tenant whose payouts have limits
	bearer    string // the tenant that bears what the bank takes for its payouts
	took      []time.Duration
	waiting   map[string]int // by the account's tenant: accepted, and not delivered yet
}

func newRecord() *record {
	return &record{
		published: map[int]*published{}, most: map[string]money.Amount{}, false: map[string]money.Amount{}, answers: map[string]int{}, waiting: map[string]int{},
		moves: moves{did: map[string]int{}},
	}
}

// tenantOf is the part of an account's reference that names its tenant.
func tenantOf(account string) string {
	tenant, _, _ := strings.Cut(account, "-")
	return tenant
}

// draft numbers a payment that is about to be made, and counts it into the most that the account
// can have.
func (r *record) draft(account string, gross, fee money.Amount, c course) *sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &sent{no: len(r.payments) + 1, account: account, gross: gross, fee: fee, course: c, began: time.Now()}
	r.payments = append(r.payments, p)
	r.most[account] = r.most[account].Add(p.net()).Add(altering)
	if !p.stays() {
		r.false[account] = r.false[account].Add(p.net())
	}
	return p
}

func (r *record) accept(p *sent, tries int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.accepted, p.tries = time.Now(), tries
	r.took = append(r.took, took)
	if r.published[p.no] == nil {
		r.waiting[tenantOf(p.account)]++
	}
}

// received notes a delivery of an event of a group; odd says what is wrong with it.
func (r *record) received(no int, group, body, odd string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.published[no]
	if t == nil {
		t = &published{first: now, bodies: map[string]string{group: body}}
		r.published[no] = t
		if no > 0 && no <= len(r.payments) && !r.payments[no-1].accepted.IsZero() {
			r.waiting[tenantOf(r.payments[no-1].account)]--
		}
	}
	t.times++
	known, again := t.bodies[group]
	switch {
	case odd != "":
	case again && known != body:
		odd = "other bytes than the first time"
	case !again && r.payments[no-1].course != altered: // which an operator corrects
		odd = "another event of the same payment"
	}
	t.bodies[group] = body
	if odd != "" {
		t.odd = odd
	}
}

func (r *record) order(account string, amount money.Amount) *ordered {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &ordered{no: len(r.orders) + 1, account: account, amount: amount, destination: fmt.Sprintf("7%09d", len(r.orders)+1)}
	r.orders = append(r.orders, o)
	return o
}

// answered counts an answer of the API.
func (r *record) answered(what string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := what + " " + strconv.Itoa(status)
	if status == 0 {
		key = what + " no answer"
	}
	r.answers[key]++
}

// mishears notes an answer that can't be right.
func (r *record) mishears(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.misheard) < 100 {
		r.misheard = append(r.misheard, fmt.Sprintf(format, args...))
	}
}

// backlog is how many payments of a tenant were accepted and not delivered yet.
func (r *record) backlog(tenant string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[tenant]
}

// bounds are what an account's balance may be at this moment, at the most and at the least.
func (r *record) bounds(account string) (least, most money.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.false[account].Neg(), r.most[account]
}
