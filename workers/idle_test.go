package workers

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
	"ajo/tasks"
)

// counting is a hook that counts the commands of a client.
type counting struct{ n atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// An idle worker asks Redis for little: the goal is 50 commands a second, all queues together.
func TestIdleWorkerAsksLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opts.SweepEvery = 15 * time.Second
	var c counting
	b.redis.AddHook(&c)
	b.start()
	const looked = 5 * time.Second
	for _, k := range tasks.Kinds {
		b.enqueue(k, uuid.New()) // of no row: it is done at once
	}
	inspector := asynq.NewInspectorFromRedisClient(b.redis)
	testenv.Eventually(t, time.Minute, "the tasks to be done", func() bool {
		left := 0
		for _, k := range tasks.Kinds {
			q, err := inspector.GetQueueInfo(string(k))
			require.NoError(t, err)
			left += q.Size
		}
		return left == 0
	})
	time.Sleep(busyFor + time.Second)
	before, begin := c.n.Load(), time.Now()
	end := time.After(looked)
	var looks int64
	for watching := true; watching; { // an operator's look at the queues keeps nobody awake
		select {
		case <-end:
			watching = false
		case <-time.After(time.Second):
			own := c.n.Load()
			for _, k := range tasks.Kinds {
				_, err := inspector.GetQueueInfo(string(k))
				require.NoError(t, err)
			}
			looks += c.n.Load() - own
		}
	}
	rate := float64(c.n.Load()-before-looks) / time.Since(begin).Seconds()
	t.Logf("%.1f commands a second", rate)
	require.Less(t, rate, 50.0)
	require.Greater(t, rate, 5.0, "the queues are looked at")
}

// While a queue has work, the next task does not wait for it as at a queue at rest.
func TestBusyQueueIsLookedAtOften(t *testing.T) {
	t.Parallel()
	b := setup(t)
	done := make(chan struct{}, 1)
	w, err := Start(Options{
		Pool: b.Pool, Redis: b.redis, Clock: b.opts.Clock, Log: b.opts.Log, SweepEvery: time.Minute, Queues: map[tasks.Kind]int{},
	})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	d := newDispatcher(tasks.Expire, 1, each(func(context.Context, uuid.UUID) error { done <- struct{}{}; return nil }), b.opts.Clock, b.opts.Log) // which rests longest
	s := w.server(d, string(tasks.Expire), false)
	require.NoError(t, s.Start(w.handle(d, false)))
	t.Cleanup(s.Shutdown)
	var took []time.Duration
	for range 30 {
		begin := time.Now()
		b.enqueue(tasks.Expire, uuid.New())
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("a task was not picked up")
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("picked up after %s at the median, %s at most", took[15], took[29])
	require.Less(t, took[15], tasks.Specs[tasks.Expire].IdlePoll/2, "the median")
}
