package workers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"ajo/internal/metrics"
	"ajo/internal/retention"
	"ajo/internal/work"
	"ajo/tasks"
)

const (
	// sweepPage is how many items of a kind are enqueued in one step of a sweep.
	sweepPage = 2000
	// sweepRound is how many intervals make a round, in which an item is enqueued once: a minute,
	// with the default interval.
	sweepRound = 4
	// sweepPause is the time between two steps while the queues are full.
	sweepPause = 250 * time.Millisecond
	// leaderKey names the process that sweeps, in Redis.
	leaderKey = "ajo:sweeper"
	// purgeEvery and purgeLimit say how often rows that nobody needs any more are removed, and how
	// many in one statement.
	purgeEvery = 10 * time.Minute
	purgeLimit = 5000
	// purgeTimeout bounds one purge; what is left is removed by the next.
	purgeTimeout = 5 * time.Minute
)

// sweep looks for overdue items every SweepEvery, and enqueues them again: after FLUSHALL, a lost
// enqueue, an ended lease or a "delete" in the dashboard, nothing is missing. It relies on nothing
// in Redis but the age and length of the queues. Of all workers one sweeps; when it ends or dies,
// another does.
func (w *Workers) sweep(ctx context.Context) {
	tick, purge := time.NewTicker(w.SweepEvery), time.NewTicker(purgeEvery)
	defer tick.Stop()
	defer purge.Stop()
	s := sweeper{Workers: w, id: uuid.NewString(), found: map[tasks.Kind]found{}}
	defer s.resign()
	for {
		select {
		case <-ctx.Done():
			return
		case <-purge.C:
			if err := w.purge(ctx, purgeLimit); err != nil && ctx.Err() == nil {
				w.Log.Warn("old rows were not removed; the next purge tries again", slog.Any("err", err))
			}
			continue
		case <-tick.C:
		}
		if err := s.run(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("the sweep failed; the next one tries again", slog.Any("err", err))
		}
	}
}

// sweeper is the sweep of one process.
type sweeper struct {
	*Workers
	id    string
	found map[tasks.Kind]found
}

// found is how far a round has come with a kind: it goes on behind its last item, and the next
// round begins again at the oldest.
type found struct {
	since time.Time // when the round began
	last  work.Item
}

// run enqueues all that is overdue, the oldest first, as fast as the workers take it.
func (s *sweeper) run(ctx context.Context) error {
	s.nameQueues(ctx)
	for {
		if !s.leads(ctx) {
			return nil
		}
		more, err := s.step(ctx)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepPause):
		}
	}
}

// leads reports whether this process is the one that sweeps. Where Redis does not say, each may:
// what several enqueue is done once.
func (s *sweeper) leads(ctx context.Context) bool {
	keep := 2*s.SweepEvery + sweepPause
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
	var spans []work.Span
	for _, k := range tasks.Kinds {
		span, room := s.span(k)
		if more = more || !room; room {
			spans = append(spans, span)
		}
	}
	items, err := work.Overdue(ctx, s.Pool, s.Clock.Now(), spans, s.page())
	if err != nil {
		return false, err
	}
	byKind := map[tasks.Kind][]work.Item{}
	for _, m := range items {
		byKind[m.Kind] = append(byKind[m.Kind], m)
	}
	for k, own := range byKind {
		metrics.Swept(string(k), len(own))
		s.Log.Info("overdue items are enqueued again", slog.String("kind", string(k)), slog.Int("items", len(own)))
		f := s.found[k]
		s.Enqueuer.Sweep(k, own, f.since)
		f.last = own[len(own)-1]
		s.found[k] = f
		more = more || len(own) == s.page()
	}
	metrics.SweepDone(s.Clock.Now())
	return more, nil
}

// span is what to look for of a kind, and whether its queue has room for more.
func (s *sweeper) span(k tasks.Kind) (span work.Span, room bool) {
	before, waiting := s.overdue(k)
	now := s.Clock.Now()
	if f := s.found[k]; f.since.IsZero() || now.Sub(f.since) >= sweepRound*s.SweepEvery || f.last.ID == uuid.Nil {
		s.found[k] = found{since: now}
	}
	last := s.found[k].last
	return work.Span{Kind: k, After: last.DueAt, ID: last.ID, Before: before}, waiting < 2*tasks.Specs[k].Concurrency
}

// page is how many items of a kind one step takes.
func (w *Workers) page() int { return cmp.Or(w.SweepPage, sweepPage) }

// overdue is the due time before which an item of a kind counts as overdue, and how many tasks of
// the kind wait. The time leaves half an interval for a task to be picked up and done, and as much
// as the oldest waiting task of the queue has waited, since the item's own may stand behind that
// one. With Redis away or empty that is nothing, and all that is due is enqueued.
func (w *Workers) overdue(k tasks.Kind) (before time.Time, waiting int) {
	before = w.Clock.Now().Add(-w.SweepEvery / 2)
	if info, err := asynq.NewInspectorFromRedisClient(w.Redis).GetQueueInfo(string(k)); err == nil {
		// below zero: this machine's clock, by which asynq reckons, is behind
		before, waiting = before.Add(-max(0, info.Latency)), info.Pending
	}
	return before, waiting
}

// purge removes rows that nobody needs any more, until none is left: forged events, and what is old
// by the rules of package retention. If one of the two fails, the other still goes on.
func (w *Workers) purge(ctx context.Context, step int) error {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	var failed error
	for n := int64(step); n >= int64(step); {
		if n, failed = w.Payments.PurgeForged(ctx, step); failed != nil {
			break
		}
	}
	return errors.Join(failed, retention.Purge(ctx, w.Pool, w.Keep, w.Clock.Now(), step))
}
