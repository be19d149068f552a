package webhook

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
)

// Why the endpoint limiter deferred a delivery. Neither counts as an attempt.
var (
	// ErrBusy says that the endpoint, or its tenant, has as many calls in flight as it may have.
	ErrBusy = errors.New("webhook: endpoint is busy")
	// errHeld says that the endpoint is down, and that another delivery is just finding out whether
	// it is back.
	errHeld = errors.New("webhook: endpoint is down, the delivery is held")
)

// How the limiter behaves.
const (
	// The longest wait for a slot. If no call ends within it, the endpoint is slow; otherwise only
	// as many wait as will get their turn within it.
	limiterWait = 500 * time.Millisecond
	// a call that takes at least this long makes the endpoint slow; a quicker one makes it quick
	// again
	limiterSlow  = time.Second
	limiterShare = 4 // a slow endpoint has the limit divided by this
	// a deferred delivery is due again when those deferred before it have had their turns, and not
	// before this …
	limiterBack    = time.Second
	limiterBackMax = time.Minute // … but after this, though it may come in vain
	// this many calls in a row that find the endpoint dead open the breaker
	breakerAfter = 10
	// an endpoint that nothing is sent to is forgotten after this
	limiterKeep = 5 * time.Minute
	limiterMax  = 4096 // … and at once while this many are remembered
)

// endpoint is the unit that is limited. Tenants who share a host do not share its slots, and
// neither do one tenant's hosts or its endpoints on one host.
type endpoint struct {
	tenant uuid.UUID
	host   string
	id     uuid.UUID // uuid.Nil: an account's or the tenant's own URL
}

// health is what a call shows about the endpoint.
type health int

const (
	healthUnknown health = iota // no call was made, or it was broken off
	endpointUp                  // the receiver answered, if only to refuse this delivery
	endpointDown                // nothing answered, or what answered is broken
)

// limiter bounds the calls that each endpoint and each tenant has in flight, so that a slow or dead
// one holds up nobody else. Callers wait for a slot if one will be free soon: many may wait at a
// quick endpoint, few at a slow one. The others are deferred at once, so that they occupy no
// worker, each until the endpoint, at its recent speed, will have finished those before.
//
// It is also each endpoint's breaker, which opens after breakerAfter calls in a row that found the
// endpoint dead. Then one slot is left for the delivery that probes it, and the others are held.
// The probe is an ordinary attempt of whichever delivery comes first, at that delivery's own time,
// so a single failing delivery keeps its schedule to the second; only when many wait at a dead
// endpoint do they have to take turns. The first call that finds the endpoint alive closes the
// breaker.
//
// What is known about an endpoint (that it is dead, or how quick it is) is kept for a while after
// its last call. A slow one may have recovered, so that is forgotten once nothing is in flight.
type limiter struct {
	limit, perTenant int
	wait             time.Duration
	clock            clock.Clock
	mu               sync.Mutex
	open             map[endpoint]*endpointLoad
	tenants          map[uuid.UUID]*load
	tidied           time.Time
}

// load is the use of an endpoint's, or a tenant's, slots.
type load struct {
	inFlight int
	took     time.Duration // recent average duration of a call; 0: none has ended
	next     time.Time     // when those that were deferred will have had their turns
}

type endpointLoad struct {
	load
	slow     bool
	last     time.Time // when a call ended
	failures int       // calls in a row that found the endpoint dead
	since    time.Time // when these became breakerAfter
	used     time.Time
	waiting  []chan struct{}
}

func newLimiter(limit, perTenant int, c clock.Clock) *limiter {
	return &limiter{
		limit: limit, perTenant: perTenant, wait: limiterWait, clock: c,
		open: map[endpoint]*endpointLoad{}, tenants: map[uuid.UUID]*load{}, tidied: c.Now(),
	}
}

func (n *endpointLoad) down() bool { return n.failures >= breakerAfter }

// acquire takes a slot of e; give it back with [limiter.release]. When there is none the
// error is [ErrBusy] or [errHeld], and back says how long to stay away; any other error is ctx's.
func (l *limiter) acquire(ctx context.Context, e endpoint) (back time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy()
	n, t := l.open[e], l.tenants[e.tenant]
	if n == nil {
		n = &endpointLoad{}
		l.open[e] = n
	}
	if t == nil {
		t = &load{}
		l.tenants[e.tenant] = t
	}
	n.used = l.clock.Now()
	if t.inFlight >= l.perTenant {
		l.forget(e, n)
		return l.backOff(t, l.perTenant), ErrBusy
	}
	if n.inFlight < l.slots(n) {
		n.inFlight++
		t.inFlight++
		return 0, nil
	}
	if n.slow || len(n.waiting) >= l.line(n) {
		return l.defers(n)
	}
	return l.waitForSlot(ctx, e, n)
}

// waitForSlot waits for a slot. l.mu is held before and after, but not while it waits.
func (l *limiter) waitForSlot(ctx context.Context, e endpoint, n *endpointLoad) (back time.Duration, err error) {
	begun := l.clock.Now()
	slot := make(chan struct{}, 1)
	n.waiting = append(n.waiting, slot)
	l.mu.Unlock()
	timer := time.NewTimer(l.wait)
	defer timer.Stop()
	select {
	case <-slot:
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	i := slices.Index(n.waiting, slot)
	if i < 0 { // a slot was granted, perhaps only at this moment
		return 0, nil
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	defer l.forget(e, n)
	if err != nil {
		return 0, err
	}
	// otherwise the tenant's other hosts had its slots, or the estimate was wrong
	if n.inFlight >= l.slots(n) && n.last.Before(begun) {
		n.slow = true
	}
	return l.defers(n)
}

// release gives the slot back after a call that took as long as said (0: there was none), and
// reports whether what it found has opened or closed the breaker.
func (l *limiter) release(e endpoint, took time.Duration, found health) (opened, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, t := l.open[e], l.tenants[e.tenant]
	n.inFlight--
	t.inFlight--
	n.used = l.clock.Now()
	if took > 0 {
		n.last = n.used
		n.slow = took >= limiterSlow
		n.ended(took)
		t.ended(took)
	}
	was := n.down()
	switch found {
	case endpointDown:
		n.failures++
	case endpointUp:
		n.failures = 0
	}
	if n.down() && !was {
		n.since = n.used
	}
	for n.inFlight < l.slots(n) && t.inFlight < l.perTenant && len(n.waiting) > 0 {
		n.waiting[0] <- struct{}{}
		n.waiting = n.waiting[1:]
		n.inFlight++
		t.inFlight++
	}
	l.forget(e, n)
	return n.down() && !was, was && !n.down()
}

// forget drops an unused entry. Failing endpoints are remembered, and so is how quick an endpoint
// was, as long as there are not too many.
func (l *limiter) forget(e endpoint, n *endpointLoad) {
	if n.inFlight == 0 && len(n.waiting) == 0 && (n.failures == 0 && (n.took == 0 || n.slow) || len(l.open) > limiterMax) {
		delete(l.open, e)
	}
	if t := l.tenants[e.tenant]; t != nil && t.inFlight == 0 {
		delete(l.tenants, e.tenant)
	}
}

// tidy forgets, from time to time, the endpoints to which nothing was sent for limiterKeep.
func (l *limiter) tidy() {
	now := l.clock.Now()
	if now.Sub(l.tidied) < limiterKeep {
		return
	}
	l.tidied = now
	for e, n := range l.open {
		if n.inFlight == 0 && len(n.waiting) == 0 && now.Sub(n.used) >= limiterKeep {
			delete(l.open, e)
		}
	}
}

// openBreakers returns how many are open, and since when the first has been.
func (l *limiter) openBreakers() (open int, since *time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy() // acquire does not call it if nothing is sent any more
	for _, n := range l.open {
		if !n.down() {
			continue
		}
		open++
		if since == nil || n.since.Before(*since) {
			since = new(n.since) // a copy, since the row may change once l.mu is released
		}
	}
	return open, since
}

func (l *limiter) slots(n *endpointLoad) int {
	switch {
	case n.down():
		return 1
	case n.slow:
		return max(1, l.limit/limiterShare)
	}
	return l.limit
}

// line returns how many may wait at an endpoint: as many as will get a slot within limiterWait;
// while its speed is unknown, as many as the limit; at a dead one, at most the limit.
func (l *limiter) line(n *endpointLoad) int {
	if n.took == 0 {
		return l.limit
	}
	soon := int(l.wait * time.Duration(l.slots(n)) / n.took)
	if n.down() {
		return min(soon, l.limit)
	}
	return soon
}

// ended adds the duration of a call to the average.
func (c *load) ended(took time.Duration) {
	if c.took == 0 {
		c.took = took
	}
	c.took += (took - c.took) / 8
}

func (l *limiter) defers(n *endpointLoad) (time.Duration, error) {
	if n.down() {
		return l.backOff(&n.load, l.slots(n)), errHeld
	}
	return l.backOff(&n.load, l.slots(n)), ErrBusy
}

// backOff returns how long a deferred caller stays away: until those deferred before it have had
// their turns, so that each comes once, and in order. If that would be long, it returns earlier and
// possibly in vain, after limiterBackMax plus up to a half.
func (l *limiter) backOff(c *load, slots int) time.Duration {
	now := l.clock.Now()
	took := c.took
	took = cmp.Or(took, limiterSlow)
	if first := now.Add(limiterBack); c.next.Before(first) {
		c.next = first
	}
	back := c.next.Sub(now)
	if back >= limiterBackMax {
		return limiterBackMax + rand.N(limiterBackMax/2)
	}
	c.next = c.next.Add(took / time.Duration(slots))
	return back
}
