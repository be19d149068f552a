package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
)

// releaseTimeout bounds one look for holds to release; the next goes on.
const releaseTimeout = time.Minute

// release releases what limits have held and the changed tier of a customer allows, where that is
// more than the transaction of the change does. Each worker looks, once an interval of the sweep. A
// release that fails each time fails in the tidying too, which has an alert.
func (w *Workers) release(ctx context.Context) {
	clock.Every(ctx, w.SweepEvery, func() {
		bounded, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		if err := w.releaseRest(bounded); err != nil && ctx.Err() == nil {
			w.Log.Warn("what limits have held and a new tier allows was not all released; the next look goes on", slog.Any("err", err))
		}
	})
}

func (w *Workers) releaseRest(ctx context.Context) error {
	if w.Customers == nil {
		return nil
	}
	return w.Customers.ReleaseRest(ctx)
}
