package webhook

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

func TestDeliverOnce(t *testing.T) {
	spec.Shows(t, "event.out.other-headers")
	b := setup(t)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(204)
	})
	signing := secret.NewSigningSecret().Reveal()
	b.setSecret(signing)
	p := b.payment(r.URL + "/hook")
	id := b.queue(p)[0]
	b.Clock.Advance(3 * time.Second)

	require.NoError(t, b.Deliver(b.ctx, id))
	require.Len(t, r.seen(), 1)
	c := r.seen()[0]
	require.NoError(t, verify(c, signing, b.Clock.Now()))
	require.NoError(t, verifyStandard(c, signing))
	require.Equal(t, "application/json", c.header.Get("Content-Type"))
	require.Equal(t, "ajo/test", c.header.Get("User-Agent"))
	require.Equal(t, p.TransactionGroupID.String(), c.header.Get("Webhook-Id"))
	d := b.get(id)
	require.Equal(t, Delivered, d.Status)
	require.Equal(t, 1, d.AttemptCount)
	require.Equal(t, "", d.LastError)
	require.Nil(t, d.NextAttemptAt)
	require.Nil(t, d.LeasedUntil)
	require.True(t, d.DeliveredAt.Equal(b.Clock.Now()))
	tries := b.attempts(id)
	require.Len(t, tries, 1)
	require.Equal(t, 204, *tries[0].StatusCode)

	require.NoError(t, b.Deliver(b.ctx, id), "a second task does nothing")
	require.NoError(t, b.Deliver(b.ctx, uuid.New()), "nor does one for a delivery that is not there")
	require.Len(t, r.seen(), 1)
}

func TestSixAttemptsThenDeadLetter(t *testing.T) {
	spec.Shows(t, "field.deadletter.attempts", "field.deadletter.error.http")
	spec.Shows(t, "event.out.delays", "event.out.attempts", "event.out.exhausted", "event.out.sig.every", "event.out.sig.tolerance",
		"limit.delivery.delays", "limit.signature")
	b := setup(t)
	r := receive(t, answer(503))
	signing := secret.NewSigningSecret().Reveal()
	b.setSecret(signing)
	received := b.Clock.Now()
	id := b.queueOne(r.URL)
	for i, minutes := range []int{2, 5, 11, 24, 53} {
		err := b.Deliver(b.ctx, id)
		require.EqualError(t, err, "HTTP 503")
		next, ok := retry.When(err)
		require.True(t, ok)
		delay := time.Duration(minutes) * time.Minute
		require.WithinRange(t, next, b.Clock.Now().Add(delay), b.Clock.Now().Add(delay+delay/10))
		d := b.get(id)
		require.True(t, d.NextAttemptAt.Equal(next))
		require.Equal(t, Pending, d.Status)
		require.Equal(t, i+1, d.AttemptCount)
		require.Equal(t, "HTTP 503", d.LastError)

		b.Clock.Set(next.Add(-3 * time.Second))
		require.NoError(t, b.Deliver(b.ctx, id), "not due: a stray task")
		b.Clock.Set(next.Add(-time.Second))
		err = b.Deliver(b.ctx, id)
		require.ErrorIs(t, err, errEarly)
		again, _ := retry.When(err)
		require.True(t, again.Equal(next), "a task that is a moment early is given the time")
		require.Len(t, r.seen(), i+1)
		b.Clock.Set(next)
	}
	err := b.Deliver(b.ctx, id)
	require.EqualError(t, err, "HTTP 503")
	require.True(t, retry.IsExhausted(err))

	calls := r.seen()
	require.Len(t, calls, 6)
	times := map[string]bool{}
	for i, c := range calls {
		require.Equal(t, calls[0].body, c.body, "the same bytes")
		require.NoError(t, verify(c, signing, b.attempts(id)[i].StartedAt))
		times[c.header.Get("Webhook-Timestamp")] = true
	}
	require.Len(t, times, 6, "a fresh timestamp each")

	letters, info, err := b.DeadLetters(b.ctx, b.tenant, page.Request{Limit: 20})
	require.NoError(t, err)
	require.False(t, info.HasMore)
	require.Equal(t, []DeadLetter{{
		ID: id, CallbackURL: r.URL, Status: "dead_letter", AttemptCount: 6, LastError: "HTTP 503", CreatedAt: received,
	}}, letters)
	b.Clock.Advance(24 * time.Hour)
	require.NoError(t, b.Deliver(b.ctx, id), "a dead letter is not due")
	require.Len(t, r.seen(), 6)
}

func TestJitterIsSpread(t *testing.T) {
	b := setup(t)
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		var a attemptResult
		a.Failure = "HTTP 500"
		b.conclude(&a, 1, b.opts.Delays)
		d := a.NextAttemptAt.Sub(b.Clock.Now())
		least, most = min(least, d), max(most, d)
	}
	require.GreaterOrEqual(t, least, 2*time.Minute)
	require.Less(t, least, 2*time.Minute+2*time.Second)
	require.LessOrEqual(t, most, 2*time.Minute+12*time.Second)
	require.Greater(t, most, 2*time.Minute+10*time.Second)
}

// Any 2xx is a success; any other final answer is tried again.
func TestOnly2xxIsSuccess(t *testing.T) {
	spec.Shows(t, "event.out.2xx", "event.out.other-answer")
	b := setup(t)
	for code := 200; code < 300; code++ {
		id := b.queueOne(receive(t, answer(code)).URL)
		require.NoError(t, b.Deliver(b.ctx, id), code)
		require.Equal(t, Delivered, b.get(id).Status, code)
	}
	for _, code := range []int{300, 304, 400, 401, 404, 410, 429, 500, 502, 599} {
		id := b.queueOne(receive(t, answer(code)).URL)
		_, again := retry.When(b.Deliver(b.ctx, id))
		require.True(t, again, code)
		require.Equal(t, Pending, b.get(id).Status, code)
	}
}

func TestAnswersThatAreNoSuccess(t *testing.T) {
	spec.Shows(t, "event.out.network")
	b := setupWith(t, Options{}, safehttp.Options{})
	hasty := b.another(Options{}, safehttp.Options{Timeout: 200 * time.Millisecond}) // for whoever does not answer
	stop := make(chan struct{})
	other := receive(t, answer(200))
	noise := append([]byte("\x00\xff\xfe \xc3("), bytes.Repeat([]byte("x"), 1<<20)...)
	r := receive(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/slow":
			<-stop
		case "/redirect":
			http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
		case "/noise":
			w.WriteHeader(500)
			_, _ = w.Write(noise)
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/1xx":
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	})
	defer close(stop)
	for url, failure := range map[string]string{
		r.URL + "/slow":                     "timeout after 200ms",
		r.URL + "/redirect":                 "HTTP 307: redirects are not followed",
		r.URL + "/noise":                    "HTTP 500",
		r.URL + "/cut":                      "connection closed before an answer",
		r.URL + "/1xx":                      "HTTP 101",
		"http://127.0.0.1:1/":               "connection refused",
		"http://10.0.0.1/":                  "address 10.0.0.1 is not allowed",
		"http://name.invalid./?token=a":     "host name does not resolve",
		"ftp://example.com/?token=password": "callback URL must begin with https:// or http://",
	} {
		id := b.queueOne(url)
		deliver := b.Deliver
		if strings.HasSuffix(url, "/slow") || strings.Contains(url, "name.invalid") {
			deliver = hasty.Deliver
		}
		err := deliver(b.ctx, id)
		_, again := retry.When(err)
		require.True(t, again, url)
		// a machine without a name server
		if strings.Contains(url, "name.invalid") && err.Error() != failure {
			failure = err.Error()
			require.Contains(t, failure, "timeout")
		}
		require.EqualError(t, err, failure, url)
		require.Equal(t, failure, b.get(id).LastError)
		require.Equal(t, failure, b.attempts(id)[0].Error)
		if strings.HasSuffix(url, "/noise") {
			require.Equal(t, string(noise[:16<<10]), b.attempts(id)[0].Body)
		}
	}
	require.Empty(t, other.seen())
}

func TestTheSameDeliveryAtOnceIsOneCall(t *testing.T) {
	b := setup(t)
	release := make(chan struct{})
	r := receive(t, func(http.ResponseWriter, *http.Request) { <-release })
	id := b.queueOne(r.URL)
	services := []*Service{b.Service, b.another(Options{}, safehttp.Options{})}
	const callers = 24
	done := make(chan error, callers)
	for i := range callers {
		go func() { done <- services[i%2].Deliver(b.ctx, id) }()
	}
	for range callers - 1 {
		require.NoError(t, <-done)
	}
	close(release)
	require.NoError(t, <-done)
	require.Len(t, r.seen(), 1)
	require.Equal(t, 1, b.get(id).AttemptCount)
}

func TestManyDeliveriesAtOnce(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	var many []NewDelivery
	for range 200 {
		many = append(many, b.payment(r.URL))
	}
	ids := b.queue(many...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	busy := map[uuid.UUID]time.Time{}
	for _, id := range ids {
		wg.Go(func() {
			err := b.Deliver(b.ctx, id)
			// the machine is slow: deferred, with no attempt counted
			if at, later := retry.When(err); later && errors.Is(err, ErrBusy) {
				mu.Lock()
				defer mu.Unlock()
				busy[id] = at
			} else if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
	for id, at := range busy {
		if at.After(b.Clock.Now()) {
			b.Clock.Set(at)
		}
		require.NoError(t, b.Deliver(b.ctx, id))
	}
	require.Len(t, r.seen(), len(ids))
	require.Equal(t, len(ids), testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE status = 'delivered' AND attempt_count = 1`))
	require.Equal(t, len(ids), testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE status_code = 200`))
	var groups []string
	for _, c := range r.seen() {
		groups = append(groups, string(c.body))
	}
	slices.Sort(groups)
	require.Len(t, slices.Compact(groups), len(ids), "each its own body")
}

func TestCrashBetweenClaimAndRecord(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	id := b.queueOne(r.URL)
	c := b.take(id)[0]
	require.NotNil(t, c) // and the process is gone
	lease := b.Clock.Now().Add(work.Term)

	require.NoError(t, b.Deliver(b.ctx, id))
	require.Empty(t, r.seen(), "somebody has the claim")
	due := func() []uuid.UUID {
		b.T.Helper()
		return b.Overdue(work.Deliver, b.Clock.Now(), b.Clock.Now().Add(1), 10)
	}
	b.Clock.Advance(work.Term - time.Second)
	require.Empty(t, due())
	at, _ := retry.When(b.Deliver(b.ctx, id))
	require.True(t, at.Equal(lease), "a task a moment before the lease's end is given the time")
	b.Clock.Advance(time.Second)
	require.Equal(t, []uuid.UUID{id}, due())
	require.NoError(t, b.Deliver(b.ctx, id))
	require.Len(t, r.seen(), 1)
	require.Equal(t, Delivered, b.get(id).Status)
	require.Equal(t, 1, b.get(id).AttemptCount)
	require.Empty(t, due())
}

func TestAnswerAfterTheClaimIsGone(t *testing.T) {
	for _, late := range []int{200, 500} {
		t.Run(http.StatusText(late), func(t *testing.T) {
			b := setup(t)
			release := make(chan struct{})
			var r *receiver
			r = receive(t, func(w http.ResponseWriter, _ *http.Request) {
				if len(r.seen()) == 1 {
					<-release
					w.WriteHeader(late)
					return
				}
				w.WriteHeader(700 - late)
			})
			id := b.queueOne(r.URL)
			first := make(chan error)
			go func() { first <- b.Deliver(b.ctx, id) }()
			testenv.Eventually(t, 5*time.Second, "the first call", func() bool { return len(r.seen()) == 1 })
			b.Clock.Advance(31 * time.Second)
			err := b.another(Options{}, safehttp.Options{}).Deliver(b.ctx, id)
			require.Equal(t, late == 200, err != nil)
			want := b.get(id)

			close(release)
			require.NoError(t, <-first, "the late one records nothing")
			require.Equal(t, want, b.get(id))
			require.Len(t, b.attempts(id), 1)
			require.Equal(t, 700-late, *b.attempts(id)[0].StatusCode)
		})
	}
}

func TestCallerGoesAway(t *testing.T) {
	b := setup(t)
	release := make(chan struct{})
	r := receive(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	id := b.queueOne(r.URL)
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error)
	go func() { done <- b.Deliver(ctx, id) }()
	testenv.Eventually(t, 5*time.Second, "the call", func() bool { return len(r.seen()) == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	d := b.get(id)
	require.Zero(t, d.AttemptCount, "a call that we broke off is no attempt of the receiver's")
	require.True(t, d.LeasedUntil.Equal(b.Clock.Now().Add(work.Term)), "and comes again when the lease has run out")
}

// A delivery that waits for a slot while its worker is stopped is given back at once.
func TestCallerGoesAwayWhileWaiting(t *testing.T) {
	b := setupWith(t, Options{PerEndpoint: 1}, safehttp.Options{})
	b.limiter.wait = time.Minute
	release := make(chan struct{})
	r := receive(t, func(http.ResponseWriter, *http.Request) { <-release })
	ids := b.queue(b.payment(r.URL), b.payment(r.URL))
	ctx, cancel := context.WithCancel(b.ctx)
	claimed := b.Claim(b.ctx, append(ids, ids...))
	require.NoError(t, b.Attempt(b.ctx, claimed[2]), "of two that are the same, the first has it")
	require.NoError(t, b.Attempt(b.ctx, claimed[3]))
	first, second := make(chan error), make(chan error)
	go func() { first <- b.Attempt(b.ctx, claimed[0]) }()
	testenv.Eventually(t, 5*time.Second, "the first call", func() bool { return len(r.seen()) == 1 })
	go func() { second <- b.Attempt(ctx, claimed[1]) }()
	cancel()
	err := <-second
	require.ErrorIs(t, err, context.Canceled)
	at, later := retry.When(err)
	require.True(t, later)
	require.True(t, at.Equal(b.Clock.Now()))
	require.Nil(t, b.get(ids[1]).LeasedUntil)
	close(release)
	require.NoError(t, <-first)
	require.NoError(t, b.Deliver(b.ctx, ids[1]))
	require.Len(t, r.seen(), 2)
}

func TestAnswerIsKeptThoughTheCallerGoes(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(200))
	id := b.queueOne(r.URL)
	ctx, cancel := context.WithCancel(b.ctx)
	records := b.records
	t.Cleanup(records.Close)
	b.records = pg.NewBatcher(b.Pool, pg.BatchOptions[attemptResult]{Name: "webhook/record", Max: 1}, func(own context.Context, tx pg.Tx, attempts []attemptResult) ([]bool, error) {
		cancel() // between the answer and its record
		<-ctx.Done()
		return b.record(own, tx, attempts)
	})
	require.NoError(t, b.Deliver(ctx, id))
	require.Equal(t, Delivered, b.get(id).Status)
}

func TestBusyEndpointHoldsUpNobodyElse(t *testing.T) {
	b := setupWith(t, Options{PerEndpoint: 2}, safehttp.Options{})
	b.limiter.wait = 20 * time.Millisecond
	release := make(chan struct{})
	dead := receive(t, func(http.ResponseWriter, *http.Request) { <-release })
	quick := receive(t, answer(200))
	done := make(chan error)
	for range 2 {
		id := b.queueOne(dead.URL)
		go func() { done <- b.Deliver(b.ctx, id) }()
	}
	testenv.Eventually(t, 5*time.Second, "two calls", func() bool { return len(dead.seen()) == 2 })
	third := b.queueOne(dead.URL)
	for range 3 {
		err := b.Deliver(b.ctx, third)
		require.ErrorIs(t, err, ErrBusy)
		at, ok := retry.When(err)
		require.True(t, ok)
		require.WithinRange(t, at, b.Clock.Now().Add(time.Second), b.Clock.Now().Add(time.Minute))
		require.True(t, b.get(third).NextAttemptAt.Equal(at), "the row says when it comes back")
		b.Clock.Set(at)
	}
	require.Nil(t, b.get(third).LeasedUntil, "it was given back")
	require.Zero(t, b.get(third).AttemptCount)
	require.NoError(t, b.Deliver(b.ctx, b.queueOne(quick.URL)))
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.NoError(t, b.Deliver(b.ctx, third))
	require.Len(t, dead.seen(), 3)
}

func BenchmarkDeliver(b *testing.B) {
	e := setup(b)
	r := receive(b, answer(200))
	var many []NewDelivery
	for range b.N {
		many = append(many, e.payment(r.URL))
	}
	ids := e.queue(many...)
	b.ResetTimer()
	var wg sync.WaitGroup
	next := make(chan uuid.UUID)
	for range 64 {
		wg.Go(func() {
			for id := range next {
				if err := e.Deliver(e.ctx, id); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	wg.Wait()
}
