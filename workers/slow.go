package workers

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/work"
	"ajo/tasks"
)

const (
	// watchEvery is how often the tenants with work in a slow queue are checked.
	watchEvery = time.Second
	// slowSlack is how much later a task may have come into a slow queue than asynq says.
	slowSlack = 2 * time.Second
	// slowKept is for how long after the last sign the sweep assumes that a tenant's work is in a
	// slow queue, since a process that died gives no more signs.
	slowKept = 10 * watchEvery
)

// inSlow lists the tenants whose items recently went to the slow queue, after forgetting those
// whose items went there before the oldest waiting task.
func (d *dispatcher) inSlow(oldest time.Duration) (tenants []uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for tenant, last := range d.slow {
		if time.Since(last) <= oldest+slowSlack {
			tenants = append(tenants, tenant)
			continue
		}
		delete(d.slow, tenant)
		d.log.Info("a tenant's work is through the slow queue", slog.String("tenant", tenant.String()))
	}
	metrics.SlowTenants.Set(len(d.slow), string(d.kind))
	return tenants
}

// watch keeps the list of the tenants in the slow queues, for this process and for the sweep.
func (w *Workers) watch(ctx context.Context) {
	clock.Every(ctx, watchEvery, func() {
		for _, d := range w.dispatchers {
			d.mu.Lock()
			none := len(d.slow) == 0
			d.mu.Unlock()
			if none {
				continue
			}
			oldest, _, err := w.waiting(tasks.SlowQueue(d.kind))
			if err != nil {
				continue // nobody knows
			}
			for _, tenant := range d.inSlow(oldest) {
				_ = w.Redis.Do(ctx, "ZADD", slowKey(d.kind), w.Clock.Now().UnixMilli(), tenant.String()).Err()
			}
		}
	})
}

// slowKey names the set of the tenants that have items in the slow queue, with the time of the last
// sign.
func slowKey(k tasks.Kind) string { return "ajo:slow:" + string(k) }

// slowTenants reads who has items in the slow queue. For the sweep.
func (w *Workers) slowTenants(ctx context.Context, k tasks.Kind) []uuid.UUID {
	since := w.Clock.Now().Add(-slowKept).UnixMilli()
	_ = w.Redis.ZRemRangeByScore(ctx, slowKey(k), "-inf", strconv.FormatInt(since, 10)).Err()
	names, _ := w.Redis.ZRange(ctx, slowKey(k), 0, -1).Result()
	var tenants []uuid.UUID
	for _, name := range names {
		if id, err := uuid.Parse(name); err == nil {
			tenants = append(tenants, id)
		}
	}
	return tenants
}

// waiting is the age of the oldest task that waits in a queue, and how many do.
func (w *Workers) waiting(queue string) (oldest time.Duration, pending int, err error) {
	info, err := asynq.NewInspectorFromRedisClient(w.Redis).GetQueueInfo(queue)
	if err != nil {
		return 0, 0, err
	}
	return max(0, info.Latency), info.Pending, nil // below zero: this machine's clock is behind
}

// spill sends items to the slow queue. The sweep finds those that do not get there.
func (w *Workers) spill(k tasks.Kind, tenant uuid.UUID, items []taskItem, traceparent string) {
	over := make([]work.Item, len(items))
	for i, p := range items {
		over[i] = work.Item{Kind: k, ID: p.id, TenantID: tenant, Traceparent: traceparent}
	}
	w.Enqueuer.Slow(k, over)
}
