package workers

import (
	"context"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"ajo/internal/metrics"
	"ajo/internal/retry"
	"ajo/tasks"
)

// outcome says how the metrics count the result of a row.
func outcome(ctx context.Context, err error) metrics.Outcome {
	switch {
	case err == nil:
		return metrics.Done
	case retry.IsExhausted(err):
		return metrics.Exhausted
	case !isFailure(err), ctx.Err() != nil: // handed back: it is still due
		return metrics.Later
	}
	return metrics.Failed
}

// ShowDepths asks Redis for the tasks of each queue, and shows them as gauges. A queue that Redis
// has never heard of, or has forgotten, is an empty one.
func ShowDepths(r redis.UniversalClient) error {
	inspector := asynq.NewInspectorFromRedisClient(r)
	known, err := inspector.Queues()
	if err != nil {
		return err
	}
	for _, k := range tasks.Kinds {
		for _, queue := range tasks.Queues(k) {
			info := &asynq.QueueInfo{}
			if slices.Contains(known, queue) {
				if info, err = inspector.GetQueueInfo(queue); err != nil {
					return err
				}
			}
			metrics.QueueDepth(queue, [5]int{info.Pending, info.Active, info.Scheduled, info.Retry, info.Archived}, info.Latency)
		}
	}
	return nil
}

// TakesWrites fails if Redis does not take writes: one that is a replica, lacks replicas or cannot
// save answers every question, while tasks are neither enqueued nor taken. It deletes a key beside
// each queue, as they may lie on several nodes; none is ever there. A full Redis lets it.
func TakesWrites(ctx context.Context, r redis.UniversalClient) error {
	_, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range tasks.Kinds {
			for _, queue := range tasks.Queues(k) {
				p.Del(ctx, "asynq:{"+queue+"}:writable")
			}
		}
		return nil
	})
	return err
}

// Running returns how many processes work on the queues, and the kinds that none of them works on.
func Running(r redis.UniversalClient) (n int, unserved []string, err error) {
	servers, err := asynq.NewInspectorFromRedisClient(r).Servers()
	processes, served := map[string]bool{}, map[string]bool{} // each has a server for each kind
	for _, s := range servers {
		processes[fmt.Sprint(s.Host, " ", s.PID)] = true
		for queue := range s.Queues {
			served[queue] = true
		}
	}
	for _, k := range tasks.Kinds {
		if !served[string(k)] {
			unserved = append(unserved, string(k))
		}
	}
	return len(processes), unserved, err
}
