package workers

import (
	"context"
	"log/slog"
	"time"
)

// archiveEvery is how often each worker looks for partitions that are due for the archive. Of
// several, one archives a partition.
const archiveEvery = 10 * time.Minute

// archiveOld archives what is due, at the start and from then on. It goes beside the sweep: a large
// partition may take an hour.
func (w *Workers) archiveOld(ctx context.Context) {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		if err := w.Archive.Run(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("a partition was not archived; the next run tries again", slog.String("alert", "archive"), slog.Any("err", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
