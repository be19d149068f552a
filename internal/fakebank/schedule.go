package fakebank

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"ajo/internal/clock"
)

// pollEvery is how often a clock that is not the system's is read while something waits for it: it
// has no timer.
const pollEvery = 2 * time.Millisecond

// schedule does things when the bank's clock reaches their time. Whoever asks the bank something
// calls run first, so that moving a fake clock shows at once; a goroutine does the same when nobody
// asks.
type schedule struct {
	ctx   context.Context
	clock clock.Clock
	work  *closableGroup
	once  sync.Once
	wake  chan struct{}

	next  atomic.Int64 // when the first is due, in unix nanoseconds; MaxInt64: nothing waits
	runMu sync.Mutex   // held while due things are done, so that run returns only after they are
	mu    sync.Mutex   // guards the items
	items []dueItem    // by time; those of one time in the order in which they came
}

func newSchedule(ctx context.Context, c clock.Clock, work *closableGroup) *schedule {
	s := &schedule{ctx: ctx, clock: c, work: work, wake: make(chan struct{}, 1)}
	s.next.Store(math.MaxInt64)
	return s
}

// at has do called once the clock reaches t. do must be short, and may schedule more.
func (s *schedule) at(t time.Time, do func()) {
	s.mu.Lock()
	i := sort.Search(len(s.items), func(i int) bool { return s.items[i].at.After(t) })
	s.items = slices.Insert(s.items, i, dueItem{t, do})
	// never later: while a run is at work, others must wait for it
	if n := t.UnixNano(); n < s.next.Load() {
		s.next.Store(n)
	}
	s.mu.Unlock()
	s.once.Do(func() { s.work.Go(s.loop) })
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run does everything that is due, and waits for what another run is doing. It must not be called
// from a scheduled do, nor with the books locked.
func (s *schedule) run() {
	if s.next.Load() > s.clock.Now().UnixNano() {
		return
	}
	s.runMu.Lock()
	defer s.runMu.Unlock()
	for {
		s.mu.Lock()
		if len(s.items) == 0 || s.items[0].at.After(s.clock.Now()) {
			s.settle()
			s.mu.Unlock()
			return
		}
		item := s.items[0]
		s.items = slices.Delete(s.items, 0, 1)
		s.mu.Unlock()
		item.do()
	}
}

// settle publishes when the next thing is due. Between a pop and this the old time stands, so that
// nobody overtakes run.
func (s *schedule) settle() {
	if len(s.items) == 0 {
		s.next.Store(math.MaxInt64)
		return
	}
	s.next.Store(s.items[0].at.UnixNano())
}

func (s *schedule) loop() {
	for {
		var timer <-chan time.Time
		if next := s.next.Load(); next != math.MaxInt64 {
			wait := pollEvery
			if s.clock == clock.System {
				wait = time.Duration(next - s.clock.Now().UnixNano())
			}
			timer = time.After(wait)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer:
		}
		s.run()
	}
}

// closableGroup is a WaitGroup that can be closed: once it is waited for, nothing more starts.
type closableGroup struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// Go runs do in a goroutine of the group, and reports whether the group was still open.
func (g *closableGroup) Go(do func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(do)
	}
	return !g.closed
}

// Wait closes the group and returns when all its goroutines have ended.
func (g *closableGroup) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// dueItem is something to be done at a time.
type dueItem struct {
	at time.Time
	do func()
}
