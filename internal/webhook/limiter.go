package webhook

import (
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
	// ErrBusy says that the endpoint, or its tenant, has as many calls under way as it may.
	ErrBusy = errors.New("webhook: endpoint is busy")
	// ErrHeld says that the endpoint is down, and that another delivery is just finding out whether
	// it is back.
	ErrHeld = errors.New("webhook: endpoint is down, the delivery is held")
)

// How the limiter behaves.
const (
	// the longest wait for a slot; waiting in vain shows that the endpoint is slow
	limiterWait = 500 * time.Millisecond
	// a call that takes as long makes the endpoint slow, a quicker one makes it quick again
	limiterSlow  = time.Second
	limiterShare = 4 // a slow endpoint has the limit divided by this
	// a deferred delivery is due again after this, longer as more are deferred …
	limiterBack    = time.Second
	limiterBackMax = time.Minute // … and no longer than this
	// so many calls in a row that find nobody there open the breaker
	breakerAfter = 10
	// a dead endpoint that nothing is sent to is forgotten after this
	limiterKeep = 5 * time.Minute
	limiterMax  = 4096 // … and at once while so many are remembered
)

// endpoint is what is limited. Tenants who share a host do not share its slots, and neither do one
// tenant's hosts.
type endpoint struct {
	tenant uuid.UUID
	host   string
}

// finding is what a call says of the endpoint.
type finding int

const (
	nothing finding = iota // no call was made, or it was broken off
	alive                  // somebody answered, if only to refuse this delivery
	dead                   // nobody is there to answer, or what is there is broken
)

// limiter bounds the calls that each endpoint and each tenant has in flight, so that a slow or dead
// one holds up nobody else. At a quick endpoint with much to do callers wait for a slot, which
// comes in milliseconds. At a slow one they are deferred at once, so that they hold no worker.
//
// It is each endpoint's breaker too. After breakerAfter calls in a row that found the endpoint dead
// it is open: its one slot is for the delivery that probes it, and the others are held. The probe
// is an ordinary attempt of whichever delivery comes first, at that delivery's own time, so one
// that fails alone keeps its schedule to the second; only many at a dead endpoint wait for their
// turn. The first call that finds the endpoint alive closes the breaker.
//
// An endpoint is forgotten when nothing is in flight and it is not known to fail.
type limiter struct {
	limit, perTenant int
	wait             time.Duration
	clock            clock.Clock
	mu               sync.Mutex
	open             map[endpoint]*endpointLoad
	tenants          map[uuid.UUID]*load
	tidied           time.Time
}

// load is how an endpoint's, or a tenant's, slots are used.
type load struct {
	inFlight int
	deferred int // of late; halves with each call that ends
}

type endpointLoad struct {
	load
	slow     bool
	failures int       // calls in a row that found the endpoint dead
	since    time.Time // when they became breakerAfter
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
// error is [ErrBusy] or [ErrHeld], and back says how long to stay away; any other error is ctx's.
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
		return backOff(t, l.perTenant), ErrBusy
	}
	if n.inFlight < l.slots(n) {
		n.inFlight++
		t.inFlight++
		return 0, nil
	}
	if n.slow || (n.down() && len(n.waiting) >= l.limit) {
		return l.defers(n)
	}
	return l.queue(ctx, e, n)
}

// queue waits for a slot; l.mu is held before and after, and free meanwhile.
func (l *limiter) queue(ctx context.Context, e endpoint, n *endpointLoad) (back time.Duration, err error) {
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
	if i < 0 { // a slot was given, if only in this very moment
		return 0, nil
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	defer l.forget(e, n)
	if err != nil {
		return 0, err
	}
	if n.inFlight >= l.slots(n) { // else it was the tenant's other hosts that had its slots
		n.slow = true
	}
	return l.defers(n)
}

// release gives the slot back after a call that took as long as said (0: there was none), and
// reports whether what it found has opened or closed the breaker.
func (l *limiter) release(e endpoint, took time.Duration, f finding) (opened, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, t := l.open[e], l.tenants[e.tenant]
	n.inFlight--
	t.inFlight--
	n.used = l.clock.Now()
	if took > 0 {
		n.slow = took >= limiterSlow
	}
	was := n.down()
	switch f {
	case dead:
		n.failures++
	case alive:
		n.failures = 0
	}
	if n.down() && !was {
		n.since = n.used
	}
	n.deferred /= 2
	t.deferred /= 2
	for n.inFlight < l.slots(n) && t.inFlight < l.perTenant && len(n.waiting) > 0 {
		n.waiting[0] <- struct{}{}
		n.waiting = n.waiting[1:]
		n.inFlight++
		t.inFlight++
	}
	l.forget(e, n)
	return n.down() && !was, was && !n.down()
}

// forget drops what is empty. An endpoint that fails is remembered, as long as there are not too
// many.
func (l *limiter) forget(e endpoint, n *endpointLoad) {
	if n.inFlight == 0 && len(n.waiting) == 0 && (n.failures == 0 || len(l.open) > limiterMax) {
		delete(l.open, e)
	}
	if t := l.tenants[e.tenant]; t != nil && t.inFlight == 0 {
		delete(l.tenants, e.tenant)
	}
}

// tidy forgets, once in a while, the dead endpoints that nothing was sent to for limiterKeep.
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

// breakers counts the open ones, and says since when the longest has been open.
func (l *limiter) breakers() (open int, since *time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy() // nothing may be sent at all any more
	for _, n := range l.open {
		if !n.down() {
			continue
		}
		open++
		if since == nil || n.since.Before(*since) {
			since = &n.since
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

func (l *limiter) defers(n *endpointLoad) (time.Duration, error) {
	if n.down() {
		return backOff(&n.load, l.limit), ErrHeld
	}
	return backOff(&n.load, l.limit), ErrBusy
}

// backOff counts a deferred caller, and says how long it stays away: longer the more there
// are, so that those who come back in vain stay few however long the queue is, and spread by up to
// a half.
func backOff(c *load, limit int) time.Duration {
	c.deferred++
	back := min(limiterBack*time.Duration(1+c.deferred/limit), limiterBackMax)
	return back + rand.N(back/2)
}
