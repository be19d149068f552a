package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"ajo/internal/clock"
	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/trace"
	"ajo/internal/work"
)

const (
	enqueueTimeout = time.Second
	// silence is how long nothing is enqueued after Redis failed, so that it is tried only rarely
	// while it is away.
	silence = time.Second
	// maxWaiting bounds the items of a queue that wait for Redis in this process.
	maxWaiting = 50_000
	// slowPause is how long items for a slow queue wait for others.
	slowPause = 20 * time.Millisecond
)

// Enqueuer puts tasks into asynq. It never fails its caller: the item is stored, and the sweep
// finds it. It is safe for concurrent use.
type Enqueuer struct {
	client *asynq.Client
	clock  clock.Clock
	log    *slog.Logger
	quiet  atomic.Int64 // unix nanoseconds until which Redis is assumed to be away
	lost   atomic.Int64
	lines  map[string]*line // by queue
	limit  time.Duration    // of one task
	ended  sync.WaitGroup
}

// line holds the items that wait to be enqueued into one queue.
type line struct {
	mu     sync.Mutex
	moved  *sync.Cond // something was taken or enqueued, or the line is closed
	items  []work.Item
	taken  int // since the start
	done   int // of these, tried
	closed bool
}

// NewEnqueuer returns an enqueuer that uses the given Redis and clock. Close it to finish what
// waits.
func NewEnqueuer(r redis.UniversalClient, c clock.Clock, log *slog.Logger) *Enqueuer {
	e := &Enqueuer{client: asynq.NewClientFromRedisClient(r), clock: c, log: log, lines: map[string]*line{}, limit: enqueueTimeout}
	for _, k := range Kinds {
		metrics.EnqueueFailures.Add(0, string(k))
		for _, queue := range Queues(k) {
			l := &line{}
			l.moved = sync.NewCond(&l.mu)
			e.lines[queue] = l
			e.ended.Go(func() { e.run(k, queue, l) })
		}
	}
	return e
}

// Patience sets how long a task may take to reach Redis: a second, if it is not called before the
// first item comes. A test that counts tasks needs more on a busy machine.
func (e *Enqueuer) Patience(limit time.Duration) { e.limit = limit }

// Close finishes what waits.
func (e *Enqueuer) Close() {
	for _, l := range e.lines {
		l.mu.Lock()
		l.closed = true
		l.moved.Broadcast()
		l.mu.Unlock()
	}
	e.ended.Wait()
}

// Lost counts the items that did not reach Redis since the start.
func (e *Enqueuer) Lost() int64 { return e.lost.Load() }

func (e *Enqueuer) lose(k Kind, items int) {
	e.lost.Add(int64(items))
	metrics.EnqueueFailures.Add(items, string(k))
}

// Enqueue makes tasks of items, for the time at which each is due. It does not wait for Redis.
// Items of a kind that are due in the same second travel together, as many as a task may have.
func (e *Enqueuer) Enqueue(items []work.Item) {
	for _, k := range Kinds {
		var own []work.Item
		for _, m := range items {
			if m.Kind == k {
				own = append(own, m)
			}
		}
		if len(own) > 0 {
			e.push(k, string(k), own)
		}
	}
}

// Slow puts items of a kind into its slow queue, to be worked on when their turn comes, in tasks of
// one tenant each. It does not wait for Redis.
func (e *Enqueuer) Slow(k Kind, items []work.Item) { e.push(k, SlowQueue(k), items) }

func (e *Enqueuer) push(k Kind, queue string, items []work.Item) {
	l := e.lines[queue]
	l.mu.Lock()
	room := max(0, min(len(items), maxWaiting-len(l.items)))
	if l.closed {
		room = 0
	}
	l.items = append(l.items, items[:room]...)
	l.taken += room
	l.moved.Broadcast()
	l.mu.Unlock()
	if room < len(items) {
		e.lose(k, len(items)-room)
	}
}

// Flush waits until everything passed to Enqueue has been tried.
func (e *Enqueuer) Flush() {
	for _, l := range e.lines {
		l.mu.Lock()
		for until := l.taken; l.done < until; {
			l.moved.Wait()
		}
		l.mu.Unlock()
	}
}

// run enqueues the items of a line until it is closed and empty.
func (e *Enqueuer) run(k Kind, queue string, l *line) {
	slow := queue != string(k)
	for {
		l.mu.Lock()
		for len(l.items) == 0 && !l.closed {
			l.moved.Wait()
		}
		if slow && !l.closed {
			l.mu.Unlock()
			time.Sleep(slowPause)
			l.mu.Lock()
		}
		items := l.items
		l.items = nil
		l.mu.Unlock()
		if len(items) == 0 {
			return
		}
		if slow {
			e.byTenant(k, items)
		} else {
			e.together(k, items)
		}
		l.mu.Lock()
		l.done += len(items)
		l.moved.Broadcast()
		l.mu.Unlock()
	}
}

// together makes one task of items that are due in the same second, the resolution of asynq's
// times.
func (e *Enqueuer) together(k Kind, items []work.Item) {
	now := e.clock.Now()
	bySecond := map[int64][]work.Item{}
	for _, m := range items {
		second := int64(0)
		if m.DueAt.After(now) {
			second = NextSecond(m.DueAt).Unix()
		}
		bySecond[second] = append(bySecond[second], m)
	}
	for _, second := range slices.Sorted(maps.Keys(bySecond)) { // what is due now comes first
		for chunk := range slices.Chunk(bySecond[second], Specs[k].MaxIDs) {
			at := time.Time{}
			if second > 0 {
				at = time.Unix(second, 0)
			}
			err := e.enqueueTask(string(k), taskID(k, chunk[0]), at, chunk...)
			if len(chunk) == 1 || !errors.Is(err, asynq.ErrTaskIDConflict) {
				continue
			}
			// there is a task of that name already; the others must still get theirs
			for _, m := range chunk {
				_ = e.enqueueTask(string(k), taskID(k, m), at, m)
			}
		}
	}
}

// Alone enqueues one item as a task of its own, and waits for Redis, so that its next retry and its
// error are shown separately.
func (e *Enqueuer) Alone(m work.Item) {
	at := m.DueAt
	if !at.After(e.clock.Now()) {
		at = time.Time{}
	}
	_ = e.enqueueTask(string(m.Kind), taskID(m.Kind, m), at, m)
}

// Sweep enqueues items of a kind that were found overdue, to be worked on at once, in full tasks,
// and waits for Redis. The tasks' ids contain the round of the sweep, since earlier ids may still
// be taken by tasks that are wedged or archived.
func (e *Enqueuer) Sweep(k Kind, items []work.Item, round time.Time) {
	for chunk := range slices.Chunk(items, Specs[k].MaxIDs) {
		name := fmt.Sprintf("%s:%s:swept-%d", k, chunk[0].ID, round.UnixMilli())
		_ = e.enqueueTask(string(k), name, time.Time{}, chunk...)
	}
}

// byTenant makes tasks of the slow queue, each of one tenant.
func (e *Enqueuer) byTenant(k Kind, items []work.Item) {
	own := map[uuid.UUID][]work.Item{}
	for _, m := range items {
		own[m.TenantID] = append(own[m.TenantID], m)
	}
	for _, items := range own {
		for chunk := range slices.Chunk(items, Specs[k].MaxIDs) {
			_ = e.enqueueTask(SlowQueue(k), fmt.Sprintf("%s:%s:slow-%d", k, chunk[0].ID, time.Now().UnixNano()), time.Time{}, chunk...)
		}
	}
}

// taskID returns the id of a row's task for a time; a second one for the same time is not a new
// task. An id stays taken while its task is pending, retried or archived, so each due time has an
// id of its own.
func taskID(k Kind, m work.Item) string {
	if m.DueAt.IsZero() {
		return fmt.Sprintf("%s:%s", k, m.ID)
	}
	return fmt.Sprintf("%s:%s:%d", k, m.ID, m.DueAt.UnixMilli())
}

// NextSecond is the first whole second at or after t. asynq truncates times to the second, so
// otherwise a task would run a moment before its row is due, and for nothing.
func NextSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

func (e *Enqueuer) enqueueTask(queue, name string, at time.Time, items ...work.Item) error {
	k := items[0].Kind
	if clock.Pauses(e.quiet.Load(), silence) {
		e.lose(k, len(items))
		return nil
	}
	spec := Specs[k]
	opts := []asynq.Option{asynq.Queue(queue), asynq.TaskID(name), asynq.MaxRetry(spec.MaxRetry), asynq.Timeout(spec.Timeout)}
	if !at.IsZero() {
		opts = append(opts, asynq.ProcessAt(NextSecond(at)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.limit)
	defer cancel()
	failpoint.At("tasks/before-enqueue")
	_, err := e.client.EnqueueContext(ctx, newTask(k, items), opts...)
	failpoint.At("tasks/after-enqueue")
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	e.quiet.Store(time.Now().Add(silence).UnixNano())
	e.lose(k, len(items))
	e.log.WarnContext(trace.Within(ctx, items[0].Traceparent), "a task was not enqueued; the sweep will find its items", slog.String("queue", queue), slog.String("task", name), slog.Any("err", err))
	return err
}
