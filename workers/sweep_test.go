package workers

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/tasks"
)

// newSweeper is the sweep of a worker that serves no queue, by a clock that stands still.
func newSweeper(t *testing.T) (*sweeper, *bundle, *clock.Fake) {
	t.Helper()
	b := setup(t)
	c := clock.NewFake(testenv.Epoch)
	o := b.opts
	o.Clock, o.SweepEvery = c, 15*time.Second
	return &sweeper{Workers: &Workers{Options: o}, id: uuid.NewString(), found: map[tasks.Kind]found{}}, b, c
}

// overdueItems makes items of a kind that were due an hour ago, all at the same time.
func (b *bundle) overdueItems(k work.Kind, n int) {
	b.T.Helper()
	b.Exec(`INSERT INTO work (kind, id, due_at) SELECT $1, gen_random_uuid(), $3::timestamptz FROM generate_series(1, $2)`, string(k), n, testenv.Epoch.Add(-time.Hour))
}

// taken empties the queue, as workers do, and counts how often each item was in a task.
func (b *bundle) taken(k work.Kind, counts map[uuid.UUID]int) (list []*asynq.TaskInfo) {
	b.T.Helper()
	i := asynq.NewInspectorFromRedisClient(b.redis)
	list, err := i.ListPendingTasks(string(k), asynq.PageSize(10_000))
	require.NoError(b.T, err)
	for _, task := range list {
		ids, err := tasks.IDs(asynq.NewTask(task.Type, task.Payload))
		require.NoError(b.T, err)
		for _, id := range ids {
			counts[id]++
		}
	}
	_, err = i.DeleteAllPendingTasks(string(k))
	require.NoError(b.T, err)
	return list
}

// A backlog that has lost its tasks is enqueued page by page, in full tasks, each item once in a
// round, though all are due at the same time and none is worked on meanwhile.
func TestSweepGoesThroughABacklog(t *testing.T) {
	t.Parallel()
	s, b, c := newSweeper(t)
	const items = 2500
	s.SweepPage = 1000
	b.overdueItems(work.Ingest, items)
	counts := map[uuid.UUID]int{}
	for step, more := range []bool{true, true, false, false} {
		got, err := s.step(b.ctx)
		require.NoError(t, err)
		require.Equal(t, more, got, "step %d", step)
		require.Len(t, b.taken(work.Ingest, counts), []int{10, 10, 5, 0}[step], "step %d", step)
	}
	require.Len(t, counts, items)
	for id, n := range counts {
		require.Equal(t, 1, n, id)
	}
	c.Advance(time.Minute) // the next round begins at the oldest again
	more, err := s.step(b.ctx)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, b.taken(work.Ingest, counts), 10)
}

// A full queue gets no more, and another kind's is filled meanwhile.
func TestSweepWaitsForTheWorkers(t *testing.T) {
	t.Parallel()
	s, b, _ := newSweeper(t)
	b.overdueItems(work.Ingest, 10)
	b.overdueItems(work.Expire, 10)
	for range 2 * tasks.Specs[tasks.Ingest].Concurrency {
		b.enqueue(work.Ingest, uuid.New())
	}
	more, err := s.step(b.ctx)
	require.NoError(t, err)
	require.True(t, more, "items are left")
	counts := map[uuid.UUID]int{}
	require.Len(t, b.taken(work.Expire, counts), 10)
	require.Len(t, b.taken(work.Ingest, counts), 2*tasks.Specs[tasks.Ingest].Concurrency, "none was added")
	more, err = s.step(b.ctx)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, b.taken(work.Ingest, counts), 1)
	require.Empty(t, b.taken(work.Expire, counts), "once a round")
}

// Of several workers one sweeps; when it stops another does at once, and when it dies after a
// while.
func TestOneWorkerSweeps(t *testing.T) {
	t.Parallel()
	one, b, _ := newSweeper(t)
	two := &sweeper{Workers: one.Workers, id: uuid.NewString(), found: map[tasks.Kind]found{}}
	require.True(t, one.leads(b.ctx))
	require.False(t, two.leads(b.ctx))
	require.True(t, one.leads(b.ctx))
	left, err := b.redis.PTTL(b.ctx, leaderKey).Result()
	require.NoError(t, err)
	require.InDelta(t, 30, left.Seconds(), 2, "so long after its death")
	two.resign() // it does not take away what is another's
	require.False(t, two.leads(b.ctx))
	one.resign()
	require.True(t, two.leads(b.ctx))
	require.False(t, one.leads(b.ctx))

	gone, cancel := context.WithCancel(b.ctx)
	cancel()
	require.True(t, one.leads(gone), "nobody is kept from it while Redis does not say")
}
