package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/tasks"
)

// slotsAhead: a tenant has at most this many times the slots that it leaves free.
const slotsAhead = 7

// errNoSlot is why an item comes back later although nothing was wrong with it.
var errNoSlot = errors.New("as many items as this process may work on were under way")

// dispatcher shares this process's capacity for a kind of work among the tenants.
//
// An item is admitted if there is room, waits for a slot, and is worked on. Slots are given to the
// tenants in turn, and a tenant leaves an eighth of the slots that it could have free; it takes at
// most half of the room. So a new tenant finds a slot, or gets the next one that becomes free,
// however much others have to do, and a tenant that is alone gets nearly all. Items without room go
// to the kind's slow queue, and so do all further items of that tenant until the queue is worked
// off: a tenant's items roughly keep their order.
type dispatcher struct {
	kind  tasks.Kind
	work  handler
	clock clock.Clock // Postgres', by which rows are due
	log   *slog.Logger
	rows  *metrics.Queue
	tasks [2]int // taken at once from the queue, and from the slow queue

	mu      sync.Mutex
	free    int // slots
	room    int // for items that are admitted
	tenants map[uuid.UUID]*share
	turns   []*share // the tenants with items that wait for a slot, the next one first
	slow    map[uuid.UUID]time.Time
	roomier chan struct{} // closed when there is more room; nil: nobody waits for it
	closed  bool
	next    *semaphore.Weighted // the task of the slow queue that waits for room
}

// share is a tenant's share of a dispatcher.
type share struct {
	taken   int // admitted items, of which
	atWork  int // … this many have a slot
	waiting []*waiter
}

// waiter is the items of a task that wait for slots.
type waiter struct {
	want, got int
	ready     chan struct{} // got has grown, or the dispatcher is closed
}

// newDispatcher takes as many tasks from the queue as there may be items, since tasks need not be
// full: items without room go to the slow queue, which waits. From the slow queue it takes full
// tasks for all slots, and one that waits; the rest is left to other processes.
func newDispatcher(k tasks.Kind, slots int, work handler, c clock.Clock, log *slog.Logger) *dispatcher {
	spec := tasks.Specs[k]
	room := spec.Room * slots
	return &dispatcher{
		kind: k, work: work, clock: c, log: log.With(slog.String("kind", string(k))), rows: metrics.NewQueue(string(k)),
		free: slots, room: room, tasks: [2]int{room, max(2, slots/spec.MaxIDs+1)},
		tenants: map[uuid.UUID]*share{}, slow: map[uuid.UUID]time.Time{}, next: semaphore.NewWeighted(1),
	}
}

func (d *dispatcher) share(tenant uuid.UUID) *share {
	s := d.tenants[tenant]
	if s == nil {
		s = &share{}
		d.tenants[tenant] = s
	}
	return s
}

// enter admits as many of a tenant's n items as there is room for.
func (d *dispatcher) enter(tenant uuid.UUID, n int) int {
	s := d.share(tenant)
	n = max(0, min(n, (d.room-s.taken+1)/2))
	s.taken += n
	d.room -= n
	d.forget(tenant, s)
	return n
}

func (d *dispatcher) forget(tenant uuid.UUID, s *share) {
	if s.taken == 0 {
		delete(d.tenants, tenant)
	}
}

// admit admits as many of n items as there is room for; the others go to the slow queue.
func (d *dispatcher) admit(tenant uuid.UUID, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, slow := d.slow[tenant]
	in := 0
	if !slow {
		in = d.enter(tenant, n)
	}
	if in < n {
		d.slow[tenant] = time.Now()
	}
	if in < n && !slow {
		metrics.SlowTenants.Set(len(d.slow), string(d.kind))
		d.log.Info("a tenant has more to do than its share: what comes for it waits in the slow queue", slog.String("tenant", tenant.String()))
	}
	return in
}

// await is enter for a task of the slow queue: it waits until there is room for one item at least.
func (d *dispatcher) await(ctx context.Context, tenant uuid.UUID, n int) (int, error) {
	for {
		d.mu.Lock()
		in := d.enter(tenant, n)
		if d.roomier == nil {
			d.roomier = make(chan struct{})
		}
		roomier, closed := d.roomier, d.closed
		d.mu.Unlock()
		if in > 0 {
			return in, nil
		}
		if closed {
			return 0, retry.At(d.clock.Now(), errNoSlot)
		}
		select {
		case <-roomier:
		case <-ctx.Done():
			return 0, retry.At(d.clock.Now().Add(unexpectedDelay), errNoSlot)
		}
	}
}

// do works on admitted items as they get slots, and calls done for each. It works on them
// concurrently, so that their writes share commits; the last one has the caller's goroutine.
func (d *dispatcher) do(ctx context.Context, tenant uuid.UUID, items []taskItem, done func(i int, err error)) {
	// The slots bound the calls to the bank. What is turned away there would come back later each
	// time, while the bank is idle.
	ctx = provider.Patient(ctx)
	if tenant != uuid.Nil {
		ctx = provider.ForTenant(ctx, tenant)
	}
	w := d.queue(tenant, len(items))
	var all sync.WaitGroup
	defer all.Wait()
	for len(items) > 0 {
		n, err := d.granted(ctx, tenant, w)
		if err != nil {
			for _, p := range items {
				done(p.i, err)
			}
			return
		}
		part := items[:n]
		items = items[n:]
		run := func() {
			begin, ids := time.Now(), make([]uuid.UUID, n)
			for j, p := range part {
				ids[j] = p.id
			}
			work := d.work(ctx, ids)
			one := func(j int) {
				var err error
				defer func() {
					if p := recover(); p != nil { // one row's panic must not end the others' process, again and again
						err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
					}
					d.rows.Worked(outcome(ctx, err), time.Since(begin))
					done(part[j].i, err)
				}()
				err = work(j)
			}
			if d.kind == tasks.Ingest { // they were posted together, and what gets their slots is posted together too
				for j := range n {
					one(j)
				}
				d.leave(tenant, n, n)
				return
			}
			alone := func(j int) { one(j); d.leave(tenant, 1, 1) }
			for j := range n - 1 {
				all.Go(func() { alone(j) })
			}
			alone(n - 1)
		}
		if len(items) == 0 {
			run()
			return
		}
		all.Go(run)
	}
}

// doSlow is do for a task of the slow queue, whose items wait for room, one task after the other.
func (d *dispatcher) doSlow(ctx context.Context, tenant uuid.UUID, items []taskItem, done func(i int, err error)) {
	var all sync.WaitGroup
	defer all.Wait()
	if d.next.Acquire(ctx, 1) == nil {
		defer d.next.Release(1)
	} // else await ends at once
	for len(items) > 0 {
		n, err := d.await(ctx, tenant, len(items))
		if err != nil {
			for _, p := range items {
				done(p.i, err)
			}
			return
		}
		part := items[:n]
		items = items[n:]
		all.Go(func() { d.do(ctx, tenant, part, done) })
	}
}

// taskItem is an item and where it stands in its task.
type taskItem struct {
	i  int
	id uuid.UUID
}

// queue makes n admitted items wait for slots.
func (d *dispatcher) queue(tenant uuid.UUID, n int) *waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &waiter{want: n, ready: make(chan struct{}, 1)}
	s := d.share(tenant)
	if len(s.waiting) == 0 {
		d.turns = append(d.turns, s)
	}
	s.waiting = append(s.waiting, w)
	d.grant()
	return w
}

// granted waits until a waiter has slots, and returns how many. An error applies to all its
// remaining items, which are no longer admitted.
func (d *dispatcher) granted(ctx context.Context, tenant uuid.UUID, w *waiter) (int, error) {
	var err error
	for {
		d.mu.Lock()
		n, closed := w.got, d.closed
		w.got = 0
		if n == 0 && (closed || err != nil) {
			s := d.share(tenant)
			s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
			if len(s.waiting) == 0 {
				d.turns = slices.DeleteFunc(d.turns, func(other *share) bool { return other == s })
			}
			d.mu.Unlock()
			d.leave(tenant, w.want, 0)
			if closed {
				return 0, retry.At(d.clock.Now(), errNoSlot)
			}
			return 0, retry.At(d.clock.Now().Add(unexpectedDelay), errNoSlot)
		}
		d.mu.Unlock()
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

// grant gives the slots that are free to the tenants in turn.
func (d *dispatcher) grant() {
	for idle := 0; idle < len(d.turns) && d.free > 0; {
		s := d.turns[0]
		d.turns = append(d.turns[1:], s)
		n := (slotsAhead*d.free - s.atWork) / (slotsAhead + 1)
		if s.atWork == 0 {
			n = max(n, 1)
		}
		w := s.waiting[0]
		if n = min(n, w.want, max(1, d.free/len(d.turns))); n <= 0 {
			idle++
			continue
		}
		idle = 0
		d.free -= n
		s.atWork += n
		w.want -= n
		w.got += n
		w.wake()
		if w.want == 0 {
			s.waiting = s.waiting[1:]
		}
		if len(s.waiting) == 0 {
			d.turns = d.turns[:len(d.turns)-1]
		}
	}
}

func (w *waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// leave gives back the room of items, and their slots if they had any.
func (d *dispatcher) leave(tenant uuid.UUID, items, slots int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.share(tenant)
	s.taken -= items
	s.atWork -= slots
	d.room += items
	d.free += slots
	d.forget(tenant, s)
	d.grant()
	if d.roomier != nil {
		close(d.roomier)
		d.roomier = nil
	}
}

// close turns away what waits for a slot: it goes back to its queue.
func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, s := range d.turns {
		for _, w := range s.waiting {
			w.wake()
		}
	}
	if d.roomier != nil {
		close(d.roomier)
		d.roomier = nil
	}
}
