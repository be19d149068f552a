package app

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/testenv"
)

// A Postgres that may lose what was answered is refused in production, and named in development.
func TestCheckPostgres(t *testing.T) {
	t.Parallel()
	e := testenv.New(t) // whose server does not sync, so that the tests are quick
	var log bytes.Buffer
	c := &core{parts: parts{cfg: config.Config{Env: config.Production}, log: slog.New(slog.NewTextHandler(&log, nil)), Pool: e.Pool}}
	require.EqualError(t, c.checkPostgres(t.Context()), "synchronous_commit is off: a crash of Postgres loses payments and payouts that were answered")
	c.cfg.Env = config.Development
	require.NoError(t, c.checkPostgres(t.Context()))
	require.Contains(t, log.String(), "synchronous_commit is off")

	for _, good := range []string{"on", "remote_apply", "remote_write"} {
		require.NoError(t, losing("on", good, ""))
		require.NoError(t, losing("on", good, "db-2"))
		require.ErrorContains(t, losing("off", good, "db-2"), "fsync is off")
	}
	require.ErrorContains(t, losing("on", "off", ""), "synchronous_commit is off")
	require.ErrorContains(t, losing("on", "local", "db-2"), "synchronous_commit is local")
	require.NoError(t, losing("on", "local", ""), "it is the only server")
}
