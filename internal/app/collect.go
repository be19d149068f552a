package app

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/clock"
	"ajo/internal/invariant"
	"ajo/internal/metrics"
	"ajo/internal/reconcile"
	"ajo/internal/webhook"
	"ajo/tasks"
	"ajo/workers"
)

// collectTimeout bounds one query of Postgres, including the wait for a connection.
const collectTimeout = 5 * time.Second

// collectMetrics collects the role's gauges every AJO_SWEEP_EVERY until the role closes. Every
// process does, the API too, so that the others see a queue whose workers have all died. All read
// the same rows: aggregate their gauges with max, not with sum.
func (c *core) collectMetrics(role string, deliveries *webhook.Service) {
	metrics.Started(Version(), role)
	c.closers = append(c.closers, metrics.CollectPools(c.Pool, c.redis))
	c.background(func(ctx context.Context) {
		c.collect(ctx, deliveries)
		clock.Every(ctx, c.cfg.SweepEvery, func() { c.collect(ctx, deliveries) })
	})
}

// collect sets the gauges. Gauges that are read from a database that does not answer keep their
// last value, and its own "up" gauge becomes 0. Ages use the synced clock, as the rows' times do,
// so that a machine whose clock is ahead reports nothing as due too early.
func (c *core) collect(ctx context.Context, deliveries *webhook.Service) {
	asked, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	now := c.clock.Now()
	due, err := invariant.Due(asked, c.Pool, now)
	if err == nil {
		for k, at := range map[tasks.Kind]*time.Time{
			tasks.Ingest: due.Ingest, tasks.Confirm: due.Confirm, tasks.Settle: due.Settle, tasks.Deliver: due.Deliver, tasks.Expire: due.Expire,
		} {
			metrics.QueueOldestDue.Set(metrics.Age(now, at), string(k))
		}
		metrics.Reconciled(due.ReadUntil, due.Exceptions)
		metrics.ClockOffset.Set(due.Offset)
		var o reconcile.Overdue
		if o, err = c.overdueRuns(asked); err == nil {
			metrics.ReconcileOverdue(metrics.Age(now, o.Daily), metrics.Age(now, o.Again))
		}
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("due work could not be read; the next collection retries", slog.Any("err", err))
	}
	metrics.Collected(c.clock.Now(), err == nil, c.redisWorks(ctx) == nil)
	s := c.spool.State() // its segments' names have the machine's time
	metrics.Spool(s.Bytes, s.Max, s.Records, metrics.Age(clock.System.Now(), s.Oldest), s.Damaged)
	if deliveries != nil {
		open, since := deliveries.Breakers()
		metrics.Breakers(open, metrics.Age(now, since))
	}
}

// redisWorks shows the tasks of each queue. It fails if Redis cannot be used.
func (c *core) redisWorks(ctx context.Context) error {
	if err := workers.ShowDepths(c.redis); err != nil {
		return err
	}
	return workers.TakesWrites(ctx, c.redis)
}
