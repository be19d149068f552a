package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/testenv"
)

func TestEndpointLimiter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := clock.NewFake(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	l := newLimiter(8, 16, c)
	l.wait = time.Millisecond
	e := endpoint{tenant: uuid.New(), host: "example.com"}
	enter := func() (bool, time.Duration) {
		back, err := l.acquire(ctx, e)
		if err != nil {
			require.ErrorIs(t, err, ErrBusy)
		}
		return err == nil, back
	}
	for range 8 {
		in, _ := enter()
		require.True(t, in)
	}
	var last time.Duration
	for range 600 { // the first waits in vain, the others are deferred at once
		in, back := enter()
		l.wait = time.Hour
		require.False(t, in)
		require.GreaterOrEqual(t, back, limiterBack)
		require.LessOrEqual(t, back, limiterBackMax*3/2)
		last = back
	}
	require.GreaterOrEqual(t, last, limiterBackMax, "longer and longer")
	_, err := l.acquire(ctx, endpoint{tenant: e.tenant, host: "other.example"})
	require.NoError(t, err, "another host's slots are its own")
	_, err = l.acquire(ctx, endpoint{tenant: uuid.New(), host: e.host})
	require.NoError(t, err, "and so is another tenant's")

	for range 6 { // slow calls end: two are left, a quarter of eight
		l.release(e, 10*time.Second, endpointUp)
	}
	c.Advance(limiterBackMax)
	in, back := enter()
	require.False(t, in, "a slow endpoint has a quarter of the slots")
	require.Equal(t, limiterBack, back, "those before have had their turns")
	l.release(e, 10*time.Millisecond, endpointUp)
	for range 7 {
		in, _ = enter()
		require.True(t, in, "a quick answer gives the slots back")
	}
	for range 8 {
		l.release(e, 0, healthUnknown)
	}
	c.Advance(limiterKeep)
	l.openBreakers()
	require.NotContains(t, l.open, e, "an idle endpoint is forgotten after a while")
}

func TestLimiterWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	l := newLimiter(2, 4, clock.System)
	l.wait = time.Minute
	e := endpoint{host: "example.com"}
	for range 2 {
		_, err := l.acquire(ctx, e)
		require.NoError(t, err)
	}
	waits := make(chan bool, 1)
	go func() {
		_, err := l.acquire(context.Background(), e)
		waits <- err == nil
	}()
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open[e].waiting)
	}
	testenv.Eventually(t, 30*time.Second, "one that waits for a slot", func() bool { return waiting() == 1 }, func() any { return waiting() })
	gone := make(chan error, 1)
	go func() {
		_, err := l.acquire(ctx, e)
		gone <- err
	}()
	testenv.Eventually(t, 30*time.Second, "two that wait for a slot", func() bool { return waiting() == 2 }, func() any { return waiting() })
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	l.release(e, time.Millisecond, endpointUp)
	require.True(t, <-waits, "who waits gets the slot that comes free")
	l.release(e, time.Millisecond, endpointUp)
	l.release(e, time.Millisecond, endpointUp)
	require.Zero(t, l.open[e].inFlight)
}

// How quick an endpoint was is remembered though nothing is in flight for a moment: the next
// deliveries wait for a slot. If it has become slow meanwhile, one wait in vain shows that.
func TestLimiterRemembersTheSpeed(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Now())
	l := newLimiter(2, 1000, c)
	l.wait = 10 * time.Millisecond
	e := endpoint{host: "example.com"}
	acquire := func() error {
		c.Advance(time.Millisecond)
		_, err := l.acquire(t.Context(), e)
		return err
	}
	require.NoError(t, acquire())
	l.release(e, time.Millisecond, endpointUp)
	require.Greater(t, l.line(l.open[e]), l.limit, "more may wait than nobody knows about")
	for range 2 {
		require.NoError(t, acquire())
	}
	require.ErrorIs(t, acquire(), ErrBusy)
	require.True(t, l.open[e].slow, "no call has ended in the time of a wait")
	l.release(e, 2*limiterSlow, endpointUp)
	l.release(e, 2*limiterSlow, endpointUp)
	require.Empty(t, l.open, "a slow one may have recovered")
	require.NoError(t, acquire())
	l.release(e, time.Millisecond, endpointUp)
	c.Advance(limiterKeep)
	require.NoError(t, acquire())
	l.release(e, 0, healthUnknown)
	require.NotContains(t, l.open, e, "forgotten after a while")
}

// However quick an endpoint is, no more wait for it than will have a slot within limiterWait. The
// others are deferred to the time at which those before have had their turns, in their order, so
// that each comes back once; where that is long, within a minute and a half.
func TestDeferredComeInTheirTurn(t *testing.T) {
	t.Parallel()
	for took, waiting := range map[time.Duration]int{
		2 * time.Millisecond: 2000, 50 * time.Millisecond: 80, 200 * time.Millisecond: 20, 900 * time.Millisecond: 4, 10 * time.Second: 0,
	} {
		c := clock.NewFake(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
		l := newLimiter(8, 16, c)
		e := endpoint{tenant: uuid.New(), host: "example.com"}
		for range 8 {
			_, err := l.acquire(t.Context(), e)
			require.NoError(t, err)
		}
		l.mu.Lock()
		n := l.open[e]
		n.took, n.slow = took, false
		require.Equal(t, waiting, l.line(n), took)
		for range 8 {
			n.ended(took)
		}
		require.Equal(t, took, n.took)
		last := time.Duration(0)
		for i := range 3000 {
			back, err := l.defers(n)
			require.ErrorIs(t, err, ErrBusy)
			require.GreaterOrEqual(t, back, limiterBack)
			require.LessOrEqual(t, back, limiterBackMax*3/2)
			if back < limiterBackMax {
				require.Equal(t, limiterBack+time.Duration(i)*(took/8), back, "%s: one turn after the other", took)
				require.GreaterOrEqual(t, back, last)
			}
			last = back
		}
		l.mu.Unlock()
	}
}

// Ten calls in a row that find nobody open the breaker: one slot is left, and the others are held.
// One that finds the endpoint alive closes it, whatever it answered.
func TestBreaker(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLimiter(8, 16, clock.System)
	e := endpoint{tenant: uuid.New(), host: "example.com"}
	call := func(f health) (opened, closed bool) {
		t.Helper()
		_, err := l.acquire(ctx, e)
		require.NoError(t, err)
		return l.release(e, time.Minute, f)
	}
	for _, f := range []health{endpointDown, endpointDown, endpointDown, endpointDown, endpointDown, endpointUp, endpointDown, endpointDown, endpointDown, endpointDown, endpointDown, endpointDown, endpointDown, endpointDown, healthUnknown, endpointDown} {
		opened, closed := call(f)
		require.False(t, opened || closed)
	}
	opened, _ := call(endpointDown)
	require.True(t, opened, "ten in a row")
	for range 3 {
		_, err := l.acquire(ctx, e)
		require.NoError(t, err, "the probe")
		for range 100 {
			back, err := l.acquire(ctx, e)
			require.ErrorIs(t, err, errHeld)
			require.GreaterOrEqual(t, back, limiterBack)
		}
		_, err = l.acquire(ctx, endpoint{tenant: e.tenant, host: "other.example"})
		require.NoError(t, err, "another host's breaker is its own")
		l.release(endpoint{tenant: e.tenant, host: "other.example"}, time.Millisecond, endpointUp)
		opened, closed := l.release(e, time.Minute, endpointDown)
		require.False(t, opened || closed, "it stays open, and the next probe may go at once")
	}
	_, closed := call(endpointUp)
	require.True(t, closed)
	require.NotContains(t, l.open, e, "and it is forgotten, as it was slow")
	require.Empty(t, l.tenants)
}

// At an endpoint that fails at once a bounded number waits for the probe's slot, as each has its
// turn in no time.
func TestBreakerOfAQuickFailure(t *testing.T) {
	t.Parallel()
	l := newLimiter(2, 4, clock.System)
	l.wait = time.Minute
	e := endpoint{host: "example.com"}
	for range breakerAfter {
		_, err := l.acquire(context.Background(), e)
		require.NoError(t, err)
		l.release(e, time.Millisecond, endpointDown)
	}
	_, err := l.acquire(context.Background(), e)
	require.NoError(t, err)
	turns := make(chan error)
	for range 2 {
		go func() {
			_, err := l.acquire(context.Background(), e)
			turns <- err
		}()
	}
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open[e].waiting)
	}
	testenv.Eventually(t, 30*time.Second, "two that wait for the endpoint", func() bool { return waiting() == 2 }, func() any { return waiting() })
	_, err = l.acquire(context.Background(), e)
	require.ErrorIs(t, err, errHeld)
	for range 2 {
		l.release(e, time.Millisecond, endpointDown)
		require.NoError(t, <-turns)
		select {
		case err := <-turns:
			require.Failf(t, "two probes at once", "%v", err)
		default:
		}
	}
}

// A tenant with many hosts has no more slots than it may.
func TestTenantsPlaces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLimiter(4, 6, clock.System)
	tenant := uuid.New()
	host := func(i int) endpoint { return endpoint{tenant: tenant, host: string(rune('a' + i))} }
	for i := range 6 {
		_, err := l.acquire(ctx, host(i))
		require.NoError(t, err)
	}
	for i := range 26 {
		back, err := l.acquire(ctx, host(i))
		require.ErrorIs(t, err, ErrBusy)
		require.GreaterOrEqual(t, back, limiterBack)
	}
	require.Len(t, l.open, 6, "who is deferred leaves nothing behind")
	_, err := l.acquire(ctx, endpoint{tenant: uuid.New(), host: "a"})
	require.NoError(t, err)
	l.release(host(0), time.Millisecond, endpointUp)
	_, err = l.acquire(ctx, host(7))
	require.NoError(t, err)
}

// What is remembered of dead endpoints is bounded, in time and in number.
func TestDeadEndpointsAreForgotten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := clock.NewFake(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	l := newLimiter(4, 8, c)
	call := func() {
		e := endpoint{tenant: uuid.New(), host: "example.com"}
		_, err := l.acquire(ctx, e)
		require.NoError(t, err)
		l.release(e, time.Second, endpointDown)
	}
	for range limiterMax + 100 {
		call()
	}
	require.Len(t, l.open, limiterMax)
	require.Empty(t, l.tenants)
	c.Advance(limiterKeep)
	call()
	require.Len(t, l.open, 1)
}

// A breaker that nothing probes any more, as all deliveries to its endpoint have been given up, is
// not shown as open for ever, though this process delivers nothing at all.
func TestBreakerIsForgottenInPeace(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	l := newLimiter(8, 16, c)
	e := endpoint{tenant: uuid.New(), host: "example.com"}
	for range breakerAfter {
		_, err := l.acquire(context.Background(), e)
		require.NoError(t, err)
		l.release(e, time.Millisecond, endpointDown)
	}
	open, since := l.openBreakers()
	require.Equal(t, 1, open)
	require.Equal(t, c.Now(), *since)
	c.Advance(2*limiterKeep + time.Second)
	open, since = l.openBreakers()
	require.Zero(t, open)
	require.Nil(t, since)
}

// What was said of the breakers stays as it was said, though a breaker closes and opens again.
func TestOpenBreakersAreOfTheirMoment(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	l := newLimiter(8, 16, c)
	e := endpoint{tenant: uuid.New(), host: "example.com"}
	call := func(found health) {
		_, err := l.acquire(context.Background(), e)
		require.NoError(t, err)
		l.release(e, time.Millisecond, found)
	}
	opens := func() {
		for range breakerAfter {
			call(endpointDown)
		}
	}
	opens()
	opened := c.Now()
	open, since := l.openBreakers()
	require.Equal(t, 1, open)
	require.Equal(t, opened, *since)
	c.Advance(time.Minute)
	call(endpointUp)
	opens()
	require.Equal(t, opened, *since)
}
