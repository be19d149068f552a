package workers

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
)

// archiveEvery is how often each worker looks for partitions that are due for the archive. Of
// several, one archives a partition.
const archiveEvery = 10 * time.Minute

// archiveOld archives what is due, at the start and from then on. It runs concurrently with the
// sweep: a large partition may take an hour.
func (w *Workers) archiveOld(ctx context.Context) {
	run := func() {
		if err := w.Archive.Run(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("a partition was not archived; the next run tries again", slog.String("alert", "archive"), slog.Any("err", err))
		}
	}
	run()
	clock.Every(ctx, archiveEvery, run)
}
