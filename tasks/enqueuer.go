package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/trace"
)

const (
	ringTimeout = time.Second
	// silence is how long no ring is tried after one failed: with Redis away, nobody waits for it
	// more than once in a while.
	silence = time.Second
)

// Enqueuer enqueues tasks. It never fails its caller: the row is stored, and the sweeper finds it.
// It is safe for concurrent use.
type Enqueuer struct {
	client *asynq.Client
	log    *slog.Logger
	quiet  atomic.Int64 // unix nanoseconds until which Redis is taken for gone
	lost   atomic.Int64
	many   map[Kind]*batch.Coalescer[ring, struct{}]
}

// ring is one row to be looked at, at a time (zero: now).
type ring struct {
	id    uuid.UUID
	at    time.Time
	trace string // the traceparent of who rings
}

// NewEnqueuer enqueues through the given Redis. Close it to finish what is being enqueued.
func NewEnqueuer(r redis.UniversalClient, log *slog.Logger) *Enqueuer {
	e := &Enqueuer{client: asynq.NewClientFromRedisClient(r), log: log, many: map[Kind]*batch.Coalescer[ring, struct{}]{}}
	for _, k := range Kinds {
		metrics.EnqueueFailures(string(k), 0)
		if max := Specs[k].MaxIDs; max > 1 {
			e.many[k] = batch.New(1, max, func(ctx context.Context, rings []ring) []batch.Outcome[struct{}] {
				e.ringTogether(ctx, k, rings)
				return make([]batch.Outcome[struct{}], len(rings))
			})
		}
	}
	return e
}

// Close finishes what is being enqueued.
func (e *Enqueuer) Close() {
	for _, c := range e.many {
		c.Close()
	}
}

// Lost counts the tasks that did not reach Redis since the start.
func (e *Enqueuer) Lost() int64 { return e.lost.Load() }

func (e *Enqueuer) lose(k Kind, rings int) {
	e.lost.Add(int64(rings))
	metrics.EnqueueFailures(string(k), rings)
}

// Now enqueues the rows to be worked on at once.
func (e *Enqueuer) Now(ctx context.Context, k Kind, ids ...uuid.UUID) {
	e.At(ctx, k, time.Time{}, ids...)
}

// At enqueues the rows to be worked on at the given time. Calls of many callers for the same kind
// go out as one task where the kind allows it (Spec.MaxIDs).
func (e *Enqueuer) At(ctx context.Context, k Kind, at time.Time, ids ...uuid.UUID) {
	together, ok := e.many[k]
	if !ok {
		for _, id := range ids {
			e.enqueue(ctx, k, taskID(k, id, at), at, id)
		}
		return
	}
	traceparent := trace.Parent(ctx)
	rings := make([]ring, len(ids))
	for i, id := range ids {
		rings[i] = ring{id: id, at: at, trace: traceparent}
	}
	together.DoAll(ctx, rings)
}

// Alone enqueues one row at the given time as a task of its own, so that its next retry and its
// error stand by themselves.
func (e *Enqueuer) Alone(ctx context.Context, k Kind, at time.Time, id uuid.UUID) {
	e.enqueue(ctx, k, taskID(k, id, at), at, id)
}

// Swept enqueues one row that was found overdue. Its task has an id of its own for each round of
// the sweepers: the first ring's id may still be taken by a task that is wedged or archived, and a
// row that stays overdue is enqueued once a round, not at each sweep.
func (e *Enqueuer) Swept(ctx context.Context, k Kind, id uuid.UUID, round time.Time) {
	e.enqueue(ctx, k, fmt.Sprintf("%s:%s:swept-%d", k, id, round.UnixMilli()), time.Time{}, id)
}

// taskID names the ring of a row for a time; a second ring for the same time is no new task. It
// stays taken while the task is pending, retried or archived, so each appointment has an id of its
// own.
func taskID(k Kind, id uuid.UUID, at time.Time) string {
	if at.IsZero() {
		return fmt.Sprintf("%s:%s", k, id)
	}
	return fmt.Sprintf("%s:%s:%d", k, id, at.UnixMilli())
}

// NextSecond is the first whole second at or after t. asynq keeps appointments to the second and
// cuts the rest off, so it would ring a moment before the row is due, and the ring would be for
// nothing.
func NextSecond(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// ringTogether makes one task of the calls that are for the same second: asynq knows no finer.
func (e *Enqueuer) ringTogether(ctx context.Context, k Kind, rings []ring) {
	for len(rings) > 0 {
		at, first := rings[0].at, rings[0].trace
		var ids []uuid.UUID
		var rest []ring
		for _, r := range rings {
			if r.at.IsZero() == at.IsZero() && NextSecond(r.at).Equal(NextSecond(at)) {
				ids = append(ids, r.id)
			} else {
				rest = append(rest, r)
			}
		}
		e.enqueue(trace.Within(ctx, first), k, taskID(k, ids[0], at), at, ids...)
		rings = rest
	}
}

func (e *Enqueuer) enqueue(ctx context.Context, k Kind, name string, at time.Time, ids ...uuid.UUID) {
	if time.Now().UnixNano() < e.quiet.Load() {
		e.lose(k, len(ids))
		return
	}
	spec := Specs[k]
	opts := []asynq.Option{asynq.Queue(string(k)), asynq.TaskID(name), asynq.MaxRetry(spec.MaxRetry), asynq.Timeout(spec.Timeout)}
	if !at.IsZero() {
		opts = append(opts, asynq.ProcessAt(NextSecond(at)))
	}
	// A caller that goes away does not take the ring along: its row is stored.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ringTimeout)
	defer cancel()
	failpoint.At("tasks/before-ring")
	_, err := e.client.EnqueueContext(ctx, newTask(k, ids, trace.Parent(ctx)), opts...)
	failpoint.At("tasks/after-ring")
	if errors.Is(err, asynq.ErrTaskIDConflict) && len(ids) > 1 {
		// the first one is rung for already; the others must not miss their ring for that
		for _, id := range ids {
			e.enqueue(ctx, k, taskID(k, id, at), at, id)
		}
		return
	}
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
		return
	}
	e.quiet.Store(time.Now().Add(silence).UnixNano())
	e.lose(k, len(ids))
	e.log.WarnContext(ctx, "a ring was lost; the sweeper will find its row", slog.String("kind", string(k)), slog.String("task", name), slog.Any("err", err))
}
