package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/reconcile"
)

// reconcilePoll is how often a worker checks whether a reconciliation is due: a run that failed is
// done again that soon.
const reconcilePoll = time.Minute

// repeat runs a check of what is due at the start, so that what was missed while everything was
// down is found at once, and then at least every reconcilePoll.
func (w *Workers) repeat(ctx context.Context, every time.Duration, check func(context.Context)) {
	tick := time.NewTicker(min(every, reconcilePoll))
	defer tick.Stop()
	for {
		check(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reconcile does the periodic runs that are due, in one of all workers.
func (w *Workers) reconcile(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		r, _, again, err := w.Reconciler.RunDue(ctx, w.ReconcileEvery, w.ReconcileWindow)
		w.reconciled(ctx, r, err)
		more = again
	}
}

// reconcileDaily does the run of the day, in one of all workers. It goes beside the periodic ones,
// which do not wait for it.
func (w *Workers) reconcileDaily(ctx context.Context) {
	r, _, err := w.Reconciler.RunDaily(ctx, w.ReconcileBack)
	w.reconciled(ctx, r, err)
}

// reconciled enqueues what follows from a run, also when it failed; what is not enqueued the
// sweeper finds.
func (w *Workers) reconciled(ctx context.Context, r reconcile.Report, err error) {
	for _, ref := range r.ToPoll {
		_, _ = w.Transfers.Expedite(ctx, ref) // it has its own schedule
	}
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("the reconciliation failed; it is tried again", slog.String("alert", "reconciliation_failed"), slog.Any("err", err))
	}
}
