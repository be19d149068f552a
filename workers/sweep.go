package workers

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"ajo/internal/payment"
	"ajo/tasks"
)

// sweepLimit bounds what one sweep rings for each kind; the rest is overdue still at the next.
const sweepLimit = 2000

// sweep looks for overdue rows every SweepEvery, and rings them again: after FLUSHALL, a lost enqueue, a wedged lease or a
// "delete" in the dashboard, nothing is missing. It relies on nothing in Redis but the age of the queues.
func (w *Workers) sweep(ctx context.Context) {
	defer close(w.swept)
	tick := time.NewTicker(w.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("the sweep failed; the next one tries again", slog.Any("err", err))
		}
	}
}

// sweepOnce rings every overdue row. Several processes may do so at once: a row's second ring in a minute is no new task.
func (w *Workers) sweepOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, k := range tasks.Kinds {
		ids, err := w.overdue(ctx, k)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			continue
		}
		w.Log.Info("overdue rows are rung again", slog.String("kind", string(k)), slog.Int("rows", len(ids)))
		for _, id := range ids {
			w.Enqueuer.Swept(ctx, k, id, w.Clock.Now())
		}
	}
	return nil
}

// overdue lists the rows of a kind whose work was due and that nobody has in hand.
func (w *Workers) overdue(ctx context.Context, k tasks.Kind) ([]uuid.UUID, error) {
	before := w.before(k)
	switch k {
	case tasks.Ingest:
		return w.Payments.Due(ctx, payment.Received, before, sweepLimit)
	case tasks.Confirm:
		return w.Payments.Due(ctx, payment.Processed, before, sweepLimit)
	case tasks.Deliver:
		due, err := w.Webhooks.Due(ctx, w.Clock.Now(), before, sweepLimit)
		ids := make([]uuid.UUID, len(due))
		for i, d := range due {
			ids[i] = d.ID
		}
		return ids, err
	case tasks.Expire:
		return w.Accounts.Due(ctx, before, sweepLimit)
	}
	return nil, nil
}

// before is the due time from which a row counts as overdue: half an interval for its task to be picked up and done, and
// as much as the oldest waiting task of its queue has waited, since its own ring may stand behind that one. With Redis
// away or empty that is nothing, and everything overdue is rung.
func (w *Workers) before(k tasks.Kind) time.Time {
	before := w.Clock.Now().Add(-w.SweepEvery / 2)
	if info, err := asynq.NewInspectorFromRedisClient(w.Redis).GetQueueInfo(string(k)); err == nil {
		before = before.Add(-info.Latency)
	}
	return before
}
