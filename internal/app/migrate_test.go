package app

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// An upgrade that is not told how much time a partition covers, as by the Job of the manifests,
// makes such partitions as there are.
func TestMigrateKeepsTheSizeOfPartitions(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	sizes := func() (days, others int) {
		pool, err := pg.Open(t.Context(), url, 2)
		require.NoError(t, err)
		defer pool.Close()
		parts, err := partition.List(t.Context(), pool)
		require.NoError(t, err)
		for _, p := range parts {
			switch {
			case p.From.IsZero() || p.To.IsZero():
			case p.To.Sub(p.From) == 24*time.Hour:
				days++
			default:
				others++
			}
		}
		return days, others
	}
	require.NoError(t, Migrate(t.Context(), url, partition.Day, io.Discard))
	days, others := sizes()
	require.GreaterOrEqual(t, days, 14*len(partition.Tables))
	require.Zero(t, others)
	require.NoError(t, Migrate(t.Context(), url, "", io.Discard))
	_, others = sizes()
	require.Zero(t, others)

	fresh := testenv.EmptyDatabase(t)
	url = fresh
	require.NoError(t, Migrate(t.Context(), url, "", io.Discard))
	_, others = sizes()
	require.Equal(t, 3*len(partition.Tables), others, "months")
}
