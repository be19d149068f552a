package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/tasks"
)

// reconcileLook is how often a worker looks whether a reconciliation is due: a run that failed is done again that soon.
const reconcileLook = time.Minute

// reconcile compares the books with the bank's list every ReconcileEvery, in one of all workers, and at the start: what was
// missed while everything was down is found at once.
func (w *Workers) reconcile(ctx context.Context) {
	tick := time.NewTicker(min(w.ReconcileEvery, reconcileLook))
	defer tick.Stop()
	for {
		w.reconcileAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reconcileAll does the runs that are due. What a run stored is rung also when it failed; what is not rung the sweeper finds.
func (w *Workers) reconcileAll(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		r, _, again, err := w.Payments.ReconcileDue(ctx, w.ReconcileEvery, w.ReconcileWindow)
		for _, id := range r.ToPost {
			w.Enqueuer.Now(ctx, tasks.Ingest, id)
		}
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("the reconciliation failed; it is tried again", slog.String("alert", "reconciliation_failed"), slog.Any("err", err))
		}
		more = again
	}
}
