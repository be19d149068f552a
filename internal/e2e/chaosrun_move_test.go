package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// Every run does these things at least once, beside payments and settlements: the tenants, and the
// operators.
var (
	tenantsDo   = []string{refundedWhole, refundedInPart, bookTransferred, holdReleased, holdExpired, holdKept, aboveLimit}
	operatorsDo = []string{frozeAccount, frozeTenant, frozePayouts, frozeUntil}
)

const (
	aboveLimit      = "settlement above a limit"
	refundedWhole   = "refund of what is left"
	refundedInPart  = "refund in part"
	bookTransferred = "book transfer"
	holdReleased    = "hold, released"
	holdExpired     = "hold that ends by itself"
	holdKept        = "hold, kept"
)

// moves are what the harness has asked for beside payments and settlements. The record's lock
// guards them.
type moves struct {
	did     map[string]int
	refunds []*refundAsked
	books   []*bookAsked
	holds   []*holdAsked
	freezes []frozen
}

// refundAsked is a refund as the harness asked for it.
type refundAsked struct {
	payment *sent
	entry   string
	amount  money.Amount // of a part; zero: all that is left
	asked
	accepted struct{ MerchantTxRef, Amount, AccountRef, RefundOf string }
}

// bookAsked is a book transfer as the harness asked for it.
type bookAsked struct {
	from, to string
	amount   money.Amount
	asked
	accepted struct{ ID, FromAccountRef, ToAccountRef, Amount string }
}

// holdAsked is a hold as the harness asked for it.
type holdAsked struct {
	account, what string
	amount        money.Amount
	asked
	accepted seenHold
	release  asked
}

// seenHold is a hold as the API shows it.
type seenHold struct{ ID, AccountRef, Amount, Status string }

// asked is how a request ended.
type asked struct {
	key     string
	done    bool
	refusal string // the definite no
}

func (a *asked) decided() bool { return a.done || a.refusal != "" }

// does counts something that was done beside payments and settlements.
func (r *record) does(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moves.did[what]++
}

// undone are those of the things that the run has not done yet.
func (r *record) undone(of []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(of), func(what string) bool { return r.moves.did[what] > 0 })
}

// moves is a tenant's other clerk: it refunds payments, moves money between accounts, and holds it,
// until ctx ends; one of them until each was done once.
func (s *chaosRun) moves(ctx context.Context, h *testTenant, rng *rand.Rand) {
	do := []func(*testTenant, *rand.Rand){
		func(h *testTenant, rng *rand.Rand) { s.refunds(h, rng, false) },
		func(h *testTenant, rng *rand.Rand) { s.refunds(h, rng, true) },
		s.books,
		func(h *testTenant, rng *rand.Rand) { s.holds(h, rng, holdReleased) },
		func(h *testTenant, rng *rand.Rand) { s.holds(h, rng, holdExpired) },
		func(h *testTenant, rng *rand.Rand) { s.holds(h, rng, holdKept) },
		s.exceeds,
	}
	for n := 0; ctx.Err() == nil || h.limited && !s.over.Load() && len(s.record.undone(tenantsDo)) > 0; n++ {
		do[n%len(do)](h, rng)
		time.Sleep(between(rng, 50*time.Millisecond, 400*time.Millisecond))
	}
}

// asks makes a request under one key until the answer is definite, and once more when it was
// accepted: the repeat must be answered alike. A refusal must be one of those named.
func (s *chaosRun) asks(rng *rand.Rand, h *testTenant, what, path string, body any, accepted int, into any, refusals ...string) (a asked) {
	a.key = fmt.Sprintf("%s %d", what, rng.Uint64())
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
		return a
	}
	header := http.Header{"X-Api-Key": {h.key}, "Content-Type": {"application/json"}, "Idempotency-Key": {a.key}}
	for try := 1; ; try++ {
		status, said := s.request(rng, "POST", path, text, header)
		s.record.answered(what, status)
		switch {
		case status == accepted:
			if err := json.Unmarshal(said, into); err != nil {
				s.record.mishears("%s was accepted with %s", what, said)
			}
			status, again := s.request(rng, "POST", path, text, header)
			if status == accepted && string(again) != string(said) || status != accepted && status != 0 && status != http.StatusConflict && status < 500 {
				s.record.mishears("%s was accepted with %s, and its repeat answered %d %s", what, said, status, again)
			}
			a.done = true
			return a
		case status == http.StatusConflict, status == 0, status >= 500:
		default:
			if !slices.ContainsFunc(refusals, func(r string) bool { return strings.Contains(string(said), r) }) {
				s.record.mishears("%s was answered %d %s", what, status, said)
			}
			a.refusal = string(said)
			return a
		}
		if s.over.Load() {
			return a
		}
		pause(rng, try)
	}
}

const insufficient = "insufficient funds"

// refunds pays a payment whose event the tenant has had back to its payer, in part or all that is
// left of it. Whether the bank takes it back meanwhile is not known.
func (s *chaosRun) refunds(h *testTenant, rng *rand.Rand, whole bool) {
	p, entry := s.confirmed(h, rng)
	if p == nil {
		return
	}
	r := &refundAsked{payment: p, entry: entry}
	body, what := map[string]any{}, refundedWhole
	if !whole {
		r.amount, what = money.FromKobo(1+rng.Int64N(p.net().Kobo().Int64()/2)), refundedInPart
		body["amount"] = r.amount.String()
	}
	s.record.mu.Lock()
	s.record.moves.refunds = append(s.record.moves.refunds, r)
	s.record.mu.Unlock()
	r.asked = s.asks(rng, h, "refund", "/v1/entries/"+entry+"/refund", body, http.StatusAccepted, &r.accepted,
		insufficient, "refunded in full", "more than what is left", "was reversed", "may have taken the payment back", "is not confirmed")
	if r.done {
		s.record.does(what)
	}
}

// confirmed draws some payments whose events the tenant has had, and finds one that the bank has
// confirmed, and its entry.
func (s *chaosRun) confirmed(h *testTenant, rng *rand.Rand) (*sent, string) {
	r := s.record
	published := map[string]*sent{} // by group
	r.mu.Lock()
	for range min(len(r.payments), 100) {
		p := r.payments[rng.IntN(len(r.payments))]
		t := r.published[p.no]
		if t == nil || tenantOf(p.account) != h.name || len(t.bodies) != 1 || p.net().Cmp(altering) <= 0 {
			continue
		}
		for group := range t.bodies {
			published[group] = p
		}
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var entry, group string
	if err := s.Pool.QueryRow(ctx, `
		SELECT id::text, transaction_group_id::text FROM ledger_entries
		WHERE transaction_group_id = ANY($1::text[]::uuid[]) AND direction = 'credit' AND status = 'confirmed' LIMIT 1`,
		slices.Collect(maps.Keys(published))).Scan(&entry, &group); err != nil {
		return nil, "" // none yet, or Postgres is away
	}
	return published[group], entry
}

// books moves money from one of the tenant's accounts to another.
func (s *chaosRun) books(h *testTenant, rng *rand.Rand) {
	from, to := rng.IntN(len(h.accounts)), rng.IntN(len(h.accounts)-1)
	if to >= from {
		to++
	}
	b := &bookAsked{from: h.accounts[from].ref, to: h.accounts[to].ref, amount: money.FromKobo(1 + rng.Int64N(10_000_00))}
	s.record.mu.Lock()
	s.record.moves.books = append(s.record.moves.books, b)
	s.record.most[b.to] = s.record.most[b.to].Add(b.amount)
	s.record.mu.Unlock()
	b.asked = s.asks(rng, h, "book transfer", "/v1/accounts/"+b.from+"/transfer",
		map[string]any{"toAccountRef": b.to, "amount": b.amount.String(), "narration": "between tills"}, http.StatusCreated, &b.accepted, insufficient)
	if b.done {
		s.record.does(bookTransferred)
	}
}

// holds sets money aside, and releases it unless its time comes or it is kept.
func (s *chaosRun) holds(h *testTenant, rng *rand.Rand, what string) {
	d := &holdAsked{account: h.accounts[rng.IntN(len(h.accounts))].ref, what: what, amount: money.FromKobo(1 + rng.Int64N(10_000_00))}
	body := map[string]any{"reason": "a deposit"}
	switch what {
	case holdKept:
		d.amount = money.FromKobo(1 + rng.Int64N(20_00))
	case holdExpired:
		body["until"] = time.Now().Add(between(rng, 3*time.Second, 6*time.Second)).UTC().Format(time.RFC3339Nano)
	}
	body["amount"] = d.amount.String()
	s.record.mu.Lock()
	s.record.moves.holds = append(s.record.moves.holds, d)
	s.record.mu.Unlock()
	d.asked = s.asks(rng, h, "hold", "/v1/accounts/"+d.account+"/holds", body, http.StatusCreated, &d.accepted, insufficient, "until must be in the future")
	if !d.done {
		return
	}
	if what == holdReleased {
		time.Sleep(between(rng, 0, 500*time.Millisecond))
		var released seenHold
		if d.release = s.asks(rng, h, "release of a hold", "/v1/holds/"+d.accepted.ID+"/release", nil, http.StatusOK, &released); !d.release.done {
			return
		}
	}
	s.record.does(what)
}

// The limits of the tenant that has some. The day's is used up in a long run.
var maxTransfer, maxAccountDay = money.Must("25000.00"), money.Must("1000000.00")

// exceeds asks for more than a settlement of a limited tenant may be.
func (s *chaosRun) exceeds(h *testTenant, rng *rand.Rand) {
	if h.limited {
		s.order(rng, h, s.record.order(h.accounts[0].ref, maxTransfer.Add(money.FromKobo(1+rng.Int64N(100_00)))))
	}
}

// setPolicies has operators give one tenant limits, and another one the bank's charges to bear.
func (s *chaosRun) setPolicies() {
	limited, bears := s.tenants[0], s.tenants[3]
	limited.limited = true
	s.record.limited, s.record.bearer = limited.name, bears.name
	for _, args := range [][]string{
		{"tenant", "limits", "set", limited.id, "--max-transfer", maxTransfer.String(), "--max-account-day", maxAccountDay.String()},
		{"tenant", "payout-fee", bears.id, "--by", "tenant"},
	} {
		if got := s.tool(append(args, "--yes", "--reason", "contract 12")...); got.code != 0 {
			s.t.Fatalf("ajo %v: %s", args, got.out)
		}
	}
}

// tops pays so much to each account that everything is covered which still waits, whatever the bank
// has taken back.
func (s *chaosRun) tops() {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	for _, h := range s.tenants {
		for _, a := range h.accounts {
			s.arrives(rng, a, naira("1000000.00"))
		}
	}
}

func (s *chaosRun) arrives(rng *rand.Rand, a testAccount, gross money.Amount) {
	if p, tx := s.makes(a, gross, arrives); p != nil {
		tx.Status = fakebank.StatusSuccess
		s.deliver(rng, p, s.bank.EventFor(tx))
	}
}
