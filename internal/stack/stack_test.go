package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/supervise"
)

// helperDir, when set, makes the test binary start a stack there, print its record, and wait to be
// killed.
const helperDir = "AJO_STACK_HELPER_DIR"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(helperDir)
	if !ok {
		os.Exit(m.Run())
	}
	if _, err := Start(context.Background(), Options{Dir: dir}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	b, err := os.ReadFile(recordPath(dir))
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(string(b))
	select {}
}

// reachableDir is a directory that any user may enter; t.TempDir is not one.
func reachableDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "ajo-stack")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, Reset(dir)) })
	return dir
}

func start(t *testing.T, o Options) *Stack {
	t.Helper()
	o.Log = t.Logf
	s, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func dbExec(t *testing.T, s *Stack, sql string) {
	t.Helper()
	require.NoError(t, tryExec(t, s, sql))
}

func tryExec(t *testing.T, s *Stack, sql string) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	_, err = c.Exec(t.Context(), sql)
	return err
}

func show(t *testing.T, s *Stack, setting string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close(t.Context())) }()
	var v string
	require.NoError(t, c.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&v))
	return v
}

func redisClient(t *testing.T, s *Stack) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.RedisURL)
	require.NoError(t, err)
	c := redis.NewClient(opt)
	t.Cleanup(func() { discard(c.Close()) })
	return c
}

func readRecord(t *testing.T, dir string) record {
	t.Helper()
	b, err := os.ReadFile(recordPath(dir))
	require.NoError(t, err)
	var r record
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Servers, 2)
	return r
}

func requireGone(t *testing.T, r record) {
	t.Helper()
	for _, p := range r.Servers {
		require.Eventuallyf(t, func() bool { return birth(p.PID) != p.Born }, 2*time.Minute, 20*time.Millisecond,
			"%s (process %d) still runs", p.Name, p.PID)
	}
}

func TestDurableStackFindsItsDataAgain(t *testing.T) {
	t.Parallel()
	o := Options{Dir: filepath.Join(reachableDir(t), "dev"), MaxConnections: 77}
	s := start(t, o)
	dbExec(t, s, "CREATE TABLE kept AS SELECT 42 AS n")
	require.NoError(t, redisClient(t, s).Set(t.Context(), "kept", "42", 0).Err())
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "77",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8", "TimeZone": "UTC",
	} {
		require.Equal(t, want, show(t, s, setting), setting)
	}
	for setting, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "databases": "4096", "bind": "127.0.0.1",
	} {
		require.Equal(t, want, redisClient(t, s).ConfigGet(t.Context(), setting).Val()[setting], setting)
	}
	running := readRecord(t, s.dir.path)
	s.Stop()
	s.Stop()
	requireGone(t, running)

	s = start(t, o)
	dbExec(t, s, "INSERT INTO kept VALUES (43)")
	require.Equal(t, "42", redisClient(t, s).Get(t.Context(), "kept").Val())
	require.NotContains(t, supervise.Tail(s.Postgres.p.Log), "was not properly shut down")
}

func TestServersWantThePassword(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: filepath.Join(reachableDir(t), "test"), Ephemeral: true})
	_, err := pgx.Connect(t.Context(), strings.Replace(s.DatabaseURL, s.password, "guess", 1))
	require.ErrorContains(t, err, "28P01")
	opt, err := redis.ParseURL(s.RedisURL)
	require.NoError(t, err)
	opt.Password = ""
	c := redis.NewClient(opt)
	defer func() { require.NoError(t, c.Close()) }()
	require.ErrorContains(t, c.Ping(t.Context()).Err(), "NOAUTH")
	fi, err := os.Stat(filepath.Join(s.data, "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
}

func TestOneStackADirectory(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	o := Options{Dir: filepath.Join(dir, "dev")}
	s := start(t, o)
	_, err := Start(t.Context(), o)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, fmt.Sprintf("process %d", os.Getpid()))
	require.ErrorIs(t, Reset(o.Dir), ErrInUse)
	require.ErrorIs(t, Reset(dir), ErrInUse, "the directory above holds it")
	dbExec(t, s, "SELECT 1")

	s.Stop()
	require.NoError(t, Reset(dir))
	require.NoDirExists(t, dir)
	require.NoError(t, Reset(dir), "nothing there is no error")
}

func TestEphemeralStackLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := reachableDir(t)
	o := Options{Dir: filepath.Join(dir, "test", "1"), Ephemeral: true}
	room := roomInMemory()
	s := start(t, o)
	require.Equal(t, "off", show(t, s, "fsync"))
	dbExec(t, s, "CREATE TABLE gone (n int)")
	running, data := readRecord(t, s.dir.path), s.data
	if room && roomInMemory() { // before, and still: others fill it, too
		require.Equal(t, memoryDir(s.dir.path), data)
	}
	s.Stop()
	requireGone(t, running)
	require.NoDirExists(t, data)
	require.NoDirExists(t, o.Dir)

	// What is not the stack's stays.
	require.NoError(t, os.MkdirAll(o.Dir, 0o755))
	mine := filepath.Join(o.Dir, "notes.txt")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	s = start(t, o)
	require.Error(t, tryExec(t, s, "INSERT INTO gone VALUES (1)"))
	s.Stop()
	entries, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.FileExists(t, mine)
}

// killedHelper starts a stack in a process of its own and kills that process.
func killedHelper(t *testing.T, dir string) record {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, line)
	var r record
	require.NoError(t, json.Unmarshal([]byte(line), &r), line)
	for _, p := range r.Servers {
		require.Equal(t, p.Born, birth(p.PID), "it runs, and the record names it")
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	return r
}

func TestServersEndWithAKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a death signal; the next start stops them elsewhere")
	}
	dir := filepath.Join(reachableDir(t), "dev")
	requireGone(t, killedHelper(t, dir))
}

// On any system, a start right after a crash must neither fail nor run beside the old servers.
func TestStartAfterAKilledParent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "dev")
	old := killedHelper(t, dir)
	s := start(t, Options{Dir: dir})
	for _, p := range old.Servers {
		require.NotEqual(t, p.Born, birth(p.PID), p.Name)
	}
	dbExec(t, s, "SELECT 1")
	require.NotContains(t, supervise.Tail(s.Postgres.p.Log), "was not properly shut down", "the death signal is the orderly one")
}

func TestLeftoversAreStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Two that nobody's death ends: one obeys the signal, the other must be told apart as not ours.
	ours, other := exec.Command("sleep", "600"), exec.Command("sleep", "600")
	for _, c := range []*exec.Cmd{ours, other} {
		require.NoError(t, c.Start())
		go func() { discard(c.Wait()) }()
		t.Cleanup(func() { discard(c.Process.Kill()) })
	}
	write := func(r record) {
		b, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(recordPath(dir), b, 0o600))
	}
	born := func(c *exec.Cmd) string { return birth(c.Process.Pid) }
	servers := []running{
		{Name: redisName, PID: ours.Process.Pid, Born: born(ours)},
		// the number is used again
		{Name: postgresName, PID: other.Process.Pid, Born: "another boot/1"},
	}

	write(record{Dir: "/the/original/of/a/copy", Servers: servers})
	require.NoError(t, stopLeftovers(t.Context(), dir, t.Logf))
	require.NotEmpty(t, born(ours), "a copied directory's record is not acted on")

	write(record{Dir: dir, Servers: servers})
	require.NoError(t, stopLeftovers(t.Context(), dir, t.Logf))
	require.Empty(t, born(ours))
	require.NotEmpty(t, born(other))
	require.NoFileExists(t, recordPath(dir))
}

// The death signal follows the thread that forked. Threads that end, as Go's do, must not take the
// servers along.
func TestServersOutliveOtherThreads(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: filepath.Join(reachableDir(t), "test"), Ephemeral: true})
	ended := make(chan struct{})
	for range 64 {
		go func() {
			runtime.LockOSThread() // not given back: the thread ends with this goroutine
			ended <- struct{}{}
		}()
	}
	for range 64 {
		<-ended
	}
	dbExec(t, s, "SELECT 1")
	require.NoError(t, redisClient(t, s).Ping(t.Context()).Err())
	select {
	case err := <-s.Failed():
		require.NoError(t, err)
	default:
	}
}

func TestFailedTellsOfAServerThatDied(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: filepath.Join(reachableDir(t), "test"), Ephemeral: true})
	require.NoError(t, syscall.Kill(s.Redis.p.PID, syscall.SIGKILL))
	select {
	case err := <-s.Failed():
		require.ErrorContains(t, err, "redis")
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
}

func TestUnreachableDirectoryOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root only: others run Postgres as themselves")
	}
	dir := filepath.Join(t.TempDir(), "closed", "dev")
	require.NoError(t, os.Mkdir(filepath.Dir(dir), 0o700))
	o := Options{Dir: dir}
	s := start(t, o)
	far := farDir(s.dir.path)
	require.Equal(t, far, s.data)
	link, err := os.Readlink(filepath.Join(dir, dataName))
	require.NoError(t, err)
	require.Equal(t, far, link)
	dbExec(t, s, "CREATE TABLE kept (n int)")
	s.Stop()

	s = start(t, o)
	dbExec(t, s, "INSERT INTO kept VALUES (1)")
	s.Stop()
	require.NoError(t, os.Remove(filepath.Join(dir, dataName))) // as git clean does
	s = start(t, o)
	require.Error(t, tryExec(t, s, "INSERT INTO kept VALUES (1)"), "a link that was deleted means: begin anew")
	s.Stop()
	require.NoError(t, Reset(dir))
	require.NoDirExists(t, far)
	require.NoDirExists(t, dir)

	o.Ephemeral = true
	s = start(t, o)
	require.DirExists(t, s.data)
	s.Stop()
	require.NoDirExists(t, s.data)
	require.NoDirExists(t, far)
	require.NoDirExists(t, dir)
}

func TestFailureShowsTheLog(t *testing.T) {
	t.Parallel()
	o := Options{Dir: filepath.Join(reachableDir(t), "dev")}
	s := start(t, o)
	s.Stop()
	require.NoError(t, os.Remove(filepath.Join(s.data, "postgres", "global", "pg_control")))
	_, err := Start(t.Context(), o)
	require.ErrorContains(t, err, "pg_control")

	require.NoError(t, os.WriteFile(filepath.Join(s.data, "postgres", "PG_VERSION"), []byte("13\n"), 0o600))
	_, err = Start(t.Context(), o)
	require.ErrorContains(t, err, "made by PostgreSQL 13")
}

func TestStartObeysItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := filepath.Join(reachableDir(t), "test")
	_, err := Start(ctx, Options{Dir: dir, Ephemeral: true, Log: func(format string, _ ...any) {
		if strings.HasPrefix(format, "making") {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, dir)
}

func TestVersionMajor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 19beta1\n":                        19,
		"postgres (PostgreSQL) 9.6.24\n":                         9,
		"something else":                                         0,
		"":                                                       0,
	} {
		require.Equal(t, want, versionMajor(text), text)
	}
}

func TestInstallAdvice(t *testing.T) {
	t.Parallel()
	if _, ok := findManager(); !ok {
		t.Skip("no package manager here")
	}
	err := install(t.Context(), []string{needRedis}, filepath.Join(t.TempDir(), installLog), Options{})
	require.Error(t, err)
	require.Regexp(t, `^missing: Redis; run: \S.* \S+$`, err.Error(), "one line, and a command to run")
	require.False(t, errors.Is(err, ErrInUse))
}
