package workers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/tasks"
)

// asynqQueues is asynq's own list of the queues there are.
const asynqQueues = "asynq:queues"

// nameQueues lists all queues with asynq. Its client does so once in a process's life: after
// FLUSHALL the dashboard would show none, and nobody could ask for a queue's age. A failure needs
// no word: the next sweep does it again.
func (w *Workers) nameQueues(ctx context.Context) {
	names := make([]any, len(tasks.Kinds))
	for i, k := range tasks.Kinds {
		names[i] = string(k)
	}
	_ = w.Redis.SAdd(ctx, asynqQueues, names...).Err()
}

// awayPause is what a command that finds no Redis takes at least. asynq's dequeuing loop asks again
// at once after an error, and would keep the processors busy for as long as Redis is away.
const awayPause = 250 * time.Millisecond

// patience is the hook that makes the pause.
type patience struct{}

var _ redis.Hook = patience{}

// DialHook changes nothing: a command waits, not a connection.
func (patience) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook lets a command that found no Redis return late.
func (patience) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		pauseIfAway(ctx, err)
		return err
	}
}

// ProcessPipelineHook lets commands that found no Redis return late.
func (patience) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		pauseIfAway(ctx, err)
		return err
	}
}

func pauseIfAway(ctx context.Context, err error) {
	if !isAway(err) {
		return
	}
	t := time.NewTimer(awayPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// awakeFor is how long a queue is polled at the full rate after its last task.
const awakeFor = 2 * time.Second

// drowsy is the hook that lets a queue at rest be polled seldom and a busy one often; asynq itself
// knows one interval only, and cannot wait for a task. It knows asynq's question for the next task
// by its first two keys: the list of pending ones, and whether the queue is paused. A look at a
// queue's figures begins with the first of them too, and is no task.
type drowsy struct {
	rest map[string]time.Duration // by that key
	busy map[string]*atomic.Int64 // unix nanoseconds of the last task
}

var _ redis.Hook = drowsy{}

func newDrowsy() drowsy {
	d := drowsy{rest: map[string]time.Duration{}, busy: map[string]*atomic.Int64{}}
	for k, spec := range tasks.Specs {
		key := "asynq:{" + string(k) + "}:pending"
		d.rest[key], d.busy[key] = spec.Rest, &atomic.Int64{}
	}
	return d
}

// DialHook changes nothing.
func (drowsy) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing: a task is asked for by a command of its own.
func (drowsy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook lets the answer that a queue at rest is empty come late.
func (d drowsy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		args := cmd.Args()
		if len(args) < 5 || cmd.Name() != "evalsha" {
			return err
		}
		key, _ := args[3].(string)
		second, _ := args[4].(string)
		busy, asked := d.busy[key]
		asked = asked && strings.HasSuffix(second, ":paused")
		switch {
		case !asked:
		case err == nil:
			busy.Store(time.Now().UnixNano())
		case errors.Is(err, redis.Nil) && time.Since(time.Unix(0, busy.Load())) > awakeFor:
			time.Sleep(d.rest[key])
		}
		return err
	}
}

// isAway tells whether the error says that there is no Redis to work with: no answer at all, or
// that of one that is not ready. Any other answer is one.
func isAway(err error) bool {
	if err == nil {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	switch word {
	case "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN":
		return true
	}
	return false
}
