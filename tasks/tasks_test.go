package tasks_test

import (
	"context"
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
	"ajo/tasks"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func setup(t *testing.T) (*tasks.Enqueuer, *asynq.Inspector) {
	t.Helper()
	client := (&testenv.Env{T: t}).Redis()
	e := tasks.NewEnqueuer(client, clock.System, quiet)
	t.Cleanup(e.Close)
	return e, asynq.NewInspectorFromRedisClient(client)
}

func pending(t *testing.T, i *asynq.Inspector, k tasks.Kind) []*asynq.TaskInfo {
	t.Helper()
	list, err := i.ListPendingTasks(string(k), asynq.PageSize(1000))
	require.NoError(t, err)
	return list
}

// Rings of many callers travel together where the kind allows it, and each row is in exactly one
// task.
func TestRingsTravelTogether(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	ctx := context.Background()
	want := map[uuid.UUID]bool{}
	var wg sync.WaitGroup
	for range 500 {
		id := uuid.Must(uuid.NewV7())
		want[id] = true
		wg.Go(func() { e.Now(ctx, tasks.Ingest, id) })
	}
	wg.Wait()
	list := pending(t, i, tasks.Ingest)
	require.Less(t, len(list), 250, "500 rings made %d tasks", len(list))
	for _, info := range list {
		ids, err := tasks.IDs(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		require.LessOrEqual(t, len(ids), tasks.Specs[tasks.Ingest].MaxIDs)
		for _, id := range ids {
			require.True(t, want[id], "%s twice, or never rung", id)
			delete(want, id)
		}
	}
	require.Empty(t, want)
	require.Zero(t, e.Lost())
}

// Appointments of one second travel together too: a payout is asked about again in a quarter of an
// hour, and each ends at a time of its own.
func TestAppointmentsOfASecondTravelTogether(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	at := tasks.NextSecond(time.Now().Add(time.Hour))
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			e.At(context.Background(), tasks.Ingest, at.Add(-time.Duration(n)*time.Millisecond), uuid.New())
		})
	}
	e.At(context.Background(), tasks.Ingest, at.Add(-time.Minute), uuid.New())
	wg.Wait()
	list, err := i.ListScheduledTasks(string(tasks.Ingest), asynq.PageSize(1000))
	require.NoError(t, err)
	require.Less(t, len(list), 250, "501 appointments made %d tasks", len(list))
	seconds := map[time.Time]int{}
	for _, info := range list {
		ids, err := tasks.IDs(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		seconds[info.NextProcessAt.UTC()] += len(ids)
	}
	require.Equal(t, map[time.Time]int{at.UTC(): 500, at.Add(-time.Minute).UTC(): 1}, seconds)
}

// A second ring for the same time is no new task, and takes nobody else's ring along.
func TestRungTwice(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	ctx := context.Background()
	want, ids := map[uuid.UUID]int{}, make([]uuid.UUID, 200)
	for n := range ids {
		ids[n] = uuid.Must(uuid.NewV7())
		want[ids[n]] = 1
		if n%2 == 0 {
			e.Now(ctx, tasks.Deliver, ids[n])
		}
	}
	e.Now(ctx, tasks.Deliver, ids...) // every other one has been rung
	rung := map[uuid.UUID]int{}
	for _, info := range pending(t, i, tasks.Deliver) {
		ids, err := tasks.IDs(asynq.NewTask(info.Type, info.Payload))
		require.NoError(t, err)
		for _, id := range ids {
			rung[id] = 1 // a row may stand in two tasks, which is harmless; in none is not
		}
	}
	require.Equal(t, want, rung)
}

func TestSweepersRingOnceARound(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	id, now := uuid.Must(uuid.NewV7()), time.Now()
	e.Now(context.Background(), tasks.Deliver, id)
	for range 3 {
		e.Swept(tasks.Deliver, id, now)
	}
	require.Len(t, pending(t, i, tasks.Deliver), 2, "the sweeper's ring is another task, once a round")
}

func TestPayloadIsIDsOnly(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	id := uuid.Must(uuid.NewV7())
	e.Now(context.Background(), tasks.Settle, id)
	info := pending(t, i, tasks.Settle)[0]
	require.JSONEq(t, `{"ids":["`+id.String()+`"]}`, string(info.Payload))
	require.Greater(t, info.MaxRetry, 0, "a task whose dequeue was lost would be archived without having run")
	require.Greater(t, info.Timeout, time.Duration(0))
}

// An appointment is never kept early, though asynq cuts times to the second.
func TestAppointments(t *testing.T) {
	t.Parallel()
	e, i := setup(t)
	at := time.Now().Add(time.Hour).Truncate(time.Second).Add(300 * time.Millisecond)
	e.At(context.Background(), tasks.Confirm, at, uuid.Must(uuid.NewV7()))
	list, err := i.ListScheduledTasks(string(tasks.Confirm))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].NextProcessAt.Before(at), "%s is before %s", list[0].NextProcessAt, at)
	require.Equal(t, time.Unix(5, 0), tasks.NextSecond(time.Unix(4, 1)))
	require.Equal(t, time.Unix(5, 0), tasks.NextSecond(time.Unix(5, 0)))
}

// With Redis gone, or there and silent, a ring costs its caller a second at most, and the next ones
// nothing.
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
			e.Now(context.Background(), tasks.Deliver, uuid.New())
		}
		took := time.Since(begin)
		require.Equal(t, int64(101), e.Lost())
		// One asks Redis and waits for a second at most; then nobody asks for a second.
		tried := strings.Count(log.String(), "a ring was lost")
		require.Positive(t, tried, name)
		require.LessOrEqual(t, tried, 1+int(took/time.Second), "%s: 101 took %s", name, took)
		e.Close()
		require.NoError(t, client.Close())
	}
}
