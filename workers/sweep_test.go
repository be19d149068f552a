package workers

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/pg"
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
		items, err := tasks.Items(asynq.NewTask(task.Type, task.Payload))
		require.NoError(b.T, err)
		for _, m := range items {
			counts[m.ID]++
		}
		require.NoError(b.T, i.DeleteTask(string(k), task.ID)) // not what was enqueued meanwhile
	}
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
	// the next round begins at the oldest again, also where a clock that was ahead is set right
	for _, on := range []time.Duration{time.Minute, -30 * time.Minute} {
		c.Advance(on)
		for step, want := range []int{10, 10, 5} {
			_, err := s.step(b.ctx)
			require.NoError(t, err)
			require.Len(t, b.taken(work.Ingest, counts), want, "%s, step %d", on, step)
		}
	}
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

// One tenant has far more overdue than a sweep takes at a time, and a hundred others a little, all
// of it younger: theirs is enqueued by the first step, and before what the first tenant has, each
// item once a round. What waits in the slow queue is not enqueued meanwhile.
func TestSweepTakesTenantsInTurn(t *testing.T) {
	t.Parallel()
	s, b, c := newSweeper(t)
	s.SweepPage = 200
	noisy := uuid.New()
	insert := func(tenants []uuid.UUID, n int, ago time.Duration) {
		b.Exec(`INSERT INTO work (kind, id, tenant_id, due_at) SELECT 'ingest', gen_random_uuid(), t, $3::timestamptz FROM unnest($1::uuid[]) t, generate_series(1, $2)`,
			tenants, n, testenv.Epoch.Add(-ago))
	}
	others := make([]uuid.UUID, 100)
	for i := range others {
		others[i] = uuid.New()
	}
	insert([]uuid.UUID{noisy}, 4000, time.Hour)
	insert(others, 3, time.Minute)
	of := func(list []*asynq.TaskInfo) (tenants []uuid.UUID) { // in the order in which workers take them
		for _, task := range list {
			items, err := tasks.Items(asynq.NewTask(task.Type, task.Payload))
			require.NoError(t, err)
			for _, m := range items {
				tenants = append(tenants, m.TenantID)
			}
		}
		return tenants
	}
	counts := map[uuid.UUID]int{}
	_, err := s.step(b.ctx)
	require.NoError(t, err)
	first := of(b.taken(work.Ingest, counts))
	require.Len(t, first, 300+200)
	require.NotContains(t, first[:300], noisy)
	for _, tenant := range others {
		require.Contains(t, first[:100], tenant, "in turn")
	}
	for more := true; more; {
		more, err = s.step(b.ctx)
		require.NoError(t, err)
		b.taken(work.Ingest, counts)
	}
	require.Len(t, counts, 4300)
	for id, n := range counts {
		require.Equal(t, 1, n, id)
	}

	c.Advance(time.Minute)
	b.opts.Enqueuer.Slow(tasks.Ingest, []work.Item{{Kind: work.Ingest, ID: uuid.New(), TenantID: noisy}})
	require.NoError(t, b.redis.Do(b.ctx, "ZADD", slowKey(tasks.Ingest), c.Now().UnixMilli(), noisy.String()).Err())
	testenv.Eventually(t, 20*time.Second, "the task to be older than what is overdue", func() bool {
		before, _ := s.overdue(tasks.SlowQueue(tasks.Ingest))
		return before.Before(c.Now().Add(-s.SweepEvery/2 - time.Second))
	})
	b.Exec(`UPDATE work SET due_at = $1 WHERE tenant_id = $2`, c.Now().Add(-s.SweepEvery/2-time.Millisecond), noisy)
	clear(counts)
	for more := true; more; {
		more, err = s.step(b.ctx)
		require.NoError(t, err)
		b.taken(work.Ingest, counts)
	}
	require.Len(t, counts, 300, "the others' alone")
}

// Of several workers one sweeps; when it stops another does at once, and when it dies after a
// while.
func TestOneWorkerSweeps(t *testing.T) {
	t.Parallel()
	one, b, _ := newSweeper(t)
	one.SweepEvery = 15 * time.Minute // Redis goes by a clock of its own, and a busy machine takes its time
	two := &sweeper{Workers: one.Workers, id: uuid.NewString(), found: map[tasks.Kind]found{}}
	require.True(t, one.leads(b.ctx))
	require.False(t, two.leads(b.ctx))
	require.True(t, one.leads(b.ctx))
	left, err := b.redis.PTTL(b.ctx, leaderKey).Result()
	require.NoError(t, err)
	require.InDelta(t, 600, left.Seconds(), 60, "so long after its death")
	two.resign() // it does not take away what is another's
	require.False(t, two.leads(b.ctx))
	one.resign()
	require.True(t, two.leads(b.ctx))
	require.False(t, one.leads(b.ctx))

	gone, cancel := context.WithCancel(b.ctx)
	cancel()
	require.True(t, one.leads(gone), "nobody is kept from it while Redis does not say")
}

// What a round has passed because it was leased is enqueued by the next sweep after its holder's
// death, and once.
func TestEndedLeasesAreFoundWithinARound(t *testing.T) {
	t.Parallel()
	s, b, c := newSweeper(t)
	b.overdueItems(work.Settle, 5)
	b.overdueItems(work.Deliver, 1)
	b.Exec(`UPDATE work SET due_at = due_at - interval '1 minute', leased_until = $1 WHERE kind = 'settle' AND id IN (SELECT id FROM work WHERE kind = 'settle' LIMIT 3)`, c.Now().Add(work.Term))
	sweeps := func(want int) {
		t.Helper()
		counts := map[uuid.UUID]int{}
		require.NoError(t, s.run(b.ctx))
		b.taken(work.Settle, counts)
		require.Len(t, counts, want)
	}
	sweeps(2)
	c.Advance(work.Term - time.Microsecond)
	sweeps(0)
	c.Advance(time.Microsecond)
	sweeps(3)
	c.Advance(time.Second)
	sweeps(0)
	c.Advance(time.Minute)
	sweeps(5)
}

// While a queue stays full, a sweep does not end. What else belongs to a sweep is done all the
// same: here, to enqueue an item whose holder has died.
func TestAFullQueueHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	s, b, c := newSweeper(t)
	for range 2 * tasks.Specs[tasks.Expire].Concurrency {
		b.enqueue(work.Expire, uuid.New())
	}
	b.overdueItems(work.Settle, 2)
	b.Exec(`UPDATE work SET due_at = due_at - interval '1 minute', leased_until = $1 WHERE kind = 'settle' AND id IN (SELECT id FROM work WHERE kind = 'settle' LIMIT 1)`, c.Now().Add(work.Term))
	s.nameQueues(b.ctx)
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	counts := map[uuid.UUID]int{}
	for n := range 2 {
		testenv.Eventually(t, 20*time.Second, "the next item to be enqueued", func() bool {
			b.taken(work.Settle, counts)
			return len(counts) == n+1
		})
		c.Advance(s.SweepEvery)
	}
	stop()
	require.Error(t, <-ended, "it still waits for the full queue")
}

// A worker that takes over sweeps at once, and then once an interval.
func TestWhoTakesOverSweepsAtOnce(t *testing.T) {
	t.Parallel()
	one, b, c := newSweeper(t)
	one.SweepEvery = 15 * time.Minute // Redis goes by a clock of its own, and a busy machine takes its time
	two := &sweeper{Workers: one.Workers, id: uuid.NewString(), found: map[tasks.Kind]found{}}
	b.overdueItems(work.Expire, 1)
	swept := func(s *sweeper) bool {
		t.Helper()
		c.Advance(time.Hour) // a round
		require.NoError(t, s.tick(b.ctx))
		return len(b.taken(work.Expire, map[uuid.UUID]int{})) > 0
	}
	for range 2 {
		require.True(t, swept(one))
		require.False(t, swept(one))
		require.False(t, swept(two))
		require.False(t, swept(one))
	}
	one.resign()
	require.True(t, swept(two))
	require.False(t, swept(one))
	require.False(t, swept(two))
	two.resign()
	require.True(t, swept(one))
}

// A Postgres whose machine has died is silent. A sweep gives it up before the kernel does, so that
// the next one goes on by another connection.
func TestASweepGivesUpASilentPostgres(t *testing.T) {
	t.Parallel()
	s, b, _ := newSweeper(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and nobody answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	s.Pool, err = pg.OpenStandby(b.ctx, "postgres://ajo@"+silent.Addr().String()+"/ajo?sslmode=disable&connect_timeout=600", 2)
	require.NoError(t, err)
	t.Cleanup(s.Pool.Close)
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute) // the kernel takes some 15
	defer cancel()
	require.Error(t, s.tick(ctx))
	require.NoError(t, ctx.Err(), "it waited for Postgres")
}
