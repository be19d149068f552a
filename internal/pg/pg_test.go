package pg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
)

// An address may name how long a server may take: one far away, or the wait for a statement.
func TestTimesOfTheAddress(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"":                      {"5s", "15000", "10000"},
		"connect_timeout=20":    {"20s", "15000", "10000"},
		"statement_timeout=100": {"5s", "100", "10000"},
		"lock_timeout=100":      {"5s", "15000", "100"},
	} {
		pool, err := pg.OpenStandby(t.Context(), "postgres://ajo@localhost/ajo?"+query, 1) // it connects to nothing
		require.NoError(t, err)
		defer pool.Close()
		c := pool.Config().ConnConfig
		got := []string{c.ConnectTimeout.String(), c.RuntimeParams["statement_timeout"], c.RuntimeParams["lock_timeout"]}
		require.Equal(t, want, got, query)
	}
}
