package workers

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/work"
	"ajo/tasks"
)

const (
	// sweepPage is how many items of a kind are enqueued in one step of a sweep.
	sweepPage = 2000
	// sweepRound is how many intervals make a round, in which an item is enqueued once: a minute,
	// with the default interval.
	sweepRound = 4
	// A tenant has little of a kind if at most 1/sweepShare of a page of its items are overdue,
	// among the first sweepAhead pages of overdue items.
	sweepShare = 20
	sweepAhead = 25
	// sweepChecks is how often in an interval each worker checks who sweeps, so that another soon
	// takes over if that one has died.
	sweepChecks = 3
	// sweepPause is the time between two steps while the queues are full.
	sweepPause = 250 * time.Millisecond
	// leaderKey names the process that sweeps, in Redis.
	leaderKey = "ajo:sweeper"
	// mailTimeout bounds the search for members to be mailed.
	mailTimeout = 5 * time.Second
	// freedTimeout bounds the search for ended leases. Postgres' own limit is lower; this one is
	// for a Postgres that is silent, which the kernel gives up only after some 15 minutes.
	freedTimeout = 20 * time.Second
)

// sweep looks for overdue items every SweepEvery, and enqueues them again: after FLUSHALL, a lost
// enqueue, an ended lease or a "delete" in the dashboard, nothing is missing. All it needs from
// Redis is the age and length of the queues. Of all workers one sweeps; when it ends or dies,
// another does.
func (w *Workers) sweep(ctx context.Context) {
	s := sweeper{Workers: w, id: uuid.NewString(), found: map[tasks.Kind]found{}}
	defer s.resign()
	clock.Every(ctx, w.SweepEvery/sweepChecks, func() {
		if err := s.tick(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("the sweep failed; the next one tries again", slog.Any("err", err))
		}
	})
}

// sweeper is the sweep of one process.
type sweeper struct {
	*Workers
	id     string
	found  map[tasks.Kind]found
	checks int       // that it has led in a row
	freed  time.Time // up to which ended leases were searched for
}

// found is how far a round has come with a kind: it continues after the last item, and the next
// round begins again at the oldest.
type found struct {
	since time.Time // when the round began
	last  work.Item
	// If more than a page is overdue, the tenants with little are found first, through all that is
	// overdue: ahead is how far that search has come. big are the other tenants.
	ahead work.Item
	ended bool // there is nothing after ahead
	big   map[uuid.UUID]bool
}

// tick sweeps if this process leads: at once when it has taken over, and then once an interval.
func (s *sweeper) tick(ctx context.Context) error {
	if !s.leads(ctx) {
		s.checks = 0
		return nil
	}
	s.checks++
	if s.checks%sweepChecks != 1 {
		return nil
	}
	return s.run(ctx)
}

// mailApprovers mails members about payouts that await their approval.
func (s *sweeper) mailApprovers(ctx context.Context) {
	if s.Tenants == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	if _, err := s.Tenants.MailApprovers(asked); err != nil && ctx.Err() == nil {
		s.Log.Warn("members were not mailed about payouts that await approval; the next sweep tries again", slog.Any("err", err))
	}
}

// run enqueues all that is overdue, the oldest first, as fast as the workers take it. It does not
// end while a queue is full, so what else belongs to a sweep is repeated once an interval.
func (s *sweeper) run(ctx context.Context) error {
	var begun time.Time
	for {
		if !s.leads(ctx) {
			return nil
		}
		if now := s.Clock.Now(); begun.After(now) || now.Sub(begun) >= s.SweepEvery {
			begun = now
			s.mailApprovers(ctx)
			s.nameQueues(ctx)
			if err := s.enqueueFreed(ctx); err != nil {
				return err
			}
		}
		more, err := s.step(ctx)
		if err != nil || !more {
			return err
		}
		if err := clock.Sleep(ctx, sweepPause); err != nil {
			return err
		}
	}
}

// enqueueFreed enqueues items that a round has skipped because they were leased, and whose lease
// has ended since, because the holder died.
func (s *sweeper) enqueueFreed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, freedTimeout)
	defer cancel()
	now := s.Clock.Now()
	var passed []tasks.Kind
	for k, f := range s.found {
		if f.last.ID != uuid.Nil {
			passed = append(passed, k)
		}
	}
	items, err := work.Freed(ctx, s.Pool, passed, s.freed, now)
	if err != nil {
		return err
	}
	s.freed = now
	for k, own := range byKind(items) {
		metrics.Swept.Add(len(own), string(k))
		s.Log.Info("items whose lease has ended are enqueued again", slog.String("kind", string(k)), slog.Int("items", len(own)))
		s.Enqueuer.Sweep(k, own, now)
	}
	return nil
}

func byKind(items []work.Item) map[tasks.Kind][]work.Item {
	all := map[tasks.Kind][]work.Item{}
	for _, m := range items {
		all[m.Kind] = append(all[m.Kind], m)
	}
	return all
}

// leads reports whether this process is the one that sweeps. If Redis does not answer, each process
// may sweep: work that several enqueue is still done once.
func (s *sweeper) leads(ctx context.Context) bool {
	keep := 2*s.SweepEvery/sweepChecks + sweepPause
	taken, err := s.Redis.SetNX(ctx, leaderKey, s.id, keep).Result()
	if err != nil || taken {
		return true
	}
	if leader, err := s.Redis.Get(ctx, leaderKey).Result(); err != nil || leader != s.id {
		return err != nil
	}
	return s.Redis.PExpire(ctx, leaderKey, keep).Err() == nil
}

// resign lets another process sweep at once.
func (s *sweeper) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if leader, err := s.Redis.Get(ctx, leaderKey).Result(); err == nil && leader == s.id {
		_ = s.Redis.Del(ctx, leaderKey).Err()
	}
}

// step enqueues a page of each kind whose queue is short of work, and reports whether there is
// more.
func (s *sweeper) step(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	queues := map[tasks.Kind]queue{}
	var spans []work.Span
	for _, k := range tasks.Kinds {
		q := s.checkQueue(ctx, k)
		queues[k] = q
		if q.room {
			spans = append(spans, q.span)
		}
	}
	items, err := work.Overdue(ctx, s.Pool, s.Clock.Now(), spans, s.page())
	if err != nil {
		return false, err
	}
	pages := byKind(items)
	for _, k := range tasks.Kinds {
		left, err := s.enqueue(ctx, k, queues[k], pages[k])
		if err != nil {
			return false, err
		}
		more = more || left
	}
	metrics.SweepDone.Set(s.Clock.Now())
	return more, nil
}

// enqueue enqueues a page of a kind, after what tenants with little have, and reports whether there
// is more.
func (s *sweeper) enqueue(ctx context.Context, k tasks.Kind, q queue, page []work.Item) (more bool, err error) {
	full := len(page) == s.page()
	f := s.found[k]
	var own []work.Item
	if full || !q.room || q.span.Before.Before(q.before) {
		if own, err = s.little(ctx, &f, q, k); err != nil {
			return false, err
		}
	}
	for _, m := range page {
		if f.big[m.TenantID] || !f.passed(m) {
			own = append(own, m)
		}
	}
	if len(page) > 0 {
		f.last = page[len(page)-1]
	}
	s.found[k] = f
	if len(own) > 0 {
		metrics.Swept.Add(len(own), string(k))
		s.Log.Info("overdue items are enqueued again", slog.String("kind", string(k)), slog.Int("items", len(own)))
		s.Enqueuer.Sweep(k, own, f.since)
	}
	return full || !q.room || len(f.big) > 0 && !f.ended, nil
}

// little continues through all overdue items of a kind, and returns those of tenants with little,
// in turn.
func (s *sweeper) little(ctx context.Context, f *found, q queue, k tasks.Kind) ([]work.Item, error) {
	if f.ended || !q.quick {
		return nil, nil
	}
	if f.big == nil {
		f.big = map[uuid.UUID]bool{}
	}
	for _, tenant := range q.slow { // theirs wait in the slow queue
		f.big[tenant] = true
	}
	share := max(1, s.page()/sweepShare)
	span := work.Span{Kind: k, After: f.ahead.DueAt, ID: f.ahead.ID, Before: q.before}
	items, last, err := work.InTurn(ctx, s.Pool, s.Clock.Now(), span, sweepAhead*s.page(), share+1)
	if err != nil {
		return nil, err
	}
	if f.ended = last == nil; !f.ended {
		f.ahead = *last
	}
	counts := map[uuid.UUID]int{}
	for _, m := range items {
		if counts[m.TenantID]++; counts[m.TenantID] > share {
			f.big[m.TenantID] = true
		}
	}
	return slices.DeleteFunc(items, func(m work.Item) bool { return f.big[m.TenantID] }), nil
}

// passed reports whether the search ahead has reached an item.
func (f *found) passed(m work.Item) bool {
	if f.ended || !m.DueAt.Equal(f.ahead.DueAt) {
		return f.ended || m.DueAt.Before(f.ahead.DueAt)
	}
	return pg.CompareIDs(m.ID, f.ahead.ID) <= 0
}

// queue is what a sweep knows about a kind before it searches for overdue items.
type queue struct {
	span   work.Span
	room   bool        // the queues are short of work
	quick  bool        // the kind's own queue is
	before time.Time   // what is overdue, but for tenants in the slow queue
	slow   []uuid.UUID // tenants in the slow queue
}

// checkQueue reads how much of a kind waits. Items may be behind the oldest task of the slow queue,
// so only older ones count as overdue, except those of tenants with little.
func (s *sweeper) checkQueue(ctx context.Context, k tasks.Kind) queue {
	before, waiting := s.overdue(string(k))
	slowBefore, slowWaiting := s.overdue(tasks.SlowQueue(k))
	now, limit := s.Clock.Now(), 2*tasks.Specs[k].Concurrency
	if f := s.found[k]; f.since.IsZero() || f.since.After(now) || now.Sub(f.since) >= sweepRound*s.SweepEvery || f.last.ID == uuid.Nil && f.ahead.ID == uuid.Nil {
		s.found[k] = found{since: now}
	}
	f := s.found[k]
	q := queue{before: before, quick: waiting < limit, room: waiting+slowWaiting < limit}
	q.span = work.Span{Kind: k, After: f.last.DueAt, ID: f.last.ID, Before: before}
	if slowWaiting > 0 {
		q.slow = s.slowTenants(ctx, k)
		if slowBefore.Before(before) {
			q.span.Before = slowBefore
		}
	}
	return q
}

// page is how many items of a kind one step takes.
func (w *Workers) page() int { return cmp.Or(w.SweepPage, sweepPage) }

// overdue is the due time before which an item in a queue counts as overdue, and how many tasks
// wait there. The time leaves half an interval for a task to be picked up and done, and as long as
// the oldest waiting task of the queue has waited, since the item's own task may be behind it. If
// Redis is away or empty, that is nothing, and everything due is enqueued.
func (w *Workers) overdue(queue string) (before time.Time, waiting int) {
	before = w.Clock.Now().Add(-w.SweepEvery / 2)
	if oldest, pending, err := w.waiting(queue); err == nil {
		before, waiting = before.Add(-oldest), pending
	}
	return before, waiting
}
