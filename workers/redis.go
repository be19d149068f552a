package workers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/tasks"
)

// asynqQueues is asynq's own list of the queues there are.
const asynqQueues = "asynq:queues"

// nameQueues lists all queues with asynq. Its client does so once in a process's life: after FLUSHALL the dashboard would
// show none, and nobody could ask for a queue's age. A failure needs no word: the next sweep does it again.
func (w *Workers) nameQueues(ctx context.Context) {
	names := make([]any, len(tasks.Kinds))
	for i, k := range tasks.Kinds {
		names[i] = string(k)
	}
	_ = w.Redis.SAdd(ctx, asynqQueues, names...).Err()
}

// awayPause is what a command that finds no Redis takes at least. asynq's dequeuing loop asks again at once after an error,
// and would keep the processors busy for as long as Redis is away.
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

// isAway tells whether the error says that there is no Redis to work with: no answer at all, or that of one that is not
// ready. Any other answer is one.
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
