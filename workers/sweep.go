package workers

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"ajo/internal/idempotency"
	"ajo/internal/metrics"
	"ajo/internal/work"
	"ajo/tasks"
)

const (
	// sweepLimit bounds what one sweep enqueues of each kind; the rest is overdue still at the
	// next.
	sweepLimit = 2000
	// sweepRound is how many sweeps make a round, in which a row is enqueued once: a minute, with
	// the default interval.
	sweepRound = 4
	// purgeEvery and purgeLimit say how often rows that nobody needs any more are removed, and how
	// many in one statement.
	purgeEvery = 10 * time.Minute
	purgeLimit = 5000
	// purgeTimeout bounds one purge; what is left is removed by the next.
	purgeTimeout = 5 * time.Minute
)

// sweep looks for overdue rows every SweepEvery, and enqueues them again: after FLUSHALL, a lost
// enqueue, a wedged lease or a "delete" in the dashboard, nothing is missing. It relies on nothing
// in Redis but the age of the queues.
func (w *Workers) sweep(ctx context.Context) {
	tick, purge := time.NewTicker(w.SweepEvery), time.NewTicker(purgeEvery)
	defer tick.Stop()
	defer purge.Stop()
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
		if err := w.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("the sweep failed; the next one tries again", slog.Any("err", err))
		}
	}
}

// sweepOnce enqueues every overdue row. Several processes may do so at once: a row's second ring in
// a round is no new task.
func (w *Workers) sweepOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w.nameQueues(ctx)
	round := w.Clock.Now().Truncate(sweepRound * w.SweepEvery)
	for _, k := range tasks.Kinds {
		ids, err := w.overdue(ctx, k)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			continue
		}
		metrics.Swept(string(k), len(ids))
		w.Log.Info("overdue rows are rung again", slog.String("kind", string(k)), slog.Int("rows", len(ids)))
		for _, id := range ids {
			if ctx.Err() != nil { // a ring does not end with ctx, and there may be thousands
				return ctx.Err()
			}
			w.Enqueuer.Swept(k, id, round)
		}
	}
	metrics.SweepDone(w.Clock.Now())
	return nil
}

// page is how many rows one sweep takes of a kind.
func (w *Workers) page() int { return cmp.Or(w.SweepPage, sweepLimit) }

// overdue lists the rows of a kind whose work was due and that nobody has in hand.
func (w *Workers) overdue(ctx context.Context, k tasks.Kind) ([]uuid.UUID, error) {
	items, err := work.Overdue(ctx, w.Pool, w.Clock.Now(), map[work.Kind]time.Time{k: w.before(k)}, w.page())
	ids := make([]uuid.UUID, len(items))
	for i, m := range items {
		ids[i] = m.ID
	}
	return ids, err
}

// before is the due time from which a row counts as overdue: half an interval for its task to be
// picked up and done, and as much as the oldest waiting task of its queue has waited, since its own
// ring may stand behind that one. With Redis away or empty that is nothing, and everything overdue
// is rung.
func (w *Workers) before(k tasks.Kind) time.Time {
	before := w.Clock.Now().Add(-w.SweepEvery / 2)
	if info, err := asynq.NewInspectorFromRedisClient(w.Redis).GetQueueInfo(string(k)); err == nil {
		// below zero: this machine's clock, by which asynq reckons, is behind
		before = before.Add(-max(0, info.Latency))
	}
	return before
}

// purge removes rows that nobody needs any more, until none is left: forged events, what could be
// listened to, and kept answers, each after its time. What one kind's removal fails with does not
// keep the others.
func (w *Workers) purge(ctx context.Context, step int) error {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	all := func(remove func(ctx context.Context, limit int) (int64, error)) error {
		for {
			if n, err := remove(ctx, step); err != nil || n < int64(step) {
				return err
			}
		}
	}
	return errors.Join(
		all(w.Payments.PurgeForged),
		w.Webhooks.PurgeHeard(ctx, step),
		all(func(ctx context.Context, limit int) (int64, error) {
			return idempotency.Purge(ctx, w.Pool, w.Clock.Now(), limit)
		}),
	)
}
