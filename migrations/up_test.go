package migrations_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
	"ajo/migrations"
)

// helperURL has this test's program apply filling at that address, and do nothing else: to be
// killed.
const helperURL = "AJO_TEST_MIGRATE"

func TestMain(m *testing.M) {
	if url := os.Getenv(helperURL); url != "" {
		_, err := migrations.Up(context.Background(), url, migrations.Options{Files: slowlyFilling})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// filling makes a table of 30,000 rows and fills a column of it. Each row counts how often it was
// changed.
var filling = fills("")

// slowlyFilling is filling, a tenth of a second and more for each slice: one who looks on sees some
// of them, also on a busy machine.
var slowlyFilling = fills(" AND (SELECT pg_sleep(0.1)) IS NOT NULL")

func fills(where string) fstest.MapFS {
	return files(
		"CREATE TABLE backfills (version bigint PRIMARY KEY, last_key text NOT NULL, row_count bigint NOT NULL, updated_at timestamptz NOT NULL);\n"+
			"CREATE TABLE things (id uuid PRIMARY KEY, changes integer NOT NULL DEFAULT 0);\nINSERT INTO things SELECT gen_random_uuid() FROM generate_series(1, 30000);",
		"-- +ajo BACKFILL things id\nUPDATE things SET changes = changes + 1 WHERE id BETWEEN $1 AND $2"+where+";",
		"CREATE TABLE filled ();",
	)
}

// files are migrations with these statements.
func files(texts ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for i, text := range texts {
		if !strings.HasPrefix(text, "--") {
			text = "-- +goose Up\n" + text
		}
		all[fmt.Sprintf("%04d_file.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func number(t *testing.T, conn *pgx.Conn, sql string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n), sql)
	return n
}

// A backfill goes on where a run ended that was killed: each row is changed once.
func TestBackfillGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	conn := connect(t, url)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperURL+"="+url)
	require.NoError(t, cmd.Start())
	testenv.Eventually(t, 0, "a few slices", func() bool {
		var n int
		return conn.QueryRow(t.Context(), `SELECT row_count FROM backfills`).Scan(&n) == nil && n >= 3000
	})
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	const changed = `SELECT count(*) FROM things WHERE changes = 1`
	before := number(t, conn, changed)
	require.Less(t, before, 30000)

	var said []string
	applied, err := migrations.Up(t.Context(), url, migrations.Options{Files: filling, Log: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }})
	require.NoError(t, err)
	require.Equal(t, []string{"0002_file.sql", "0003_file.sql"}, applied)
	require.Contains(t, said[0], "0002_file.sql: going on after ")
	require.Equal(t, "0002_file.sql: all 30000 rows of things", said[len(said)-1])
	require.Equal(t, 30000, number(t, conn, changed))
	t.Logf("killed after %d rows; then: %q", before, said)
}

// Whoever holds a lock for long makes a migration try again, and nobody waits behind it for longer
// than the lock timeout at a time. An index waits, as nobody waits behind it.
func TestLocksAreGivenUpAndTriedAgain(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	ctx := t.Context()
	steps := files(
		"CREATE TABLE things (id integer);",
		"CREATE TABLE undone (); ALTER TABLE things ADD COLUMN x text;",
		"-- +goose NO TRANSACTION\n-- +goose Up\nDROP INDEX CONCURRENTLY IF EXISTS things_x;\nCREATE INDEX CONCURRENTLY things_x ON things (x);",
	)
	_, err := migrations.Up(ctx, url, migrations.Options{Files: fstest.MapFS{"0001_file.sql": steps["0001_file.sql"]}})
	require.NoError(t, err)
	reader, other := connect(t, url), connect(t, url)
	tx, err := reader.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM things`)
	require.NoError(t, err)

	tried := make(chan string, 100)
	ended := make(chan []string, 1)
	go func() {
		applied, err := migrations.Up(ctx, url, migrations.Options{Files: steps, Log: func(format string, args ...any) { tried <- fmt.Sprintf(format, args...) }})
		if err != nil {
			applied = []string{err.Error()}
		}
		ended <- applied
	}()
	for range 2 {
		require.Contains(t, <-tried, "0002_file.sql: a lock was not granted within 400ms; nothing has changed, trying again")
		require.Zero(t, number(t, other, `SELECT count(*) FROM pg_class WHERE relname = 'undone'`))
		_, err = other.Exec(ctx, `INSERT INTO things VALUES (1)`)
		require.NoError(t, err)
	}
	snapshot, err := connect(t, url).BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = snapshot.Exec(ctx, `SELECT 1`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	testenv.Eventually(t, 0, "the column, then the index waiting for a snapshot that is older", func() bool {
		return number(t, other, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONC%' AND wait_event = 'virtualxid'`) == 1
	})
	_, err = other.Exec(ctx, `INSERT INTO things VALUES (2)`)
	require.NoError(t, err, "nobody waits behind it")
	require.NoError(t, snapshot.Commit(ctx))
	require.Equal(t, []string{"0002_file.sql", "0003_file.sql"}, <-ended)
	require.Equal(t, 1, number(t, other, `SELECT count(*) FROM pg_index WHERE indexrelid = 'things_x'::regclass AND indisvalid`))
}

// Several processes that migrate at once apply each file once.
func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	var all []string
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			applied, err := migrations.Up(t.Context(), url, migrations.Options{Files: filling})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			all = append(all, applied...)
		})
	}
	group.Wait()
	slices.Sort(all)
	require.Equal(t, []string{"0001_file.sql", "0002_file.sql", "0003_file.sql"}, all)
	require.Equal(t, 30000, number(t, connect(t, url), `SELECT count(*) FROM things WHERE changes = 1`))
}
