package nomba

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"ajo/internal/provider"
)

const (
	// maxWaiting bounds the look-ups of one tenant that wait, while somebody waits for the answer:
	// two seconds of all calls at the bank's limit, and fewer where ours is lower. More would not
	// be answered in time.
	maxWaiting = 30
	// urgentTurns is how many urgent calls go first while others wait; then one of those has its
	// turn, so that nothing starves.
	urgentTurns = 3
)

var errNoTurn = fmt.Errorf("%w: the limit leaves no turn before the deadline", provider.ErrBusy)

// turns gives out the calls that a limit allows. Urgent calls come first, and then the tenants take
// turns, one call each: a tenant that asks for much delays itself alone.
type turns struct {
	limit *rate.Limiter
	most  int // look-ups of one tenant that wait

	mu      sync.Mutex
	lines   [2]line // the urgent ones, and the others
	passed  int     // urgent calls since one of the others had a turn
	serving bool    // serve runs
}

// line is the calls of one urgency that wait.
type line struct {
	order   []uuid.UUID // the tenants that have some, the next first
	waiting map[uuid.UUID][]*turn
}

// turn is a call that waits.
type turn struct {
	granted  chan error // nil: it may go
	deadline time.Time  // zero: none
}

func newTurns(limit *rate.Limiter) *turns { return &turns{limit: limit, most: maxWaiting} }

// wait returns when it is the call's turn, or why it will not be: its context, or provider.ErrBusy,
// which [errNoTurn] is too.
func (q *turns) wait(ctx context.Context, urgent bool) error {
	tenant := provider.TenantOf(ctx)
	q.mu.Lock()
	if !q.serving && q.limit.Allow() {
		q.mu.Unlock()
		return nil
	}
	l := &q.lines[1]
	if urgent {
		l = &q.lines[0]
	}
	if !urgent && tenant != uuid.Nil && !provider.IsPatient(ctx) && len(l.waiting[tenant]) >= q.most {
		q.mu.Unlock()
		return provider.ErrBusy
	}
	t := &turn{granted: make(chan error, 1)}
	t.deadline, _ = ctx.Deadline()
	l.push(tenant, t)
	if !q.serving {
		q.serving = true
		go q.serve()
	}
	q.mu.Unlock()
	select {
	case err := <-t.granted:
		return err
	case <-ctx.Done():
		q.mu.Lock()
		l.remove(tenant, t)
		q.mu.Unlock()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the next turn came later than it should
			return errNoTurn
		}
		return ctx.Err()
	}
}

// serve gives out turns until nobody waits.
func (q *turns) serve() {
	for {
		r := q.limit.Reserve()
		if !q.expire(time.Now().Add(r.Delay()), r.OK()) {
			r.Cancel()
			return
		}
		time.Sleep(r.Delay())
		q.mu.Lock()
		if t := q.next(); t != nil {
			t.granted <- nil
		}
		q.mu.Unlock()
	}
}

// expire turns away those whose deadline is before the next turn, or all when there will be none,
// and reports whether anybody is left to serve.
func (q *turns) expire(next time.Time, ever bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.lines {
		l := &q.lines[i]
		for tenant, all := range l.waiting {
			for _, t := range slices.Clone(all) {
				if !ever || !t.deadline.IsZero() && t.deadline.Before(next) {
					l.remove(tenant, t)
					t.granted <- errNoTurn
				}
			}
		}
	}
	q.serving = len(q.lines[0].order)+len(q.lines[1].order) > 0
	return q.serving
}

// next takes the call whose turn it is out of its line; nil when nobody waits.
func (q *turns) next() *turn {
	l := &q.lines[0]
	switch others := &q.lines[1]; {
	case len(others.order) == 0:
	case len(l.order) == 0 || q.passed >= urgentTurns:
		l, q.passed = others, 0
	default:
		q.passed++
	}
	if len(l.order) == 0 {
		return nil
	}
	tenant := l.order[0]
	t := l.waiting[tenant][0]
	l.order = append(l.order[1:], tenant) // behind the others
	l.remove(tenant, t)
	return t
}

func (l *line) push(tenant uuid.UUID, t *turn) {
	if l.waiting == nil {
		l.waiting = map[uuid.UUID][]*turn{}
	}
	if len(l.waiting[tenant]) == 0 {
		l.order = append(l.order, tenant)
	}
	l.waiting[tenant] = append(l.waiting[tenant], t)
}

// remove takes a call out, if it is still there.
func (l *line) remove(tenant uuid.UUID, t *turn) {
	all := slices.DeleteFunc(l.waiting[tenant], func(other *turn) bool { return other == t })
	if len(all) > 0 {
		l.waiting[tenant] = all
		return
	}
	delete(l.waiting, tenant)
	l.order = slices.DeleteFunc(l.order, func(other uuid.UUID) bool { return other == tenant })
}
