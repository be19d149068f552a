package webhook

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// kill makes the endpoint's breaker open.
func (b *bundle) kill(url string) {
	b.T.Helper()
	for range breakerAfter {
		require.Error(b.T, b.Deliver(b.ctx, b.queueOne(url)))
	}
}

// While a probe of a dead endpoint is under way the other deliveries are held: no attempt is made
// or counted, and the row says when it comes back. They go out when the endpoint is back.
func TestHeldNotLost(t *testing.T) {
	b := setup(t)
	var status atomic.Int32
	status.Store(503)
	release := make(chan struct{})
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/probe" {
			<-release
		}
		w.WriteHeader(int(status.Load()))
	})
	b.kill(r.URL)
	b.limiter.wait = time.Millisecond
	probe := b.queueOne(r.URL + "/probe")
	done := make(chan error)
	go func() { done <- b.Deliver(b.ctx, probe) }()
	testenv.Eventually(t, 5*time.Second, "the probe", func() bool { return len(r.seen()) == breakerAfter+1 })

	waiting := []uuid.UUID{b.queueOne(r.URL), b.queueOne(r.URL), b.queueOne(r.URL)}
	var last time.Time
	for _, id := range waiting {
		err := b.Deliver(b.ctx, id)
		require.ErrorIs(t, err, errHeld)
		at, ok := retry.When(err)
		require.True(t, ok)
		require.WithinRange(t, at, b.Clock.Now().Add(limiterBack), b.Clock.Now().Add(limiterBackMax*3/2))
		d := b.get(id)
		require.True(t, d.NextAttemptAt.Equal(at))
		require.Nil(t, d.LeasedUntil)
		require.Zero(t, d.AttemptCount)
		require.Empty(t, d.LastError)
		if at.After(last) {
			last = at
		}
	}
	require.Empty(t, b.Overdue(work.Deliver, b.Clock.Now(), b.Clock.Now(), 10), "the sweep leaves them alone")

	status.Store(200)
	close(release)
	require.NoError(t, <-done)
	b.Clock.Set(last)
	for _, id := range waiting {
		require.NoError(t, b.Deliver(b.ctx, id))
		require.Equal(t, Delivered, b.get(id).Status)
		require.Equal(t, 1, b.get(id).AttemptCount)
	}
	open, _ := b.Breakers()
	require.Zero(t, open)
}

// At an endpoint that stays dead each delivery has its six attempts at its own times, though the
// breaker is open from the tenth on: a delivery that is due is the probe.
func TestScheduleAtADeadEndpoint(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(502))
	ids := []uuid.UUID{b.queueOne(r.URL), b.queueOne(r.URL), b.queueOne(r.URL), b.queueOne(r.URL)}
	began := b.Clock.Now()
	for range 6 * len(ids) {
		next := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM work ORDER BY due_at LIMIT 1`)
		b.Clock.Set(*b.DueAt(work.Deliver, next))
		require.EqualError(t, b.Deliver(b.ctx, next), "HTTP 502")
	}
	require.Len(t, r.seen(), 6*len(ids))
	for _, id := range ids {
		d, tries := b.get(id), b.attempts(id)
		require.Equal(t, Dead, d.Status)
		require.Equal(t, 6, d.AttemptCount)
		require.Equal(t, began, tries[0].StartedAt.UTC())
		for i, minutes := range []int{2, 5, 11, 24, 53} {
			gap, want := tries[i+1].StartedAt.Sub(tries[i].StartedAt), time.Duration(minutes)*time.Minute
			require.GreaterOrEqual(t, gap, want)
			require.LessOrEqual(t, gap, want+want/10)
		}
	}
}

// An answer that refuses the delivery is one of an endpoint that is there; so is a redirect. What
// we do not call ourselves says nothing of it.
func TestFindings(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]health{200: endpointUp, 204: endpointUp, 301: endpointUp, 400: endpointUp, 401: endpointUp, 404: endpointUp, 410: endpointUp, 429: endpointUp, 500: endpointDown, 502: endpointDown, 503: endpointDown, 504: endpointDown} {
		require.Equal(t, want, healthOf(safehttp.Result{StatusCode: code}, nil), code)
	}
	for _, reason := range []error{safehttp.ErrRefused, safehttp.ErrTimeout, safehttp.ErrCut, safehttp.ErrName, safehttp.ErrUnreachable, safehttp.ErrTLS, safehttp.ErrAnswer, safehttp.ErrNetwork} {
		require.Equal(t, endpointDown, healthOf(safehttp.Result{}, &safehttp.Error{Reason: reason}), reason)
	}
	for _, reason := range []error{safehttp.ErrURL, safehttp.ErrAddress} {
		require.Equal(t, healthUnknown, healthOf(safehttp.Result{}, &safehttp.Error{Reason: reason}), reason)
	}
}

// Of several who put the same delivery off, one does; a delivery that was claimed meanwhile stays
// as it is.
func TestHoldOnce(t *testing.T) {
	b := setup(t)
	id, claimed := b.queueOne("http://127.0.0.1:1"), b.queueOne("http://127.0.0.1:1")
	read := together(b, b.claims, id, claimed)
	b.Clock.Advance(work.Term + time.Second)
	require.NotNil(t, b.take(claimed)[0])
	in := func(c *dueDelivery, d time.Duration) later {
		return later{Outcome: work.Outcome{Claim: c.Claim, Next: new(b.Clock.Now().Add(d))}}
	}
	moved := together(b, b.postpones, in(read[0], time.Minute), in(read[0], 2*time.Minute), in(read[1], time.Minute))
	require.Equal(t, []bool{true, false, false}, moved)
	require.True(t, b.Clock.Now().Add(time.Minute).Equal(*b.DueAt(work.Deliver, id)))
	require.Equal(t, []bool{false}, together(b, b.postpones, in(read[0], time.Hour)))
}
