package stack

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Whichever of the two dies, the other has all that was committed.
func TestStandbyHasAllThatWasCommitted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := start(t, Options{Dir: reachableDir(t)})
	require.NoError(t, s.StartStandby(ctx))
	url := s.BothURL() + "&target_session_attrs=read-write"
	do := func(fn func(conn *pgx.Conn)) {
		conn, err := pgx.Connect(ctx, url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		fn(conn)
	}
	exec := func(conn *pgx.Conn, sql string, args ...any) {
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(t, err)
	}
	do(func(conn *pgx.Conn) { exec(conn, `CREATE TABLE kept (n integer)`) })
	for n := range 3 {
		do(func(conn *pgx.Conn) { exec(conn, `INSERT INTO kept VALUES ($1)`, n) })
		redis := make(chan error)
		s.Redis.Kill()
		go func() { redis <- s.Redis.Start(ctx) }() // at the same time
		s.Postgres.Kill()
		require.NoError(t, s.Promote(ctx))

		do(func(conn *pgx.Conn) {
			var rows int
			require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM kept`).Scan(&rows))
			require.Equal(t, n+1, rows)
			exec(conn, `CREATE TABLE IF NOT EXISTS written ()`)
		})
		require.NoError(t, s.StartStandby(ctx))
		require.NoError(t, <-redis)
		require.Equal(t, url, s.BothURL()+"&target_session_attrs=read-write", "both keep their addresses")
	}
}
