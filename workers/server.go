// Package workers runs the tasks: the servers that carry them, the function of each kind that does
// the work (Workers.work), and the sweeper that finds what was not enqueued.
//
// A handler claims the item, does what is still due, and records the outcome in one transaction,
// whose commit enqueues what follows. Running a task twice, late, or after a crash at any line
// changes nothing. Beside package tasks it alone imports asynq.
package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"ajo/internal/account"
	"ajo/internal/archive"
	"ajo/internal/clock"
	"ajo/internal/customer"
	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/reconcile"
	"ajo/internal/retention"
	"ajo/internal/retry"
	"ajo/internal/tenant"
	"ajo/internal/trace"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/tasks"
)

const (
	// pollEvery is how often a queue that was not empty just now is polled; one at rest is left
	// alone for longer (see idlePolling).
	pollEvery = 10 * time.Millisecond
	// longer than a call of a tenant's endpoint or of the bank may take, except for a payout: if
	// its call is cut off, the bank is asked by its reference
	stopTimeout = 20 * time.Second
	// unwindTimeout is how long handlers whose task was handed back after stopTimeout may take to
	// end: their context has ended.
	unwindTimeout = 5 * time.Second
	// unexpectedDelay is the gap after an error that carries no time of its own (a lost database, a
	// bug).
	unexpectedDelay = 5 * time.Second
)

// Options are what the workers need.
type Options struct {
	Pool      *pg.Pool
	Redis     redis.UniversalClient
	Enqueuer  *tasks.Enqueuer
	Payments  *payment.Service
	Webhooks  *webhook.Service
	Accounts  *account.Service
	Transfers *transfer.Service
	Tenants   *tenant.Service // mails to tenants; nil: none
	// Customers releases what a new tier allows; nil: nothing does.
	Customers *customer.Service
	// Reconciler compares the books with the bank's list.
	Reconciler *reconcile.Service
	Clock      clock.Clock
	Log        *slog.Logger
	// Queues are the kinds to serve and their concurrencies; a concurrency of 0 is the kind's own.
	Queues map[tasks.Kind]int
	// SweepEvery is how often the sweep looks for overdue items.
	SweepEvery time.Duration
	// SweepPage is how many items of a kind one step of a sweep takes; 0: 2,000.
	SweepPage int
	// stopTimeout is how long Stop lets tasks finish before it hands them back; 0: 20 s. For tests.
	stopTimeout time.Duration
	// ReconcileEvery is how often the books are compared with what the bank's list has had since
	// the last comparison; zero: never. ReconcileWindow is how far back the first one goes, and how
	// long after a time its list is read again where it lacked payments.
	ReconcileEvery  time.Duration
	ReconcileWindow time.Duration
	// ReconcileBack is how far back the day lies that is compared once more; zero: none.
	ReconcileBack time.Duration
	// Partition is how much time a new partition covers.
	Partition partition.Size
	// Archive takes old partitions away; nil: nothing does.
	Archive *archive.Service
	// Keep is how long old rows are kept.
	Keep retention.Keep
}

// handler does the work on the rows of a task: what can be done together at once, and what is left
// for row i in the function that it returns, which is called for each. A [retry.At] error says when
// the row is due again, [retry.Exhausted] that nothing tries again by itself; nil that nothing is
// left to do now.
type handler func(ctx context.Context, ids []uuid.UUID) (row func(i int) error)

// each is the handler of a kind whose rows have nothing to do together.
func each(work func(ctx context.Context, id uuid.UUID) error) handler {
	return func(ctx context.Context, ids []uuid.UUID) func(int) error {
		return func(i int) error { return work(ctx, ids[i]) }
	}
}

// Workers are the running servers, the sweeper, the reconciliation and the check of the books.
type Workers struct {
	Options
	servers     []*asynq.Server
	dispatchers []*dispatcher
	stop        context.CancelFunc
	beside      sync.WaitGroup // what runs besides the servers

	mu      sync.Mutex
	ended   bool // no handler begins any more
	running sync.WaitGroup
}

// Start runs one server for each queue, the slow ones included (a server has one dequeuing loop,
// and a queue without a server has no retries), the sweeper, the reconciliation and the check of
// the books. Stop ends them.
func Start(o Options) (*Workers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	o.Redis.AddHook(outageBackoff{})
	o.Redis.AddHook(newIdlePolling())
	w := &Workers{Options: o, stop: cancel}
	for _, k := range tasks.Kinds {
		concurrency := tasks.Concurrency(k, o.Queues)
		metrics.QueueWorkers.Set(concurrency, string(k))
		metrics.Swept.Add(0, string(k))
		metrics.SlowTenants.Set(0, string(k))
		if concurrency == 0 {
			continue
		}
		d := newDispatcher(k, concurrency, w.work(k), w.Clock, w.Log)
		w.dispatchers = append(w.dispatchers, d)
		for i, queue := range tasks.Queues(k) {
			slow := i > 0
			s := w.server(d, queue, slow)
			if err := s.Start(w.handle(d, slow)); err != nil {
				w.Stop()
				return nil, fmt.Errorf("worker of queue %s: %w", queue, err)
			}
			w.servers = append(w.servers, s)
		}
	}
	w.beside.Go(func() { w.watch(ctx) })
	w.beside.Go(func() { w.sweep(ctx) })
	w.beside.Go(func() { w.tidy(ctx) })
	w.beside.Go(func() { w.check(ctx) })
	if w.Customers != nil {
		w.beside.Go(func() { w.release(ctx) })
	}
	if w.Archive != nil && w.Archive.Store != nil {
		w.beside.Go(func() { w.archiveOld(ctx) })
	}
	if w.ReconcileEvery > 0 {
		w.beside.Go(func() { w.repeat(ctx, w.ReconcileEvery, w.reconcile) })
	}
	if w.ReconcileBack > 0 {
		w.beside.Go(func() { w.repeat(ctx, reconcilePoll, w.reconcileDaily) })
	}
	return w, nil
}

// work returns the handler of a kind.
func (w *Workers) work(k tasks.Kind) handler {
	switch k {
	case tasks.Confirm: // asks the bank about a posted payment
		return each(w.Payments.Confirm)
	case tasks.Settle: // does the next step of a transfer
		return each(w.Transfers.Advance)
	case tasks.Deliver: // sends an event to its tenant
		return func(ctx context.Context, ids []uuid.UUID) func(int) error {
			claimed := w.Webhooks.Claim(ctx, ids)
			return func(i int) error { return w.Webhooks.Attempt(ctx, claimed[i]) }
		}
	case tasks.Expire: // ends a one-time account at its deadline, and closes an expired one at the bank
		return each(w.Accounts.AdvanceExpiry)
	case tasks.Ingest: // posts stored events to the ledger, all of a task together
		return func(ctx context.Context, ids []uuid.UUID) func(int) error {
			posted := w.Payments.PostAll(ctx, ids)
			return func(i int) error { return posted[i].Err }
		}
	}
	panic("workers: no function does work of the kind " + string(k))
}

// Stop takes no more tasks, lets those under way finish for stopTimeout, hands the rest back to
// their queues, and ends what runs beside them. It returns when nothing is at work any more, so
// that what the workers use may be closed; for what ignores its end it waits no longer than
// unwindTimeout after that.
func (w *Workers) Stop() {
	w.stop()
	late, beside := time.After(cmp.Or(w.stopTimeout, stopTimeout)), over(&w.beside)
	w.eachServer((*asynq.Server).Stop) // all stop taking tasks first, and then drain concurrently
	for _, d := range w.dispatchers {
		d.close()
	}
	w.eachServer((*asynq.Server).Shutdown)
	select {
	case <-beside:
	case <-late:
	}
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	unwinding, cancel := context.WithTimeout(context.Background(), unwindTimeout)
	defer cancel()
	if !endsIn(unwinding, over(&w.running)) {
		w.Log.Error("a task is still running although it was told to end; what it uses is closed anyway")
	}
	if !endsIn(unwinding, beside) {
		w.Log.Error("what runs beside the tasks has not ended although it was told to, as a disk may hang; what it uses is closed anyway")
	}
}

func endsIn(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// over returns a channel that is closed when all of a group have ended.
func over(all *sync.WaitGroup) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	return ended
}

func (w *Workers) eachServer(do func(*asynq.Server)) {
	var all sync.WaitGroup
	for _, s := range w.servers {
		all.Go(func() { do(s) })
	}
	all.Wait()
}

// begin registers a handler; false: no handler may begin any more. asynq hands a task back to its
// queue while the handler still runs, with its context ended; another worker may get the row before
// this one lets go of it, which the lease makes harmless.
func (w *Workers) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.running.Add(1)
	}
	return !w.ended
}

// server returns asynq's server for one of a dispatcher's queues.
func (w *Workers) server(d *dispatcher, queue string, slow bool) *asynq.Server {
	concurrency, delayed := d.tasks[0], tasks.Specs[d.kind].DelayedPoll
	if slow {
		concurrency, delayed = d.tasks[1], tasks.SlowDelayedPoll
	}
	return asynq.NewServerFromRedisClient(w.Redis, asynq.Config{
		Concurrency:              concurrency,
		Queues:                   map[string]int{queue: 1},
		TaskCheckInterval:        pollEvery,
		DelayedTaskCheckInterval: delayed,
		ShutdownTimeout:          cmp.Or(w.stopTimeout, stopTimeout),
		RetryDelayFunc:           func(_ int, err error, _ *asynq.Task) time.Duration { return w.delay(err) },
		IsFailure:                isFailure,
		Logger:                   asynqLog{w.Log.With(slog.String("queue", queue))},
		LogLevel:                 asynq.WarnLevel,
	})
}

// delay is the row's own time of the next try.
func (w *Workers) delay(err error) time.Duration {
	if at, ok := retry.When(err); ok {
		return max(0, tasks.NextSecond(at).Sub(w.Clock.Now()))
	}
	return unexpectedDelay
}

// isFailure reports whether an error is a failure: work that is only due again later does not use
// up a task's retries.
func isFailure(err error) bool {
	_, later := retry.When(err)
	return !later
}

// handle makes asynq's handler of a dispatcher, for one of its queues. A task of one row hands its
// error to asynq, so that the dashboard shows it with the time of the next try; of a task of many,
// or of the slow queue, the rows that are due again are enqueued again.
func (w *Workers) handle(d *dispatcher, slow bool) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		if !w.begin() {
			return context.Canceled // the task has been handed back
		}
		defer w.running.Done()
		items, err := tasks.Items(t)
		if err != nil || len(items) == 0 {
			return errors.Join(err, asynq.SkipRetry)
		}
		done := func(i int, ended error) { w.again(ctx, items[i], ended) }
		if len(items) == 1 {
			ctx = trace.Within(ctx, tasks.Trace(t))
			if !slow {
				done = func(_ int, ended error) {
					err = w.postponed(ctx, d.kind, items[0].ID, w.verdict(ctx, d.kind, items[0].ID, ended))
				}
			}
		}
		var all sync.WaitGroup
		tenants := byTenant(items)
		for tenant, own := range tenants {
			do := func() {
				if slow {
					d.doSlow(ctx, tenant, own, done)
					return
				}
				in := d.admit(tenant, len(own))
				if in < len(own) {
					w.spill(d.kind, tenant, own[in:], tasks.Trace(t))
				}
				if in > 0 {
					d.do(ctx, tenant, own[:in], done)
				}
			}
			if len(tenants) == 1 {
				do()
			} else {
				all.Go(do)
			}
		}
		all.Wait()
		return err
	})
}

// byTenant groups the items of a task by tenant, in their order.
func byTenant(items []work.Item) map[uuid.UUID][]taskItem {
	own := make(map[uuid.UUID][]taskItem, 1)
	for i, m := range items {
		own[m.TenantID] = append(own[m.TenantID], taskItem{i, m.ID})
	}
	return own
}

// again enqueues a row that is due again.
func (w *Workers) again(ctx context.Context, m work.Item, err error) {
	m.Traceparent = trace.Parent(ctx)
	if at, ok := retry.When(err); ok {
		m.DueAt = at
		w.Enqueuer.Enqueue([]work.Item{m})
	} else if err != nil {
		at, ok := retry.When(w.postponed(ctx, m.Kind, m.ID, w.verdict(ctx, m.Kind, m.ID, err)))
		if !ok {
			at = w.Clock.Now().Add(unexpectedDelay)
		}
		m.DueAt = at
		w.Enqueuer.Alone(m)
	}
}

// postponed puts off the work of a row whose handler failed unexpectedly: an item that always fails
// waits longer each time, and holds up nobody else. The error is then a [retry.At]. A row that is
// handed back, or that cannot be put off, stays due.
func (w *Workers) postponed(ctx context.Context, k tasks.Kind, id uuid.UUID, err error) error {
	if err == nil || !isFailure(err) || errors.Is(err, asynq.SkipRetry) || ctx.Err() != nil {
		return err
	}
	at, recErr := work.Postpone(ctx, w.Pool, k, id, w.Clock.Now(), err)
	if recErr != nil || at.IsZero() {
		return errors.Join(err, recErr)
	}
	return retry.At(at, err)
}

// verdict turns a handler's error into what asynq understands, and logs the unexpected.
func (w *Workers) verdict(ctx context.Context, k tasks.Kind, id uuid.UUID, err error) error {
	switch {
	case err == nil:
		return nil
	case retry.IsExhausted(err):
		// shown among the archived tasks; the row says the same
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	case isFailure(err):
		w.Log.ErrorContext(ctx, "a task failed", slog.String("kind", string(k)), slog.String("id", id.String()), slog.Any("err", err))
	}
	return err
}

// asynqLog passes asynq's own log lines on.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Info(fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Error(fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) }
