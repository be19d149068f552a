package workers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"ajo/internal/clock"
	"ajo/tasks"
)

// asynqQueues is asynq's own list of the queues there are.
const asynqQueues = "asynq:queues"

// nameQueues registers all queues with asynq, whose client does so once in a process's life: after
// FLUSHALL the dashboard would show none, and no queue's age could be read. A failure is not
// logged: the next sweep repeats it. If Redis refuses it because it is full, makeRoom is called.
func (w *Workers) nameQueues(ctx context.Context) {
	var names []any
	for _, k := range tasks.Kinds {
		for _, queue := range tasks.Queues(k) {
			names = append(names, queue)
		}
	}
	if err := w.Redis.SAdd(ctx, asynqQueues, names...).Err(); isFull(err) {
		w.makeRoom(err)
	}
}

// isFull reports whether Redis refuses commands that need memory.
func isFull(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "OOM ")
}

// makeRoom removes tasks from a Redis that is full: those that are not due or, if there are none,
// those that wait. No worker could remove them, since Redis refuses the dequeue too, so it would
// stay full. The sweep enqueues their items when they are due, a page at a time.
func (w *Workers) makeRoom(why error) {
	in := asynq.NewInspectorFromRedisClient(w.Redis)
	removed := 0
	for _, list := range [][]func(string) (int, error){{in.DeleteAllScheduledTasks, in.DeleteAllRetryTasks, in.DeleteAllArchivedTasks}, {in.DeleteAllPendingTasks}} {
		for _, k := range tasks.Kinds {
			for _, queue := range tasks.Queues(k) {
				for _, remove := range list {
					n, _ := remove(queue) // the next sweep continues
					removed += n
				}
			}
		}
		if removed > 0 {
			break
		}
	}
	w.Log.Error("redis is full: tasks were removed from it, and their items will be enqueued again when they are due; give it more memory",
		slog.String("alert", "redis_full"), slog.Int("tasks", removed), slog.Any("err", why))
}

// outagePause is how long a command takes at least while Redis is unavailable. asynq's dequeue loop
// retries at once after an error, and would keep the processors busy during an outage.
const outagePause = 250 * time.Millisecond

// outageBackoff is the hook that delays commands while Redis is unavailable.
type outageBackoff struct{}

var _ redis.Hook = outageBackoff{}

// DialHook changes nothing: commands wait, connections do not.
func (outageBackoff) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook delays the error of a command that found no Redis.
func (outageBackoff) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		pauseInOutage(ctx, err)
		return err
	}
}

// ProcessPipelineHook delays the error of commands that found no Redis.
func (outageBackoff) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		pauseInOutage(ctx, err)
		return err
	}
}

func pauseInOutage(ctx context.Context, err error) {
	if isOutage(err) {
		_ = clock.Sleep(ctx, outagePause)
	}
}

// busyFor is how long a queue is polled at the full rate after its last task.
const busyFor = 2 * time.Second

// idlePolling is the hook that polls idle queues rarely and busy ones often. asynq itself has one
// interval for all queues, and cannot block until there is a task. The hook recognizes asynq's
// dequeue script by its first two keys: the list of pending tasks, and the flag of a paused queue.
// The script that reads a queue's figures has the same first key, but not the second.
type idlePolling struct {
	interval map[string]time.Duration // of an idle queue, by the key of its pending tasks
	lastTask map[string]*atomic.Int64 // when there was one, in unix nanoseconds
}

var _ redis.Hook = idlePolling{}

func newIdlePolling() idlePolling {
	p := idlePolling{interval: map[string]time.Duration{}, lastTask: map[string]*atomic.Int64{}}
	for k, spec := range tasks.Specs {
		for i, rest := range []time.Duration{spec.IdlePoll, tasks.SlowIdlePoll} {
			key := "asynq:{" + tasks.Queues(k)[i] + "}:pending"
			p.interval[key], p.lastTask[key] = rest, &atomic.Int64{}
		}
	}
	return p
}

// DialHook changes nothing.
func (idlePolling) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing: asynq does not dequeue in a pipeline.
func (idlePolling) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook delays the answer that an idle queue is empty.
func (p idlePolling) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		args := cmd.Args()
		if len(args) < 5 || cmd.Name() != "evalsha" {
			return err
		}
		key, _ := args[3].(string)
		second, _ := args[4].(string)
		last, dequeue := p.lastTask[key]
		dequeue = dequeue && strings.HasSuffix(second, ":paused")
		switch {
		case !dequeue:
		case err == nil:
			last.Store(time.Now().UnixNano())
		case errors.Is(err, redis.Nil) && time.Since(time.Unix(0, last.Load())) > busyFor:
			time.Sleep(p.interval[key])
		}
		return err
	}
}

// isOutage reports whether an error means that Redis cannot be used: no answer at all, or that of a
// server that is not ready, takes no writes, is full, or does not let this process in.
func isOutage(err error) bool {
	if err == nil {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	switch word {
	case "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOREPLICAS", "TRYAGAIN", "OOM", "MISCONF", "NOAUTH", "WRONGPASS", "NOPERM":
		return true
	}
	return false
}
