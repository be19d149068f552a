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
// more than the transaction of the change does. Each worker looks, once an interval of the sweep.
func (w *Workers) release(ctx context.Context) {
	clock.Every(ctx, w.SweepEvery, func() {
		bounded, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		if err := w.Customers.ReleaseRest(bounded); err != nil && ctx.Err() == nil {
			w.Log.Warn("what limits have held and a new tier allows was not all released; the next look goes on", slog.Any("err", err))
		}
	})
}
