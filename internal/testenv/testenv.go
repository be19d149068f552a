// Package testenv gives each test a database, a Redis and a clock of its own, all real.
//
// The servers come from `ajo stack` (make test), which names them in AJO_TEST_DATABASE_URL and
// AJO_TEST_REDIS_URL. A test that has no servers fails; it is never skipped. Each test's database
// is a clone of a migrated template, and its Redis is a database number of its own, so tests run in
// parallel without seeing one another.
package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"ajo/internal/clock"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/migrations"
)

// Epoch is the time at which every test's clock starts.
var Epoch = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// redisDatabases is how many database numbers the test Redis has (`ajo stack` starts it with 4096).
const redisDatabases = 4096

// Passwords cost next to nothing in tests.
func init() { secret.CheapHashes(true) }

// FewChecks has the properties of a package tried 20 times each, not 100, where each try is dear:
// it asks a database a hundred things, or makes a page. Every run draws anew, and -rapid.checks
// asks for more (make test-properties). It is for the init of a package's tests.
func FewChecks() {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
}

// Env is one test's own world.
type Env struct {
	T           testing.TB
	Pool        *pg.Pool
	DatabaseURL string
	RedisURL    string
	Clock       *clock.Fake
}

// New clones the template database, reserves a Redis database and starts a clock at [Epoch]. All is
// removed when t ends.
func New(t testing.TB) *Env {
	t.Helper()
	e := &Env{T: t, Clock: clock.NewFake(Epoch), DatabaseURL: cloneDatabase(t)}
	settings, err := pg.OpenStandby(context.Background(), e.DatabaseURL, 8) // it connects to nothing
	must(t, err)
	settings.Close()
	e.Pool = settings
	seen := &batched{in: map[*pgx.Conn]bool{}}
	e.Pool = e.traced(seen.note)
	t.Cleanup(func() {
		e.Pool.Close()
		seen.check(t)
	})
	return e
}

// Redis reserves a Redis database for the test, on the first call, and returns a client of it.
func (e *Env) Redis() *redis.Client {
	e.T.Helper()
	if e.RedisURL == "" {
		e.RedisURL = reserveRedis(e.T)
	}
	opts, err := redis.ParseURL(e.RedisURL)
	must(e.T, err)
	c := redis.NewClient(opts)
	e.T.Cleanup(func() { _ = c.Close() })
	return c
}

func serverURL(t testing.TB, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("testenv: %s is not set; run the tests with `make test`, or one package with `bin/ajo stack -- go test ./ledger`", name)
	}
	return v
}

// withDatabase is the address of a database of the server. A busy machine is no dead server, so
// that statements, waits for locks and connections may take much longer than the service lets them,
// and a transaction may be idle for as long as a test waits in it ([Env.Meanwhile]).
func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + name
	q := u.Query()
	q.Set("connect_timeout", "60")      // seconds
	q.Set("statement_timeout", "60000") // milliseconds, as the others
	q.Set("lock_timeout", "60000")
	q.Set("idle_in_transaction_session_timeout", "120000")
	u.RawQuery = q.Encode()
	return u.String()
}

var (
	templateOnce sync.Once
	templateName string
	errTemplate  error
	// copying files takes a third of the time that copying by way of the log takes
	copyFiles string // "" before Postgres 15, which does nothing else
)

func cloneDatabase(t testing.TB) string {
	t.Helper()
	server := serverURL(t, "AJO_TEST_DATABASE_URL")
	templateOnce.Do(func() {
		templateName, errTemplate = makeTemplate(t, server)
	})
	if errTemplate != nil {
		t.Fatalf("testenv: template: %v", errTemplate)
	}
	return makeDatabase(t, server, ` TEMPLATE `+templateName+copyFiles)
}

// EmptyDatabase makes a database without a schema, for a test of migrations, and returns its URL.
// It is removed when t ends.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	return makeDatabase(t, serverURL(t, "AJO_TEST_DATABASE_URL"), "")
}

func makeDatabase(t testing.TB, server, from string) string {
	t.Helper()
	name := "ajo_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	admin(t, `CREATE DATABASE `+name+from)
	t.Cleanup(func() { admin(t, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)) })
	return withDatabase(t, server, name)
}

// admins are the connections that make and drop databases: each has as much to read at its start as
// it then does.
var admins = sync.OnceValues(func() (*pgxpool.Pool, error) {
	return pgxpool.New(context.Background(), os.Getenv("AJO_TEST_DATABASE_URL"))
})

func admin(t testing.TB, sql string) {
	t.Helper()
	pool, err := admins()
	if err == nil {
		_, err = pool.Exec(context.Background(), sql)
	}
	if err != nil {
		t.Fatalf("testenv: %s: %v", sql, err)
	}
}

// makeTemplate migrates a database that is named after the migrations' content, once for all test
// processes.
func makeTemplate(t testing.TB, server string) (string, error) {
	ctx := context.Background()
	digest, err := migrations.Digest()
	if err != nil {
		return "", err
	}
	name := "ajo_template_" + digest[:12]
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close(ctx) }()
	if err := c.QueryRow(ctx, `SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY file_copy' ELSE '' END`).Scan(&copyFiles); err != nil {
		return "", err
	}
	const templateLock = 7101 // any number that nothing else locks
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return "", err
	}
	var ready bool
	if err := c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&ready); err != nil || ready {
		return name, err
	}
	building := name + "_building"
	url := withDatabase(t, server, building)
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + building, "CREATE DATABASE " + building} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	if _, err := migrations.Up(ctx, url, migrations.Options{}); err != nil {
		return "", err
	}
	if err := makePartitions(ctx, url); err != nil {
		return "", err
	}
	for _, suffix := range planDatabases {
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + suffix, "CREATE DATABASE " + name + suffix + " TEMPLATE " + building + copyFiles} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return "", err
			}
		}
	}
	v, err := pgx.Connect(ctx, withDatabase(t, server, name+vacuumedPlans))
	if err != nil {
		return "", err
	}
	_, err = v.Exec(ctx, "VACUUM ANALYZE "+emptied)
	if err = errors.Join(err, v.Close(ctx)); err != nil {
		return "", err
	}
	_, err = c.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", building, name))
	return name, err
}

// makePartitions makes partitions for the machine's time, by which ids are made.
func makePartitions(ctx context.Context, url string) error {
	pool, err := pg.Open(ctx, url, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	return partition.MakeAhead(ctx, pool, partition.Month, time.Now())
}

// sharedRedis is the database that all test processes have in common, and its URL.
func sharedRedis(t testing.TB) (*redis.Client, string) {
	t.Helper()
	server := serverURL(t, "AJO_TEST_REDIS_URL")
	opts, err := redis.ParseURL(server)
	must(t, err)
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() })
	return c, server
}

func reserveRedis(t testing.TB) string {
	t.Helper()
	c, server := sharedRedis(t)
	ctx, opts := context.Background(), c.Options()
	n, err := c.Incr(ctx, "ajo:testenv:next").Result()
	must(t, err)
	number := n%(redisDatabases-1) + 1
	u, _ := url.Parse(server)
	u.Path = fmt.Sprintf("/%d", number)
	own := redis.NewClient(&redis.Options{Addr: opts.Addr, Username: opts.Username, Password: opts.Password, DB: int(number)})
	defer func() { _ = own.Close() }()
	must(t, own.FlushDB(ctx).Err())
	return u.String()
}

// Eventually waits until ok answers true and fails the test after limit, and not before half a
// minute: a limit is for what never comes, not for a machine that is slow. It is how every test
// waits. It asks every few milliseconds at first, and less often the longer it waits: what is asked
// is mostly Postgres, by many tests at once. The failure names what was waited for and shows what
// there was instead, which had tells; had is called after the limit, and must not fail the test
// itself.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool, had ...func() any) {
	t.Helper()
	limit = max(limit, 30*time.Second)
	begin := time.Now()
	for {
		waited := time.Since(begin) // till it was asked: an answer that was long under way may be out of date
		if ok() {
			return
		}
		if waited > limit {
			t.Fatalf("waited %s for: %s%s", limit, what, instead(had))
		}
		time.Sleep(min(max(waited/20, 5*time.Millisecond), 50*time.Millisecond))
	}
}

// AtOnce calls do n times at once, each time with its number, and returns when all calls have.
func AtOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// instead is what there was when a wait failed, one line or more for each part.
func instead(had []func() any) string {
	var b strings.Builder
	for _, f := range had {
		fmt.Fprintf(&b, "\nthere was: %+v", f())
	}
	return b.String()
}
