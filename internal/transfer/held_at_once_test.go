package transfer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// act is one request of the many at once, or a minute that passes.
type act struct {
	What     string
	From, To int
	Kobo     int64
	Of       int // the payment that is refunded, or the hold that is released
	Minutes  int // until a hold ends by itself; 0: it does not
}

// acts are the requests of one run, and what they meet: payments with and without a policy's hold,
// who bears the bank's fee, and how many payouts the bank fails.
type acts struct {
	Acts     []act
	Payments []act // of their account From, in kobo; To 1: a policy holds it, to refund it
	Bears    bool
	Fails    int // percent
}

// drawActs draws the 500 settlements, book transfers and refunds, the holds against them, and the
// time.
var drawActs = rapid.Custom(func(t *rapid.T) acts {
	moving := []string{
		"settle", "settle", "settle", "settle", "settle", "book", "book", "book", "book", "refund", "refund", "refund", "refund", "policy refund",
	}
	draw := func(of []string, n int) []act {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
			from := rapid.IntRange(0, 2).Draw(t, "from")
			return act{
				rapid.SampledFrom(of).Draw(t, "what"), from, (from + rapid.IntRange(1, 2).Draw(t, "to")) % 3,
				rapid.Int64Range(1, 60_00).Draw(t, "kobo"), rapid.IntRange(0, 1000).Draw(t, "of"), rapid.IntRange(0, 4).Draw(t, "minutes"),
			}
		}), n, n).Draw(t, "acts")
	}
	moves, holds := draw(moving, 500), draw([]string{"hold", "hold", "hold", "release", "release", "time"}, 200)
	return acts{
		rapid.Permutation(append(moves, holds...)).Draw(t, "order"),
		rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
			return act{From: rapid.IntRange(0, 2).Draw(t, "account"), To: rapid.IntRange(0, 1).Draw(t, "held"), Kobo: rapid.Int64Range(200_00, 2000_00).Draw(t, "kobo")}
		}), 8, 20).Draw(t, "payments"),
		rapid.Bool().Draw(t, "bears"), rapid.SampledFrom([]int{0, 20, 60}).Draw(t, "fails"),
	}
})

// 500 settlements, book transfers and refunds at once, while holds are placed, released and end by
// themselves, workers take the payouts forward and the bank fails some: what the balance endpoint
// says is available never falls below zero, no hold is lost, no payment goes back more than once,
// and the books agree with themselves. AJO_HELD_RUNS is how many runs are drawn.
func TestHeldMoneyNeverLeaves(t *testing.T) {
	runs := 1
	if v := os.Getenv("AJO_HELD_RUNS"); v != "" {
		var err error
		runs, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	b := setup(t)
	b.svc = b.bearerService()
	for n := range runs {
		run := &heldRun{bundle: b.anotherTenant(), acts: drawActs.Example(n)}
		run.all(fmt.Sprintf("run %d", n))
	}
	b.agree()
}

// anotherTenant is the bundle with a tenant of its own.
func (b *bundle) anotherTenant() *bundle {
	own := *b
	own.tenant = own.Tenant()
	return &own
}

// heldRun is one run: three accounts, their payments, and what was answered.
type heldRun struct {
	*bundle
	acts
	refs     []string
	ids      []uuid.UUID
	payments []uuid.UUID // entries
	groups   []uuid.UUID
	mu       sync.Mutex
	holds    []ledger.Hold
	released map[uuid.UUID]int
}

func (r *heldRun) all(name string) {
	t := r.T
	t.Helper()
	r.refs, r.released = []string{"shop", "till", "safe"}, map[uuid.UUID]int{}
	for _, ref := range r.refs {
		r.ids = append(r.ids, r.Account(r.tenant, ref))
	}
	if r.Bears {
		r.bears("tenant")
	}
	for _, p := range r.Payments {
		b := r.on(r.ids[p.From])
		group, entry := b.received(money.FromKobo(p.Kobo).String(), &payer)
		if p.To == 1 {
			b.holdFor(ledger.HeldForRefund, entry, money.FromKobo(p.Kobo).String())
		}
		r.payments, r.groups = append(r.payments, entry), append(r.groups, group)
	}
	r.bank.Faults.Clear()
	if r.Fails > 0 {
		r.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.FailLater, Percent: r.Fails}, fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.FailKept, Percent: r.Fails / 4})
	}
	first := 0
	for i, a := range r.Acts { // so that there is something to release
		if a.What == "hold" && first < 40 {
			first++
			require.NoError(t, r.answered(func() error { return r.act(a, fmt.Sprint("first ", i)) }))
			r.Acts[i].What = "release"
		}
	}
	var over atomic.Bool
	var readers, all sync.WaitGroup
	readers.Go(func() {
		for !over.Load() {
			r.reads(name)
		}
	})
	for i, a := range r.Acts {
		all.Go(func() {
			if err := r.answered(func() error { return r.act(a, fmt.Sprint(i)) }); err != nil {
				t.Errorf("%s: %+v: %v", name, a, err)
			}
		})
	}
	all.Wait()
	for range 40 { // so that all have ended
		if testenv.Value[int](r.Env, `SELECT count(*) FROM transfers WHERE tenant_id = $1 AND status IN ('pending', 'processing')`, r.tenant) == 0 {
			break
		}
		r.Clock.Advance(time.Minute)
		for _, id := range testenv.Value[[]uuid.UUID](r.Env, `SELECT array_agg(id) FROM transfers WHERE tenant_id = $1`, r.tenant) {
			all.Go(func() { _ = r.svc.Advance(r.ctx, id) })
		}
		all.Wait()
	}
	over.Store(true)
	readers.Wait()
	t.Logf("%s: %d holds, %d of them released, and %s", name, len(r.holds), len(r.released),
		testenv.Value[string](r.Env, `SELECT string_agg(n, ', ') FROM (
			SELECT count(*) || ' ' || CASE WHEN by_policy THEN 'refunds by policy' WHEN refund_of IS NOT NULL THEN 'refunds' ELSE 'settlements' END || ' ' || status AS n
			FROM transfers WHERE tenant_id = $1 GROUP BY by_policy, refund_of IS NOT NULL, status) t`, r.tenant))
	r.ends(name)
}

// answered sends a request again, under its key, until it has an answer: a machine that is busy may
// give none.
func (r *heldRun) answered(ask func() error) (err error) {
	for range 200 {
		err = ask()
		if e := errs.As(err); err == nil || e != nil && e.Kind != errs.Conflict {
			return err
		}
		_ = clock.Sleep(r.ctx, 10*time.Millisecond)
	}
	return err
}

// act does one of them, under a key. A refusal for want of money, or because others were first, is
// no error.
func (r *heldRun) act(a act, name string) error {
	key, err := idempotency.NewRequest(r.tenant, name, "POST", a.What, nil)
	if err != nil {
		return err
	}
	amount := money.FromKobo(a.Kobo).String()
	var settled transfer.Settled
	switch a.What {
	case "settle":
		settled, err = r.svc.Settle(r.ctx, r.tenant, r.refs[a.From], order(amount), key)
	case "book":
		_, _, err = r.book(name, r.refs[a.From], r.refs[a.To], amount)
	case "refund":
		settled, err = r.svc.Refund(r.ctx, r.tenant, r.payments[a.Of%len(r.payments)], amount, transfer.Maker{}, key)
	case "policy refund":
		err = r.svc.RefundByPolicy(r.ctx, r.groups[a.Of%len(r.groups)])
	case "hold":
		n := account.NewHold{Amount: amount, Reason: "dispute"}
		if a.Minutes > 0 {
			n.Until = new(r.Clock.Now().Add(time.Duration(a.Minutes) * time.Minute))
		}
		var did idempotency.Result
		if did, err = r.accounts().PlaceHold(r.ctx, r.tenant, r.refs[a.From], n, key); err == nil {
			var h ledger.Hold
			if err := json.Unmarshal(did.Answer.Body, &h); err != nil {
				return err
			}
			r.mu.Lock()
			r.holds = append(r.holds, h)
			r.mu.Unlock()
		} else if n.Until != nil && !n.Until.After(r.Clock.Now()) {
			return nil // its time had come before it was placed
		}
	case "release":
		r.mu.Lock()
		var h ledger.Hold
		if len(r.holds) > 0 {
			h = r.holds[a.Of%len(r.holds)]
		}
		r.mu.Unlock()
		if h.ID == uuid.Nil {
			return nil
		}
		var did idempotency.Result
		if did, err = r.accounts().ReleaseHold(r.ctx, r.tenant, h.ID, byHand, key); err == nil {
			if err := json.Unmarshal(did.Answer.Body, &h); err != nil { // of the first request under the key
				return err
			}
			r.mu.Lock()
			r.released[h.ID]++
			r.mu.Unlock()
		}
	case "time":
		r.Clock.Advance(time.Minute)
	}
	for _, refusal := range []error{ledger.ErrInsufficientFunds, transfer.ErrRefunded, transfer.ErrRefundAmount, ledger.ErrHoldEnded} {
		if errors.Is(err, refusal) {
			return nil
		}
	}
	if err == nil && settled.TransferID != uuid.Nil {
		_ = r.svc.Advance(r.ctx, settled.TransferID) // what becomes of it is seen in the end
	}
	return err
}

// reads holds what the balance endpoint says of each account and of the tenant against what must
// always be so. An answer during which a minute passed is of two times: a hold that had ended when
// its money left still stood when the clock was read.
func (r *heldRun) reads(name string) {
	fine := func(what string, read func() (account.Funds, error)) error {
		before := r.Clock.Now()
		f, err := read()
		if err != nil || !r.Clock.Now().Equal(before) {
			return err
		}
		if f.Available.Sign() < 0 || f.Held.Sign() < 0 || f.Provisional.Sign() != 0 || !f.Available.Add(f.Held).Equal(f.Balance) {
			r.T.Errorf("%s: %s has %+v", name, what, f)
		}
		return nil
	}
	if err := r.answered(func() error {
		for _, ref := range r.refs {
			if err := fine(ref, func() (account.Funds, error) {
				have, err := r.accounts().Balance(r.ctx, r.tenant, ref)
				return have.Funds, err
			}); err != nil {
				return err
			}
		}
		return fine("the tenant", func() (account.Funds, error) { return r.accounts().TenantBalance(r.ctx, r.tenant) })
	}); err != nil {
		r.T.Error(name, err)
	}
}

// ends checks what is left when all is done.
func (r *heldRun) ends(name string) {
	t := r.T
	t.Helper()
	r.reads(name)
	now := r.Clock.Now()
	for _, h := range r.holds {
		is, err := ledger.FindHold(r.ctx, r.Pool, now, r.tenant, h.ID)
		require.NoError(t, err)
		want := ledger.HoldOpen
		switch {
		case r.released[h.ID] > 0:
			require.Equal(t, 1, r.released[h.ID])
			want = ledger.HoldReleased
		case h.Until != nil && !h.Until.After(now):
			want = ledger.HoldExpired
		}
		require.Equal(t, []any{want, h.Amount.String()}, []any{is.Status, is.Amount.String()}, "%s: %+v", name, is)
	}
	for what, query := range map[string]string{
		"balances that were below zero": `SELECT count(*) FROM ledger_entries WHERE tenant_id = $1 AND running_balance < 0`,
		"transfers that have not ended": `SELECT count(*) FROM transfers WHERE tenant_id = $1 AND status IN ('pending', 'processing')`,
		"payments that went back more than once": `SELECT count(*) FROM ledger_entries e WHERE e.tenant_id = $1 AND e.amount < (
			SELECT sum(coalesce(t.paid_amount, t.amount)) FROM transfers t WHERE t.refund_of = e.id AND t.status NOT IN ('failed', 'refunded'))`,
	} {
		require.Zero(t, testenv.Value[int](r.Env, query, r.tenant), "%s: %s", name, what)
	}
	paid := map[string]money.Amount{}
	for _, p := range r.bank.Paid() {
		paid[p.Ref] = p.Amount
	}
	for _, id := range r.payments {
		back := money.Zero
		for _, ref := range testenv.Value[[]string](r.Env, `SELECT coalesce(array_agg(merchant_tx_ref), '{}') FROM transfers WHERE refund_of = $1`, id) {
			back = back.Add(paid[ref])
		}
		net := testenv.Value[money.Amount](r.Env, `SELECT amount FROM ledger_entries WHERE id = $1`, id)
		require.LessOrEqual(t, back.Cmp(net), 0, "%s: the bank has paid %s of %s back", name, back, net)
	}
	findings, err := ledger.Verify(r.ctx, r.Pool)
	require.NoError(t, err)
	require.Empty(t, findings, name)
}
