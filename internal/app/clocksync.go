package app

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/pg"
)

const (
	// clockSyncEvery is how often the clock is compared with Postgres'.
	clockSyncEvery = time.Minute
	// clockLookEvery is how often a process checks whether it must be compared at once.
	clockLookEvery = time.Second
	// clockAlert is the offset from which the machine's clock is reported. What still uses it
	// (asynq's leases and scheduled tasks, ids, log lines) no longer agrees with other machines.
	clockAlert = 2 * time.Second
)

// syncClock corrects a clock by Postgres'.
func syncClock(ctx context.Context, pool *pg.Pool, c *clock.Synced, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	conn, err := pool.Acquire(ctx) // not part of what is measured
	if err != nil {
		return err
	}
	defer conn.Release()
	var said time.Time
	asked := time.Now()
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&said); err != nil {
		return err
	}
	if offset := c.Sync(asked, time.Now(), said); offset.Abs() >= clockAlert {
		log.Error("this machine's clock is off; Postgres' time is used instead, but what Redis keeps for later may run early or late",
			slog.String("alert", "clock"), slog.String("ahead", offset.Round(time.Millisecond).String()))
	}
	return nil
}

// keepClockSynced syncs the clock until it is stopped. While Postgres is unavailable the clock goes
// on from its last comparison.
func keepClockSynced(pool *pg.Pool, c *clock.Synced, log *slog.Logger) (stop func()) {
	return beside(func(ctx context.Context) {
		last := time.Now()
		clock.Every(ctx, clockLookEvery, func() {
			if time.Since(last) < clockSyncEvery && !c.Doubtful() {
				return
			}
			last = time.Now()
			_ = syncClock(ctx, pool, c, log) // an outage is reported elsewhere
		})
	})
}
