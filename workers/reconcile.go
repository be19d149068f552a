package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/provider"
)

// reconcilePoll is how often a worker checks whether a reconciliation is due: a run that failed is
// repeated that soon.
const reconcilePoll = time.Minute

// repeat runs a check of what is due at the start, so that what was missed while everything was
// down is found at once, and then at least every reconcilePoll. Nobody waits for its answers.
func (w *Workers) repeat(ctx context.Context, every time.Duration, check func(context.Context)) {
	ctx = provider.Patient(ctx)
	check(ctx)
	clock.Every(ctx, min(every, reconcilePoll), func() { check(ctx) })
}

// reconcile does the periodic runs that are due; only one of all workers does a run.
func (w *Workers) reconcile(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		_, _, again, err := w.Reconciler.RunDue(ctx, w.ReconcileEvery, w.ReconcileWindow)
		w.reconciled(ctx, err)
		more = again
	}
}

// reconcileDaily does the run of the day; only one of all workers does it. The periodic runs do not
// wait for it.
func (w *Workers) reconcileDaily(ctx context.Context) {
	_, _, err := w.Reconciler.RunDaily(ctx, w.ReconcileBack)
	w.reconciled(ctx, err)
}

func (w *Workers) reconciled(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		w.Log.Warn("the reconciliation failed; it is tried again", slog.String("alert", "reconciliation_failed"), slog.Any("err", err))
	}
}
