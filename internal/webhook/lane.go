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

// Why a delivery was put off by its lane. Neither counts as an attempt.
var (
	// ErrBusy says that the endpoint, or its tenant, has as many calls under way as it may.
	ErrBusy = errors.New("webhook: endpoint is busy")
	// ErrHeld says that the endpoint is down, and that another delivery is just finding out whether
	// it is back.
	ErrHeld = errors.New("webhook: endpoint is down, the delivery is held")
)

// How a lane behaves.
const (
	// the longest wait for a place; waiting in vain shows that the endpoint is slow
	laneWait = 500 * time.Millisecond
	// a call that takes as long makes the endpoint slow, a quicker one makes it quick again
	laneSlow  = time.Second
	laneShare = 4 // a slow endpoint has the limit divided by this
	// who finds no place comes back after this, longer as more are turned away …
	laneBack    = time.Second
	laneBackMax = time.Minute // … and no longer than this
	// so many calls in a row that find nobody there open the breaker
	laneDown = 10
	// a dead endpoint that nothing is sent to is forgotten after this
	laneKeep = 5 * time.Minute
	laneMax  = 4096 // … and at once while so many are remembered
)

// endpoint is what a lane is for. Tenants who share a host do not share a lane, and neither do one
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

// lanes bounds the calls that each endpoint and each tenant has under way, so that a slow or dead
// one holds up nobody else. A quick endpoint with much to do lets callers wait for a place, which
// comes in milliseconds. A slow one turns them away at once, so that they hold no worker.
//
// A lane is its endpoint's breaker too. After laneDown calls in a row that found it dead it is
// open: its one place is for the delivery that probes it, and the others are held. The probe is an
// ordinary attempt of whichever delivery comes first, at that delivery's own time, so one that
// fails alone keeps its schedule to the second; only a crowd at a dead endpoint waits for its turn.
// The first call that finds the endpoint alive closes the breaker.
//
// A lane is forgotten when it is empty and its endpoint is not known to fail.
type lanes struct {
	limit, perTenant int
	wait             time.Duration
	clock            clock.Clock
	mu               sync.Mutex
	open             map[endpoint]*lane
	tenants          map[uuid.UUID]*crowd
	tidied           time.Time
}

// crowd is who uses the places of an endpoint, or of a tenant.
type crowd struct {
	busy    int
	refused int // turned away of late; halves with each call that ends
}

type lane struct {
	crowd
	slow     bool
	failures int       // calls in a row that found the endpoint dead
	since    time.Time // when they became laneDown
	used     time.Time
	waiting  []chan struct{}
}

func newLanes(limit, perTenant int, c clock.Clock) *lanes {
	return &lanes{
		limit: limit, perTenant: perTenant, wait: laneWait, clock: c,
		open: map[endpoint]*lane{}, tenants: map[uuid.UUID]*crowd{}, tidied: c.Now(),
	}
}

func (n *lane) down() bool { return n.failures >= laneDown }

// enter takes a place in the lane of e; leave it again with [lanes.leave]. When there is none the
// error is [ErrBusy] or [ErrHeld], and back says how long to stay away; any other error is ctx's.
func (l *lanes) enter(ctx context.Context, e endpoint) (back time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tidy()
	n, t := l.open[e], l.tenants[e.tenant]
	if n == nil {
		n = &lane{}
		l.open[e] = n
	}
	if t == nil {
		t = &crowd{}
		l.tenants[e.tenant] = t
	}
	n.used = l.clock.Now()
	if t.busy >= l.perTenant {
		l.forget(e, n)
		return refuse(t, l.perTenant), ErrBusy
	}
	if n.busy < l.places(n) {
		n.busy++
		t.busy++
		return 0, nil
	}
	if n.slow || (n.down() && len(n.waiting) >= l.limit) {
		return l.turnAway(n)
	}
	return l.queue(ctx, e, n)
}

// queue waits for a place in the lane; l.mu is held before and after, and free meanwhile.
func (l *lanes) queue(ctx context.Context, e endpoint, n *lane) (back time.Duration, err error) {
	place := make(chan struct{}, 1)
	n.waiting = append(n.waiting, place)
	l.mu.Unlock()
	patience := time.NewTimer(l.wait)
	defer patience.Stop()
	select {
	case <-place:
	case <-patience.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	i := slices.Index(n.waiting, place)
	if i < 0 { // a place was given, if only in this very moment
		return 0, nil
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	defer l.forget(e, n)
	if err != nil {
		return 0, err
	}
	if n.busy >= l.places(n) { // else it was the tenant's other hosts that had its places
		n.slow = true
	}
	return l.turnAway(n)
}

// leave gives the place back after a call that took as long as said (0: there was none), and tells
// whether what it found has opened or closed the breaker.
func (l *lanes) leave(e endpoint, took time.Duration, f finding) (opened, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, t := l.open[e], l.tenants[e.tenant]
	n.busy--
	t.busy--
	n.used = l.clock.Now()
	if took > 0 {
		n.slow = took >= laneSlow
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
	n.refused /= 2
	t.refused /= 2
	for n.busy < l.places(n) && t.busy < l.perTenant && len(n.waiting) > 0 {
		n.waiting[0] <- struct{}{}
		n.waiting = n.waiting[1:]
		n.busy++
		t.busy++
	}
	l.forget(e, n)
	return n.down() && !was, was && !n.down()
}

// forget drops what is empty. An endpoint that fails is remembered, as long as there are not too
// many.
func (l *lanes) forget(e endpoint, n *lane) {
	if n.busy == 0 && len(n.waiting) == 0 && (n.failures == 0 || len(l.open) > laneMax) {
		delete(l.open, e)
	}
	if t := l.tenants[e.tenant]; t != nil && t.busy == 0 {
		delete(l.tenants, e.tenant)
	}
}

// tidy forgets, once in a while, the dead endpoints that nothing was sent to for laneKeep.
func (l *lanes) tidy() {
	now := l.clock.Now()
	if now.Sub(l.tidied) < laneKeep {
		return
	}
	l.tidied = now
	for e, n := range l.open {
		if n.busy == 0 && len(n.waiting) == 0 && now.Sub(n.used) >= laneKeep {
			delete(l.open, e)
		}
	}
}

// breakers counts the open ones, and says since when the longest has been open.
func (l *lanes) breakers() (open int, since *time.Time) {
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

func (l *lanes) places(n *lane) int {
	switch {
	case n.down():
		return 1
	case n.slow:
		return max(1, l.limit/laneShare)
	}
	return l.limit
}

func (l *lanes) turnAway(n *lane) (time.Duration, error) {
	if n.down() {
		return refuse(&n.crowd, l.limit), ErrHeld
	}
	return refuse(&n.crowd, l.limit), ErrBusy
}

// refuse counts a caller who is turned away, and says how long it stays away: longer the more there
// are, so that those who come back in vain stay few however long the queue is, and spread by up to
// a half.
func refuse(c *crowd, limit int) time.Duration {
	c.refused++
	back := min(laneBack*time.Duration(1+c.refused/limit), laneBackMax)
	return back + rand.N(back/2)
}
