package tasks_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/testenv"
	"ajo/tasks"
)

// The tasks that carry an item are found in whatever state they are, also one among many items.
func TestFind(t *testing.T) {
	t.Parallel()
	client := (&testenv.Env{T: t}).Redis()
	e, i := tasks.NewEnqueuer(client, clock.System, quiet), asynq.NewInspectorFromRedisClient(client)
	e.Patience(time.Minute)
	t.Cleanup(e.Close)
	id, others := uuid.New(), []uuid.UUID{uuid.New(), uuid.New()}
	found, all, err := tasks.Find(client, tasks.Ingest, id)
	require.NoError(t, err)
	require.Empty(t, found)
	require.True(t, all, "there is no queue yet")

	later := tasks.NextSecond(time.Now().Add(time.Hour))
	enqueue(e, tasks.Ingest, time.Time{}, others[0], id, others[1])
	enqueue(e, tasks.Ingest, time.Time{}, others[0])
	enqueue(e, tasks.Ingest, later, id)
	found, all, err = tasks.Find(client, tasks.Ingest, id)
	require.NoError(t, err)
	require.True(t, all)
	require.Len(t, found, 2)
	require.Equal(t, []any{"pending", 3}, []any{found[0].State, found[0].Items})
	require.Nil(t, found[0].NextAt)
	require.Equal(t, []any{"scheduled", 1}, []any{found[1].State, found[1].Items})
	require.True(t, later.Equal(*found[1].NextAt))

	require.NoError(t, i.ArchiveTask(string(tasks.Ingest), found[0].ID))
	found, _, err = tasks.Find(client, tasks.Ingest, others[1])
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, "archived", found[0].State)
	require.NoError(t, client.Close())
	_, all, err = tasks.Find(client, tasks.Ingest, id)
	require.Error(t, err)
	require.False(t, all)
}
