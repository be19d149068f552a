package app

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/invariant"
	"ajo/internal/metrics"
	"ajo/internal/webhook"
	"ajo/tasks"
	"ajo/workers"
)

// lookTimeout bounds what one look at Postgres may take, the wait for a connection included.
const lookTimeout = 5 * time.Second

// watch shows the role's figures, and looks every AJO_SWEEP_EVERY at what waits, until the role
// closes. Every process does, the API too: a queue whose workers have all died is seen by the
// others. All see the same rows, so their figures are to be joined with max, not added.
func (c *core) watch(role string, deliveries *webhook.Service) {
	metrics.Started(Version(), role)
	c.closers = append(c.closers, metrics.WatchPools(c.pool, c.redis))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(c.cfg.SweepEvery)
		defer tick.Stop()
		for {
			c.look(ctx, deliveries)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	c.closers = append(c.closers, func() { cancel(); <-done })
}

// look sets the gauges. Those of a database that does not answer stay as they were, and its own
// says 0. Ages are by the steered clock, as the rows' times are: on a machine whose clock is ahead,
// nothing is due for that.
func (c *core) look(ctx context.Context, deliveries *webhook.Service) {
	asked, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	now := c.clock.Now()
	due, err := invariant.Due(asked, c.pool, now)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("what is due could not be seen; the next look tries again", slog.Any("err", err))
	}
	if err == nil {
		for k, at := range map[tasks.Kind]*time.Time{
			tasks.Ingest: due.Ingest, tasks.Confirm: due.Confirm, tasks.Settle: due.Settle, tasks.Deliver: due.Deliver, tasks.Expire: due.Expire,
		} {
			metrics.QueueDue(string(k), metrics.Age(now, at))
		}
		metrics.Reconciled(due.ReadUntil, due.Exceptions)
		metrics.ClockOffset(due.Offset)
	}
	metrics.Watched(c.clock.Now(), err == nil, workers.ShowDepths(c.redis) == nil)
	s := c.spool.State() // its segments' names have the machine's time
	metrics.Spool(s.Bytes, s.Max, s.Records, metrics.Age(clock.System.Now(), s.Oldest), s.Damaged)
	if deliveries != nil {
		open, since := deliveries.Breakers()
		metrics.Breakers(open, metrics.Age(now, since))
	}
}
