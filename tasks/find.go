package tasks

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	findPage  = 1000
	findLimit = 10_000 // tasks of a state
)

// Found is a task as it is in the queue.
type Found struct {
	ID        string     // asynq's
	State     string     // active, pending, scheduled, retry or archived
	NextAt    *time.Time // when it is scheduled or retried
	Retried   int
	LastError string
	Items     int // that it carries
}

// Find returns the tasks that carry an item. It reads at most 10,000 tasks of each state; all
// reports whether these were all. For operators: the item's row says what is to be done, and the
// sweep enqueues items without a task.
func Find(r redis.UniversalClient, k Kind, id uuid.UUID) (found []Found, all bool, err error) {
	in := asynq.NewInspectorFromRedisClient(r)
	all = true
	for _, queue := range Queues(k) {
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
			in.ListActiveTasks, in.ListPendingTasks, in.ListScheduledTasks, in.ListRetryTasks, in.ListArchivedTasks,
		} {
			more, err := findInState(queue, list, id, &found)
			if err != nil {
				return nil, false, err
			}
			all = all && !more
		}
	}
	return found, all, nil
}

// findInState reads tasks of one state, and reports whether there are more than it has read.
func findInState(queue string, list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error), id uuid.UUID, found *[]Found) (more bool, err error) {
	for page := 1; page*findPage <= findLimit; page++ {
		tasks, err := list(queue, asynq.PageSize(findPage), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return false, nil // nothing was ever enqueued
		}
		if err != nil {
			return false, err
		}
		for _, t := range tasks {
			if f, ok := carries(t, id); ok {
				*found = append(*found, f)
			}
		}
		if len(tasks) < findPage {
			return false, nil
		}
	}
	return true, nil
}

func carries(t *asynq.TaskInfo, id uuid.UUID) (Found, bool) {
	var p payload
	if err := json.Unmarshal(t.Payload, &p); err != nil || !slices.Contains(p.IDs, id) {
		return Found{}, false
	}
	f := Found{ID: t.ID, State: t.State.String(), Retried: t.Retried, LastError: t.LastErr, Items: len(p.IDs)}
	if t.State == asynq.TaskStateScheduled || t.State == asynq.TaskStateRetry {
		f.NextAt = &t.NextProcessAt
	}
	return f, true
}
