package pg_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
)

func TestArraysOfIDs(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	one, two := uuid.New(), uuid.New()
	for _, ids := range [][]uuid.UUID{nil, {}, {one}, {one, two, uuid.Nil}} {
		var got []uuid.UUID
		require.NoError(t, e.Pool.QueryRow(t.Context(), `SELECT $1::uuid[]`, ids).Scan(&got))
		require.Equal(t, ids, got)
	}
	for _, ids := range [][]*uuid.UUID{nil, {}, {&one, nil, &two}} {
		var got []*uuid.UUID
		require.NoError(t, e.Pool.QueryRow(t.Context(), `SELECT $1::uuid[]`, ids).Scan(&got))
		require.Equal(t, ids, got)
	}
	var text string
	require.NoError(t, e.Pool.QueryRow(t.Context(), `SELECT array_to_string($1::uuid[], ',')`, []uuid.UUID{one, two}).Scan(&text))
	require.Equal(t, one.String()+","+two.String(), text)
}

// A batch's plan is made once, on a table that may be empty then, and must not read the table whole
// when it has grown.
func TestBatchPlansAreMadeOnce(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE young (id uuid PRIMARY KEY, n int NOT NULL)`)
	setting := func(q pg.Querier) (mode string) {
		require.NoError(t, q.QueryRow(t.Context(), `SELECT current_setting('plan_cache_mode') || current_setting('enable_seqscan')`).Scan(&mode))
		return mode
	}
	id := uuid.New()
	const update = `UPDATE young y SET n = y.n + m.n FROM unnest($1::uuid[], $2::int[]) AS m (id, n) WHERE y.id = m.id`
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test", Max: 1}, func(_ context.Context, tx pg.Tx, _ []int) ([]int, error) {
		require.Equal(t, "force_generic_planoff", setting(tx))
		run := func(want int64) {
			tag, err := tx.Exec(t.Context(), update, []uuid.UUID{id}, []int32{1})
			require.NoError(t, err)
			require.Equal(t, want, tag.RowsAffected())
		}
		whole := func() (n int) {
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'young'`).Scan(&n))
			return n
		}
		before := whole()
		run(0)
		_, err := tx.Exec(t.Context(), `INSERT INTO young SELECT gen_random_uuid(), 0 FROM generate_series(1, 5000)`)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `INSERT INTO young VALUES ($1, 0)`, id)
		require.NoError(t, err)
		run(1)
		require.Equal(t, before, whole(), "the table was read whole")
		var generic int
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT generic_plans FROM pg_prepared_statements WHERE statement = $1`, update).Scan(&generic))
		require.Equal(t, 2, generic)
		return []int{0}, nil
	})
	defer b.Close()
	_, err := b.Do(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, "force_custom_planon", setting(e.Pool), "the settings end with the transaction")
}
