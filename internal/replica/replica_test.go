package replica_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/replica"
	"ajo/internal/stack"
	"ajo/internal/testenv"
)

// pair is a primary with an asynchronous standby that is reached by a proxy.
type pair struct {
	*testing.T
	servers *stack.Stack
	primary *pg.Pool
	standby *pg.Pool // beside the proxy, as superuser
	line    *testenv.Proxy
	replica *replica.Replica
	log     *slog.Logger // nil: none
	written int
}

// start starts them. Ajo's role is an ordinary one, which may not see who replicates.
func start(t *testing.T) *pair {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	servers, err := stack.Start(ctx, stack.Options{Dir: dir, MaxConnections: 50})
	require.NoError(t, err)
	t.Cleanup(func() {
		servers.Stop()
		require.NoError(t, stack.Reset(dir))
	})
	require.NoError(t, servers.StartStandby(ctx))
	p := &pair{T: t, servers: servers}
	p.primary, err = pg.Open(ctx, servers.DatabaseURL, 4)
	require.NoError(t, err)
	t.Cleanup(p.primary.Close)
	p.standby, err = pg.OpenStandby(ctx, servers.StandbyURL(), 2)
	require.NoError(t, err)
	t.Cleanup(p.standby.Close)
	p.exec(p.primary, `ALTER SYSTEM SET synchronous_standby_names = ''`)
	p.exec(p.primary, `SELECT pg_reload_conf()`)
	p.exec(p.primary, `CREATE ROLE app LOGIN PASSWORD 'app'`)
	p.exec(p.primary, `CREATE TABLE written (n integer)`)
	p.exec(p.primary, `GRANT SELECT ON written TO app`)
	p.line = testenv.NewProxy(t, servers.Standby.Addr(), true)
	p.open(p.as(servers.DatabaseURL, ""), p.as(servers.StandbyURL(), p.line.Addr))
	return p
}

// as is the address for Ajo's role, by another host.
func (p *pair) as(server, host string) string {
	_, rest, _ := strings.Cut(server, "@")
	hosts, database, _ := strings.Cut(rest, "/")
	return "postgres://app:app@" + cmp.Or(host, hosts) + "/" + database
}

func (p *pair) open(primary, standby string) {
	p.Helper()
	var err error
	p.replica, err = replica.Open(context.Background(), replica.Options{PrimaryURL: primary, URL: standby, MaxConns: 4, Log: cmp.Or(p.log, slog.New(slog.DiscardHandler))})
	require.NoError(p, err)
	p.Cleanup(p.replica.Close)
}

func (p *pair) exec(q pg.Querier, sql string, args ...any) {
	p.Helper()
	_, err := q.Exec(context.Background(), sql, args...)
	require.NoError(p, err)
}

// writeAndRead writes a row, and reads at once what is there: the row must be among it, wherever it
// was read.
func (p *pair) writeAndRead() (standby bool) {
	p.Helper()
	p.written++
	p.exec(p.primary, `INSERT INTO written VALUES ($1)`, p.written)
	var seen int
	require.NoError(p, p.replica.Read(context.Background(), func(ctx context.Context) error {
		return pg.Reader(ctx, p.primary).QueryRow(ctx, `SELECT coalesce(max(n), 0), pg_is_in_recovery() FROM written`).Scan(&seen, &standby)
	}))
	require.Equal(p, p.written, seen, "what was written before is read; at the standby: %t", standby)
	return standby
}

// used waits until reads are at the standby, or no longer are.
func (p *pair) used(want bool) {
	p.Helper()
	testenv.Eventually(p.T, time.Minute, "the standby to be used, or no longer", func() bool { return p.writeAndRead() == want })
	for range 20 {
		if want {
			p.writeAndRead() // a slow machine may read at the primary now and then
		} else {
			require.False(p, p.writeAndRead())
		}
	}
}

func sampleOf(t *testing.T, name string) float64 {
	t.Helper()
	all, err := metrics.Gatherer().Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric", name)
	return 0
}

// A request reads what was committed before it, whatever happens to the standby, which is used
// whenever it is fresh.
func TestReadsAreNeverOld(t *testing.T) {
	p := start(t)
	p.used(true)
	testenv.Eventually(t, time.Minute, "the gauge", func() bool { return sampleOf(t, "ajo_replica_unused") == 0 })

	t.Log("replay is paused: it receives everything and shows nothing of it")
	p.exec(p.standby, `SELECT pg_wal_replay_pause()`)
	p.used(false)
	testenv.Eventually(t, time.Minute, "the lag to show", func() bool {
		return sampleOf(t, "ajo_replica_lag_seconds") > 1 && sampleOf(t, "ajo_replica_unused") == 1
	})
	p.exec(p.standby, `SELECT pg_wal_replay_resume()`)
	p.used(true)
	testenv.Eventually(t, time.Minute, "the gauge", func() bool { return sampleOf(t, "ajo_replica_unused") == 0 })

	t.Log("the link is cut: it has replayed all that it received, and receives nothing")
	var mend string
	require.NoError(t, p.standby.QueryRow(t.Context(), `SELECT format('ALTER SYSTEM SET primary_conninfo = %L', current_setting('primary_conninfo'))`).Scan(&mend))
	p.exec(p.standby, `ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'`)
	p.exec(p.standby, `SELECT pg_reload_conf()`)
	p.used(false)
	testenv.Eventually(t, time.Minute, "the lag to show", func() bool { return sampleOf(t, "ajo_replica_lag_seconds") > 1 })
	p.exec(p.standby, mend)
	p.exec(p.standby, `SELECT pg_reload_conf()`)
	p.used(true)

	t.Log("it is silent")
	p.line.Stall(true)
	p.used(false)
	p.line.Stall(false)
	p.used(true)

	t.Log("it is killed, and comes back")
	p.servers.Standby.Kill()
	p.used(false)
	require.NoError(t, p.servers.Standby.Start(t.Context()))
	p.used(true)

	t.Log("another database of the same servers, as after a restore beside the old one")
	p.exec(p.primary, `CREATE DATABASE another`)
	testenv.Eventually(t, time.Minute, "the standby to have it", func() (has bool) {
		require.NoError(t, p.standby.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'another')`).Scan(&has))
		return has
	})
	right := p.as(p.servers.StandbyURL(), p.line.Addr)
	p.replica.Close()
	logged := testenv.NewLog(t)
	p.log = logged.Logger()
	p.open(p.as(p.servers.DatabaseURL, ""), strings.Replace(right, "/ajo?", "/another?", 1))
	testenv.Eventually(t, time.Minute, "the replica to be refused", func() bool { // a slow machine may have other reasons first
		return strings.Contains(logged.String(), "or another database") || strings.Contains(logged.String(), "the replica is used")
	})
	logged.Has(t, "or another database")
	p.replica.Close()
	p.open(p.as(p.servers.DatabaseURL, ""), right)
	p.used(true)

	t.Log("it is promoted, and somebody writes to it")
	p.exec(p.standby, `SELECT pg_promote()`)
	p.exec(p.standby, `INSERT INTO written VALUES (1000000)`)
	p.used(false)
	testenv.Eventually(t, time.Minute, "the gauge", func() bool { return sampleOf(t, "ajo_replica_unused") == 1 })
}

// What fails at the standby after it has begun is done at the primary, from its beginning.
func TestReadsBeginAnew(t *testing.T) {
	p := start(t)
	p.exec(p.primary, `INSERT INTO written SELECT generate_series(1, 200)`)
	p.written = 200
	p.exec(p.standby, `ALTER SYSTEM SET max_standby_streaming_delay = 0`)
	p.exec(p.standby, `SELECT pg_reload_conf()`)
	// slowly reads row by row at the standby, and lets a fault happen after the first; it returns
	// the last result, and where the runs were
	slowly := func(fault func()) (rows []int, standbys []bool) {
		p.used(true)
		require.NoError(t, p.replica.Read(context.Background(), func(ctx context.Context) error {
			rows = nil
			q := pg.Reader(ctx, p.primary)
			var standby bool
			if err := q.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby); err != nil {
				return err
			}
			standbys = append(standbys, standby)
			// each row takes a while only at the standby, and fills what the server sends at once
			got, err := q.Query(ctx, `SELECT n, repeat('x', 10000), pg_sleep(CASE WHEN pg_is_in_recovery() THEN 0.1 ELSE 0 END)::text FROM written WHERE n <= 200`)
			if err != nil {
				return err
			}
			var n int
			_, err = pgx.ForEachRow(got, []any{&n, nil, nil}, func() error {
				if len(rows) == 0 && standby {
					fault()
				}
				rows = append(rows, n)
				return nil
			})
			return err
		}))
		return rows, standbys
	}
	check := func(what string, fault func()) {
		rows, standbys := slowly(fault)
		for n := 0; !standbys[0] && n < 50; n++ { // a slow machine may begin at the primary
			rows, standbys = slowly(fault)
		}
		require.Equal(t, []bool{true, false}, standbys, what)
		require.Len(t, rows, 200, what)
	}
	check("a conflict with recovery", func() { p.exec(p.primary, `ALTER TABLE written ADD COLUMN IF NOT EXISTS more integer`) })
	check("silence", func() { p.line.Stall(true) })
	p.line.Stall(false)
	check("a broken connection", func() { p.line.Cut() })
	check("a dead standby", func() { p.servers.Standby.Kill() })

	t.Log("a refusal is an answer")
	require.NoError(t, p.servers.Standby.Start(t.Context()))
	p.used(true)
	refused, runs := errs.New(errs.NotFound, "not found"), 0
	err := p.replica.Read(context.Background(), func(ctx context.Context) error {
		runs++
		var n int
		require.NoError(t, pg.Reader(ctx, p.primary).QueryRow(ctx, `SELECT 1`).Scan(&n))
		return refused
	})
	require.ErrorIs(t, err, refused)
	require.Equal(t, 1, runs)

	t.Log("nothing is written at the standby, and a panic gives its connection back")
	for range 10 {
		require.Panics(t, func() {
			_ = p.replica.Read(context.Background(), func(ctx context.Context) error {
				pg.Reader(ctx, p.primary)
				panic("a bug")
			})
		})
	}
	p.used(true)
}

// After a failover the new primary's standby is used; a standby that is away at the start is used
// when it comes.
func TestFailover(t *testing.T) {
	p := start(t)
	both := p.as(p.servers.BothURL(), "")
	p.servers.Standby.Kill()
	p.open(both, both)
	require.False(t, p.writeAndRead())
	require.NoError(t, p.servers.Standby.Start(t.Context()))
	p.used(true)

	p.servers.Postgres.Kill()
	require.NoError(t, p.servers.Promote(t.Context()))
	var err error
	p.primary, err = pg.Open(t.Context(), p.servers.BothURL()+"&target_session_attrs=read-write", 2)
	require.NoError(t, err)
	t.Cleanup(p.primary.Close)
	require.False(t, p.writeAndRead())
	require.NoError(t, p.servers.StartStandby(t.Context()))
	p.used(true)
}

// Without a setting everything is at the primary, and an address that is none is refused.
func TestNoReplica(t *testing.T) {
	t.Parallel()
	var none *replica.Replica
	failed := errors.New("failed")
	runs := 0
	err := none.Read(t.Context(), func(ctx context.Context) error {
		runs++
		require.Nil(t, pg.Reader(ctx, nil), "the primary that was given")
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.Equal(t, 1, runs)
	_, err = replica.Open(t.Context(), replica.Options{URL: "postgres://%zz", Log: slog.New(slog.DiscardHandler)})
	require.Error(t, err)
}
