package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/invariant"
	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/internal/supervise"
	"ajo/internal/testenv"
)

// serverDir is a folder of the account that Postgres runs as, and runs programs as that account.
type serverDir struct {
	t        *testing.T
	dir      string
	who      *syscall.Credential
	password string // of Postgres, for programs that connect
}

func newServerDir(t *testing.T) *serverDir {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "ajo-") // short: a socket lies in it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &serverDir{t: t, dir: dir}
	if os.Geteuid() != 0 {
		return p
	}
	u, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	p.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	p.own(dir)
	return p
}

func (p *serverDir) own(path string) {
	p.t.Helper()
	if p.who != nil {
		require.NoError(p.t, os.Chown(path, int(p.who.Uid), int(p.who.Gid)))
	}
}

func (p *serverDir) path(name string) string { return filepath.Join(p.dir, name) }

func (p *serverDir) write(name, text string) string {
	p.t.Helper()
	file := p.path(name)
	require.NoError(p.t, os.WriteFile(file, []byte(text), 0o600))
	p.own(file)
	return file
}

// start starts a program that ends with the test.
func (p *serverDir) start(log string, program string, args ...string) *supervise.Process {
	p.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + p.dir, "PGPASSWORD=" + p.password}
	run, err := supervise.Start(cmd, supervise.Options{Name: program, Log: p.path(log), User: p.who, Death: syscall.SIGTERM})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { run.Stop(syscall.SIGINT, 20*time.Second) })
	return run
}

// run runs a program to its end, which must be a good one.
func (p *serverDir) run(program string, args ...string) {
	p.t.Helper()
	r := p.start(filepath.Base(program)+".log", program, args...)
	<-r.Done()
	require.NoError(p.t, r.Err(), "%s %v\n%s", program, args, supervise.Tail(r.Log))
}

// backups is a Postgres whose WAL goes to pgBackRest, configured as deploy/postgres has it.
type backups struct {
	*failovers
	*serverDir
	conf string
}

func startBackups(t *testing.T) *backups {
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		t.Skip("make drill installs pgBackRest and runs it")
	}
	t.Parallel()
	b := &backups{serverDir: newServerDir(t)}
	b.conf = b.path("pgbackrest.conf")
	settings := []string{"unix_socket_directories=" + b.dir}
	text, err := os.ReadFile("../../deploy/postgres/archive.conf")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && !strings.HasPrefix(line, "#") {
			value = strings.Trim(value, "'")
			settings = append(settings, name+"="+strings.Replace(value, "pgbackrest ", "pgbackrest --config="+b.conf+" ", 1))
		}
	}
	require.Len(t, settings, 5)
	servers := ownServers(t, stack.Options{MaxConnections: 100, PostgresSettings: settings})
	u, err := url.Parse(servers.DatabaseURL)
	require.NoError(t, err)
	b.password, _ = u.User.Password()
	text, err = os.ReadFile("../../deploy/postgres/pgbackrest.conf")
	require.NoError(t, err)
	conf := strings.NewReplacer(
		"/var/lib/pgbackrest", b.path("repo"),
		"log-path=/var/log/pgbackrest", "log-path="+b.path("log")+"\nlock-path="+b.path("lock"),
		"/var/lib/postgresql/17/main", b.dataOf(servers.DatabaseURL),
	).Replace(string(text))
	b.write("pgbackrest.conf", conf+"pg1-socket-path="+b.dir+"\npg1-port="+u.Port()+"\npg1-user=ajo\n")
	b.failovers = failoversOn(t, servers.DatabaseURL, servers.RedisURL)
	b.servers = servers
	return b
}

func (b *backups) dataOf(databaseURL string) (dir string) {
	conn, err := pgx.Connect(context.Background(), databaseURL)
	require.NoError(b.t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.NoError(b.t, conn.QueryRow(context.Background(), `SHOW data_directory`).Scan(&dir))
	return dir
}

func (b *backups) pgbackrest(args ...string) {
	b.t.Helper()
	b.serverDir.run("pgbackrest", append([]string{"--config=" + b.conf, "--stanza=ajo"}, args...)...)
}

// restore brings the books back as they were at a moment, on another port, and returns their
// address. It takes the commands of deploy/runbook.md.
func (b *backups) restore(moment string) string {
	t := b.t
	t.Helper()
	data := b.path("restored")
	require.NoError(t, os.Mkdir(data, 0o700))
	b.own(data)
	b.pgbackrest("--type=time", "--target="+moment, "--target-action=promote", "--pg1-path="+data, "restore")
	port, err := supervise.FreePort()
	require.NoError(t, err)
	b.serverDir.start("restored.log", b.PostgresTool("postgres"), "-D", data, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "max_connections=100", "-c", "archive_mode=off")
	u, err := url.Parse(b.servers.DatabaseURL)
	require.NoError(t, err)
	u.Host = "127.0.0.1:" + strconv.Itoa(port)
	testenv.Eventually(t, time.Minute, "the restored server to take writes", func() bool {
		conn, err := pgx.Connect(context.Background(), u.String())
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close(context.Background()) }()
		recovering := true
		return conn.QueryRow(context.Background(), `SELECT pg_is_in_recovery()`).Scan(&recovering) == nil && !recovering
	}, func() any { return supervise.Tail(b.path("restored.log")) })
	return u.String()
}

// Somebody destroys the books under load. They are restored to just before that from a base backup
// and the WAL that was kept: all that was answered until then is there, once. What the bank's list
// has of the time after it comes back by reconciliation. AJO_DRILL_PAYMENTS says how much WAL there
// is to replay.
func TestPointInTime(t *testing.T) {
	b := startBackups(t)
	b.pgbackrest("stanza-create")
	b.pgbackrest("check")
	b.startWorkers()
	end := b.startLoad()
	b.pgbackrest("--type=full", "backup")
	backedUp, more := b.progress().posted, 50
	if v := os.Getenv("AJO_DRILL_PAYMENTS"); v != "" {
		var err error
		more, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	b.eventually("payments and settlements after the backup", func() bool {
		return b.progress().posted > backedUp+more && b.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) > 10
	})
	end()
	var events, payouts []string
	b.events.Range(func(id, _ any) bool { events = append(events, id.(string)); return true })
	b.payouts.Range(func(_, ref any) bool { payouts = append(payouts, ref.(string)); return true })
	moment := testenv.Value[string](b.Env, `SELECT clock_timestamp()::text`)

	ctx, cancel := context.WithCancel(context.Background())
	later := make(chan struct{})
	go func() {
		b.pays(ctx)
		close(later)
	}()
	b.eventually("payments after the moment", func() bool {
		return b.count(`SELECT count(*) FROM ledger_entries WHERE created_at > $1::timestamptz`, moment) > 10
	})
	b.Exec(`DROP TABLE ledger_entries CASCADE`)
	cancel()
	<-later
	for _, p := range b.procs {
		p.Kill()
	}
	switched := testenv.Value[string](b.Env, `SELECT pg_walfile_name(pg_switch_wal())`)
	b.eventually("the last WAL to be kept", func() bool {
		return b.count(`SELECT count(*) FROM pg_stat_archiver WHERE last_archived_wal >= $1`, switched) == 1
	})

	begin := time.Now()
	b.settings["AJO_DATABASE_URL"] = b.restore(moment)
	restored := time.Since(begin)
	var err error
	b.Pool, err = pg.Open(context.Background(), b.settings["AJO_DATABASE_URL"], 4)
	require.NoError(t, err)
	t.Cleanup(b.Pool.Close)
	require.Equal(t, result{0, "the schema is up to date\n"}, runToEnd(t, b.world.dir, map[string]string{"AJO_DATABASE_URL": b.settings["AJO_DATABASE_URL"]}, "migrate"))
	verified := runToEnd(t, b.world.dir, b.settings, "ledger", "verify", "--full")
	require.Zero(t, verified.code, verified.out)
	testenv.FindsNothing(t, b.Pool, invariant.Verify)
	require.Zero(t, b.count(`SELECT count(*) FROM ledger_entries WHERE created_at > $1::timestamptz`, moment), "nothing of what came after")
	require.Equal(t, len(events), b.count(`SELECT count(*) FROM inbound_events WHERE provider_txn_ref = ANY($1) AND status IN ('received', 'processed')`, events))
	require.Equal(t, len(payouts), b.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = ANY($1)`, payouts))

	b.flush()
	b.startAPI()
	b.startWorker("ingest,confirm,deliver,expire")
	report := runToEnd(t, b.world.dir, b.settings, "reconcile", "--from", "1h", "--json")
	require.NotContains(t, report.out, `"unknown_payout"`)
	b.startWorker("settle")
	b.checkAll()
	t.Logf("%d events and %d settlements before the moment were there %s after the restore began; all %d payments in %s", len(events), len(payouts),
		restored.Round(10*time.Millisecond), len(b.bank.Transactions()), time.Since(begin).Round(10*time.Millisecond))
}
