package webhook

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// How a lane behaves.
const (
	laneWait    = 500 * time.Millisecond // the longest wait for a place; waiting in vain shows that the endpoint is slow
	laneSlow    = time.Second            // a call that takes as long makes the endpoint slow, a quicker one makes it quick again
	laneShare   = 4                      // a slow endpoint has the limit divided by this
	laneBack    = time.Second            // who finds no place comes back after this, longer as more are turned away …
	laneBackMax = time.Minute            // … and no longer than this
)

// endpoint is what a lane is for. Tenants who share a host do not share a lane, and neither do one tenant's hosts.
type endpoint struct {
	tenant uuid.UUID
	host   string
}

// lanes bounds the calls that each endpoint has under way, so that a slow or dead one holds up nobody else. A quick
// endpoint with much to do lets callers wait for a place, which comes in milliseconds. A slow one turns them away at once,
// so that they hold no worker. A lane is forgotten when it is empty.
type lanes struct {
	limit int
	wait  time.Duration
	mu    sync.Mutex
	open  map[endpoint]*lane
}

type lane struct {
	busy    int
	slow    bool
	refused int // turned away of late; halves with each call that ends
	waiting []chan struct{}
}

func newLanes(limit int) *lanes {
	return &lanes{limit: limit, wait: laneWait, open: map[endpoint]*lane{}}
}

// enter takes a place in the lane of e; leave it again with [lanes.leave]. When there is none, in is false and back says
// how long to stay away. The error is ctx's.
func (l *lanes) enter(ctx context.Context, e endpoint) (in bool, back time.Duration, err error) {
	l.mu.Lock()
	n := l.open[e]
	if n == nil {
		n = &lane{}
		l.open[e] = n
	}
	if n.busy < l.places(n) {
		n.busy++
		l.mu.Unlock()
		return true, 0, nil
	}
	if n.slow {
		defer l.mu.Unlock()
		return false, l.refuse(n), nil
	}
	place := make(chan struct{}, 1)
	n.waiting = append(n.waiting, place)
	l.mu.Unlock()

	patience := time.NewTimer(l.wait)
	defer patience.Stop()
	select {
	case <-place:
		return true, 0, nil
	case <-patience.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(n.waiting, place)
	if i < 0 { // a place was given in this very moment
		return true, 0, nil
	}
	n.waiting = slices.Delete(n.waiting, i, i+1)
	if err != nil {
		return false, 0, err
	}
	n.slow = true
	return false, l.refuse(n), nil
}

// leave gives the place back after a call that took as long as said, or without one (0).
func (l *lanes) leave(e endpoint, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.open[e]
	n.busy--
	if took > 0 {
		n.slow = took >= laneSlow
	}
	n.refused /= 2
	for n.busy < l.places(n) && len(n.waiting) > 0 {
		n.waiting[0] <- struct{}{}
		n.waiting = n.waiting[1:]
		n.busy++
	}
	if n.busy == 0 {
		delete(l.open, e)
	}
}

func (l *lanes) places(n *lane) int {
	if n.slow {
		return max(1, l.limit/laneShare)
	}
	return l.limit
}

// refuse counts a caller who is turned away, and says how long it stays away: longer the more there are, so that those
// who come back in vain stay few however long the queue is, and spread by up to a half.
func (l *lanes) refuse(n *lane) time.Duration {
	n.refused++
	back := min(laneBack*time.Duration(1+n.refused/l.limit), laneBackMax)
	return back + rand.N(back/2)
}
