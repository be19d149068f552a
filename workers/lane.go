package workers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"ajo/internal/metrics"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/tasks"
)

// placesAhead: a tenant has no more places than so many times those that it leaves free.
const placesAhead = 7

// errNoPlace is why an item comes back later though nothing was wrong with it.
var errNoPlace = errors.New("as many items as this process may work on were under way")

// lane shares what this process does of a kind of work among the tenants.
//
// An item is taken up where there is room, waits for a place, and is worked on. Places are given to
// the tenants in turn, and one tenant leaves an eighth of those free that it could have; of the
// room it takes no more than it leaves. So whoever comes finds a place, or has the next that comes
// free, however much others have to do, and whoever is alone has nearly all. What finds no room
// goes to the kind's slow queue, and so does all that comes for that tenant until the queue has
// been worked off: a tenant's items keep their order, roughly.
type lane struct {
	kind  tasks.Kind
	work  bulk
	log   *slog.Logger
	tasks [2]int // taken at once from the queue, and from the slow one

	mu      sync.Mutex
	free    int // places
	room    int // for items that are taken up
	tenants map[uuid.UUID]*share
	turns   []*share // those with items that wait for a place, the next first
	slow    map[uuid.UUID]time.Time
	roomier chan struct{} // closed when there is more room; nil: nobody waits for it
	closed  bool
	next    *semaphore.Weighted // the task of the slow queue that waits for room
}

// share is what a tenant has of a lane.
type share struct {
	taken   int // items taken up, of which
	atWork  int // … so many have a place
	waiting []*waiter
}

// waiter is the items of a task that wait for places.
type waiter struct {
	want, got int
	ready     chan struct{} // got has grown, or the lane is closed
}

// newLane takes as many tasks of the queue as there may be items without full tasks: what there is
// no room for goes to the slow queue, which waits. Of that it takes full tasks for all places, and
// one that waits; others are left to other processes.
func newLane(k tasks.Kind, places int, work bulk, log *slog.Logger) *lane {
	spec := tasks.Specs[k]
	room := spec.Room * places
	return &lane{
		kind: k, work: work, log: log.With(slog.String("kind", string(k))), free: places, room: room,
		tasks:   [2]int{room, max(2, places/spec.MaxIDs+1)},
		tenants: map[uuid.UUID]*share{}, slow: map[uuid.UUID]time.Time{}, next: semaphore.NewWeighted(1),
	}
}

func (l *lane) share(tenant uuid.UUID) *share {
	s := l.tenants[tenant]
	if s == nil {
		s = &share{}
		l.tenants[tenant] = s
	}
	return s
}

// enter takes up as many of a tenant's n items as there is room for.
func (l *lane) enter(tenant uuid.UUID, n int) int {
	s := l.share(tenant)
	n = max(0, min(n, (l.room-s.taken+1)/2))
	s.taken += n
	l.room -= n
	l.forget(tenant, s)
	return n
}

func (l *lane) forget(tenant uuid.UUID, s *share) {
	if s.taken == 0 {
		delete(l.tenants, tenant)
	}
}

// admit takes up as many of n items as there is room for; the others go to the slow queue.
func (l *lane) admit(tenant uuid.UUID, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, slow := l.slow[tenant]
	in := 0
	if !slow {
		in = l.enter(tenant, n)
	}
	if in < n {
		l.slow[tenant] = time.Now()
	}
	if in < n && !slow {
		metrics.SlowTenants(string(l.kind), len(l.slow))
		l.log.Info("a tenant has more to do than its share: what comes for it waits in the slow queue", slog.String("tenant", tenant.String()))
	}
	return in
}

// await is enter for a task of the slow queue: it waits until there is room for one item at least.
func (l *lane) await(ctx context.Context, tenant uuid.UUID, n int) (int, error) {
	for {
		l.mu.Lock()
		in := l.enter(tenant, n)
		if l.roomier == nil {
			l.roomier = make(chan struct{})
		}
		roomier, closed := l.roomier, l.closed
		l.mu.Unlock()
		if in > 0 {
			return in, nil
		}
		if closed {
			return 0, retry.At(time.Now(), errNoPlace)
		}
		select {
		case <-roomier:
		case <-ctx.Done():
			return 0, retry.At(time.Now().Add(unexpectedDelay), errNoPlace)
		}
	}
}

// do works on items that were taken up, as they get places, and calls done for each.
func (l *lane) do(ctx context.Context, tenant uuid.UUID, items []place, done func(i int, err error)) {
	if tenant != uuid.Nil {
		ctx = provider.ForTenant(ctx, tenant)
	}
	w := l.queue(tenant, len(items))
	var all sync.WaitGroup
	defer all.Wait()
	for len(items) > 0 {
		n, err := l.granted(ctx, tenant, w)
		if err != nil {
			for _, p := range items {
				done(p.i, err)
			}
			return
		}
		part := items[:n]
		items = items[n:]
		run := func() {
			ids, ended := make([]uuid.UUID, n), 0
			for j, p := range part {
				ids[j] = p.id
			}
			l.work(ctx, ids, func(j int, err error) {
				done(part[j].i, err)
				if l.kind == tasks.Ingest { // they are worked on together, and so are the next
					if ended++; ended == n {
						l.leave(tenant, n, n)
					}
					return
				}
				l.leave(tenant, 1, 1)
			})
		}
		if len(items) == 0 {
			run()
			return
		}
		all.Go(run)
	}
}

// doSlow is do for a task of the slow queue, whose items wait until there is room for them, one
// task after the other.
func (l *lane) doSlow(ctx context.Context, tenant uuid.UUID, items []place, done func(i int, err error)) {
	var all sync.WaitGroup
	defer all.Wait()
	if l.next.Acquire(ctx, 1) == nil {
		defer l.next.Release(1)
	} // else await ends at once
	for len(items) > 0 {
		n, err := l.await(ctx, tenant, len(items))
		if err != nil {
			for _, p := range items {
				done(p.i, err)
			}
			return
		}
		part := items[:n]
		items = items[n:]
		all.Go(func() { l.do(ctx, tenant, part, done) })
	}
}

// place is an item and where it stands in its task.
type place struct {
	i  int
	id uuid.UUID
}

// queue lets n items that were taken up wait for places.
func (l *lane) queue(tenant uuid.UUID, n int) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &waiter{want: n, ready: make(chan struct{}, 1)}
	s := l.share(tenant)
	if len(s.waiting) == 0 {
		l.turns = append(l.turns, s)
	}
	s.waiting = append(s.waiting, w)
	l.grant()
	return w
}

// granted waits until a waiter has places, and returns how many. An error is for all the rest of
// its items, which are not taken up any more.
func (l *lane) granted(ctx context.Context, tenant uuid.UUID, w *waiter) (int, error) {
	var err error
	for {
		l.mu.Lock()
		n, closed := w.got, l.closed
		w.got = 0
		if n == 0 && (closed || err != nil) {
			s := l.share(tenant)
			s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
			if len(s.waiting) == 0 {
				l.turns = slices.DeleteFunc(l.turns, func(other *share) bool { return other == s })
			}
			l.mu.Unlock()
			l.leave(tenant, w.want, 0)
			if closed {
				return 0, retry.At(time.Now(), errNoPlace)
			}
			return 0, retry.At(time.Now().Add(unexpectedDelay), errNoPlace)
		}
		l.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
}

// grant gives the places that are free to the tenants in turn.
func (l *lane) grant() {
	for idle := 0; idle < len(l.turns) && l.free > 0; {
		s := l.turns[0]
		l.turns = append(l.turns[1:], s)
		n := (placesAhead*l.free - s.atWork) / (placesAhead + 1)
		if s.atWork == 0 {
			n = max(n, 1)
		}
		w := s.waiting[0]
		if n = min(n, w.want, max(1, l.free/len(l.turns))); n <= 0 {
			idle++
			continue
		}
		idle = 0
		l.free -= n
		s.atWork += n
		w.want -= n
		w.got += n
		w.wake()
		if w.want == 0 {
			s.waiting = s.waiting[1:]
		}
		if len(s.waiting) == 0 {
			l.turns = l.turns[:len(l.turns)-1]
		}
	}
}

func (w *waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// leave gives back the room of items, and their places if they had any.
func (l *lane) leave(tenant uuid.UUID, items, places int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.share(tenant)
	s.taken -= items
	s.atWork -= places
	l.room += items
	l.free += places
	l.forget(tenant, s)
	l.grant()
	if l.roomier != nil {
		close(l.roomier)
		l.roomier = nil
	}
}

// close turns away what waits for a place: it goes back to its queue.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.turns {
		for _, w := range s.waiting {
			w.wake()
		}
	}
	if l.roomier != nil {
		close(l.roomier)
		l.roomier = nil
	}
}
