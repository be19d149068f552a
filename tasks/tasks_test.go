package tasks_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/redisconn"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/tasks"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func setup(t *testing.T) (*tasks.Enqueuer, *asynq.Inspector) {
	t.Helper()
	client := (&testenv.Env{T: t}).Redis()
	e := tasks.NewEnqueuer(client, clock.System, quiet)
	e.Patience(time.Minute)
	t.Cleanup(e.Close)
	return e, asynq.NewInspectorFromRedisClient(client)
}

// enqueue makes tasks of rows of a kind that are due at a time, and waits for Redis.
func enqueue(e *tasks.Enqueuer, k work.Kind, at time.Time, ids ...uuid.UUID) {
	items := make([]work.Item, len(ids))
	for i, id := range ids {
		items[i] = work.Item{Kind: k, ID: id, DueAt: at}
	}
	e.Enqueue(items)
	e.Flush()
}

func pending(t *testing.T, i *asynq.Inspector, k tasks.Kind) []*asynq.TaskInfo {
	t.Helper()
	list, err := i.ListPendingTasks(string(k), asynq.PageSize(1000))
	require.NoError(t, err)
	return list
}

// Items of many callers travel together where the kind allows it, and each row is in exactly one
// task.
func TestItemsTravelTogether(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	want := map[uuid.UUID]bool{}
	var wg sync.WaitGroup
	for range 500 {
		id := uuid.Must(uuid.NewV7())
		want[id] = true
		wg.Go(func() { enqueue(e, tasks.Ingest, time.Time{}, id) })
	}
	wg.Wait()
	list := pending(t, i, tasks.Ingest)
	require.Less(t, len(list), 250, "500 items made %d tasks", len(list))
	for _, info := range list {
		items, err := tasks.Items(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		require.LessOrEqual(t, len(items), tasks.Specs[tasks.Ingest].MaxIDs)
		for _, m := range items {
			require.True(t, want[m.ID], "%s twice, or never enqueued", m.ID)
			delete(want, m.ID)
		}
	}
	require.Empty(t, want)
	require.Zero(t, e.Lost())
}

// Items that are due in one second travel together too: a payout is asked about again in a quarter
// of an hour, and each ends at a time of its own.
func TestItemsOfASecondTravelTogether(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	at := tasks.NextSecond(time.Now().Add(time.Hour))
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			enqueue(e, tasks.Ingest, at.Add(-time.Duration(n)*time.Millisecond), uuid.New())
		})
	}
	enqueue(e, tasks.Ingest, at.Add(-time.Minute), uuid.New())
	wg.Wait()
	list, err := i.ListScheduledTasks(string(tasks.Ingest), asynq.PageSize(1000))
	require.NoError(t, err)
	require.Less(t, len(list), 250, "501 items made %d tasks", len(list))
	seconds := map[time.Time]int{}
	for _, info := range list {
		items, err := tasks.Items(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		seconds[info.NextProcessAt.UTC()] += len(items)
	}
	require.Equal(t, map[time.Time]int{at.UTC(): 500, at.Add(-time.Minute).UTC(): 1}, seconds)
}

// A failure of Redis while the machine's clock was ahead, as at its start, keeps nothing from the
// queues once the clock is right.
func TestFailureByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	e.QuietUntil(time.Now().Add(time.Hour))
	enqueue(e, tasks.Settle, time.Time{}, uuid.New())
	require.Zero(t, e.Lost())
	require.Len(t, pending(t, i, tasks.Settle), 1)
}

// An item that is enqueued again for the same time is no new task, and takes nobody else's along.
func TestEnqueuedTwice(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	want, ids := map[uuid.UUID]int{}, make([]uuid.UUID, 200)
	for n := range ids {
		ids[n] = uuid.Must(uuid.NewV7())
		want[ids[n]] = 1
		if n%2 == 0 {
			enqueue(e, tasks.Deliver, time.Time{}, ids[n])
		}
	}
	enqueue(e, tasks.Deliver, time.Time{}, ids...) // every other one has been enqueued
	enqueued := map[uuid.UUID]int{}
	for _, info := range pending(t, i, tasks.Deliver) {
		items, err := tasks.Items(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		for _, m := range items {
			enqueued[m.ID] = 1 // a row may stand in two tasks, which is harmless; in none is not
		}
	}
	require.Equal(t, want, enqueued)
}

// What a sweep finds goes out in full tasks, which are other ones than those of before.
func TestSweepsEnqueueFullTasks(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	id, now := uuid.Must(uuid.NewV7()), time.Now()
	enqueue(e, tasks.Deliver, time.Time{}, id)
	items := []work.Item{{Kind: work.Deliver, ID: id}}
	for range 2*tasks.Specs[tasks.Deliver].MaxIDs - 1 {
		items = append(items, work.Item{Kind: work.Deliver, ID: uuid.Must(uuid.NewV7())})
	}
	for range 3 {
		e.Sweep(tasks.Deliver, items, now)
	}
	require.Len(t, pending(t, i, tasks.Deliver), 3, "one that was there, and two of the sweep, once a round")
}

// What is above its share goes into the slow queue in tasks of one tenant each, in its order.
func TestSlowTasksAreOfOneTenant(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	want := map[uuid.UUID][]work.Item{uuid.New(): nil, uuid.New(): nil}
	for range 8 {
		for tenant := range want {
			m := work.Item{Kind: tasks.Deliver, ID: uuid.New(), TenantID: tenant}
			want[tenant] = append(want[tenant], m)
			e.Slow(tasks.Deliver, []work.Item{m})
		}
	}
	e.Flush()
	list, err := i.ListPendingTasks(tasks.SlowQueue(tasks.Deliver))
	require.NoError(t, err)
	got := map[uuid.UUID][]work.Item{}
	for _, info := range list {
		items, err := tasks.Items(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		for _, m := range items {
			require.Equal(t, items[0].TenantID, m.TenantID)
		}
		got[items[0].TenantID] = append(got[items[0].TenantID], items...)
	}
	require.Equal(t, want, got)
}

func TestPayloadIsIDsOnly(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	id := uuid.Must(uuid.NewV7())
	enqueue(e, tasks.Settle, time.Time{}, id)
	info := pending(t, i, tasks.Settle)[0]
	require.JSONEq(t, `{"ids":["`+id.String()+`"]}`, string(info.Payload))
	require.Greater(t, info.MaxRetry, 0, "a task whose dequeue was lost would be archived without having run")
	require.Greater(t, info.Timeout, time.Duration(0))
}

// A task never comes early, though asynq cuts times to the second.
func TestDueTimes(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	at := time.Now().Add(time.Hour).Truncate(time.Second).Add(300 * time.Millisecond)
	enqueue(e, tasks.Confirm, at, uuid.Must(uuid.NewV7()))
	list, err := i.ListScheduledTasks(string(tasks.Confirm))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].NextProcessAt.Before(at), "%s is before %s", list[0].NextProcessAt, at)
	require.Equal(t, time.Unix(5, 0), tasks.NextSecond(time.Unix(4, 1)))
	require.Equal(t, time.Unix(5, 0), tasks.NextSecond(time.Unix(5, 0)))
}

// With Redis gone, or there and silent, a task costs a second at most, and the next ones nothing.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, address := range map[string]string{"gone": "127.0.0.1:1", "silent": silent.Addr().String()} {
		client, err := redisconn.Open("redis://"+address, redisconn.Options{})
		require.NoError(t, err)
		var log strings.Builder
		e := tasks.NewEnqueuer(client, clock.System, slog.New(slog.NewTextHandler(&log, nil)))
		begin := time.Now()
		for range 101 {
			enqueue(e, tasks.Deliver, time.Time{}, uuid.New())
		}
		took := time.Since(begin)
		require.Equal(t, int64(101), e.Lost())
		// One asks Redis and waits for a second at most; then nobody asks for a second.
		tried := strings.Count(log.String(), "a task was not enqueued")
		require.Positive(t, tried, name)
		require.LessOrEqual(t, tried, 1+int(took/time.Second), "%s: 101 took %s", name, took)
		e.Close()
		require.NoError(t, client.Close())
	}
}
