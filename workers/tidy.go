package workers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/retention"
)

const (
	// tidyFirst is how long a worker that starts has other things to do.
	tidyFirst = time.Minute
	// purgeEvery and purgeLimit say how often rows that nobody needs any more are removed, and how
	// many in one statement.
	purgeEvery = 10 * time.Minute
	purgeLimit = 5000
	// purgeTimeout bounds one purge, and the making of partitions; what is left is the next one's.
	purgeTimeout = 5 * time.Minute
	// tidyTimeout bounds each other part. Postgres ends a statement long before; it does not if it
	// is stopped, or if what stands before it goes on without it.
	tidyTimeout = time.Minute
)

// tidy makes partitions ahead, mails tenants about failing and paused endpoints, removes old rows,
// and releases what the looks in between could not ([Workers.release]), so that it shows. It runs
// concurrently with the sweep: either may last.
func (w *Workers) tidy(ctx context.Context) {
	if clock.Sleep(ctx, tidyFirst) != nil {
		return
	}
	w.tidyOnce(ctx, tidyTimeout, purgeTimeout)
	clock.Every(ctx, purgeEvery, func() { w.tidyOnce(ctx, tidyTimeout, purgeTimeout) })
}

// tidyOnce does each part, which may take a short or a long time. If one fails, the others still go
// on.
func (w *Workers) tidyOnce(ctx context.Context, short, long time.Duration) {
	all := true
	for _, part := range []struct {
		failed string
		most   time.Duration
		do     func(context.Context) error
	}{
		{"partitions were not made; the next purge tries again", long, w.makePartitions},
		{"failing endpoints were not looked for; the next purge tries again", short, w.mailFailing},
		{"paused endpoints were not looked for; the next purge tries again", short, w.mailPaused},
		{"old rows were not removed; the next purge tries again", long, func(ctx context.Context) error { return w.purge(ctx, purgeLimit) }},
		{"the room of Postgres for locks was not looked at", short, w.lookAtLocks},
		{"what limits have held and a new tier allows was not all released; the next purge tries again", releaseTimeout, w.releaseRest},
	} {
		within, cancel := context.WithTimeout(ctx, part.most)
		err := part.do(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			all = false
			w.Log.Warn(part.failed, slog.String("alert", "tidy"), slog.Any("err", err))
		}
	}
	if all && ctx.Err() == nil {
		metrics.TidyDone.Set(w.Clock.Now())
	}
}

// makePartitions makes the partitions that will soon be needed.
func (w *Workers) makePartitions(ctx context.Context) error {
	return partition.MakeAhead(ctx, w.Pool, w.Partition, w.Clock.Now())
}

// lookAtLocks warns of too many partitions.
func (w *Workers) lookAtLocks(ctx context.Context) error {
	why, err := partition.Crowded(ctx, w.Pool)
	if why != "" {
		w.Log.Warn("Postgres may soon be out of shared memory for locks", slog.String("why", why))
	}
	return err
}

// purge removes rows that nobody needs any more, until none is left: forged events, and what is old
// by the rules of package retention. If one of the two fails, the other still goes on.
func (w *Workers) purge(ctx context.Context, step int) error {
	var failed error
	for n := int64(step); n >= int64(step); {
		if n, failed = w.Payments.PurgeForged(ctx, step); failed != nil {
			break
		}
	}
	return errors.Join(failed, retention.Purge(ctx, w.Pool, w.Keep, w.Clock.Now(), step))
}
