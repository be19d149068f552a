package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/supervise"
	"ajo/internal/testenv"
)

// patroniNode is a Postgres with the Patroni that manages it.
type patroniNode struct {
	name, conf, data, addr, api string
	process                     *supervise.Process
}

// managed is a world on two Postgres servers, of which Patroni makes one the primary.
type managed struct {
	*failovers
	*serverDir
	nodes []*patroniNode
}

const patroniPassword = "of-this-test-alone"

func startManaged(t *testing.T) *managed {
	if os.Getenv("AJO_PATRONI") == "" {
		t.Skip("make failover-patroni runs it, with Patroni and etcd")
	}
	t.Parallel()
	m := &managed{serverDir: newServerDir(t)}
	client, peer := freeAddress(m.t), freeAddress(m.t)
	m.serverDir.start("etcd.log", "etcd", "--name=one", "--data-dir="+m.path("etcd"), "--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=one=http://"+peer)
	shipped, err := os.ReadFile("../../deploy/postgres/patroni.yaml")
	require.NoError(t, err)
	bin := filepath.Dir(testenv.New(t).PostgresTool("postgres"))
	for _, name := range []string{"a", "b"} {
		n := &patroniNode{name: name, data: m.path(name), addr: freeAddress(m.t), api: freeAddress(m.t)}
		n.conf = m.write(name+".yaml", strings.NewReplacer(
			"name: db-1", "name: "+name,
			"10.0.0.1:8008", n.api,
			"10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379", client,
			"10.0.0.1:5432", n.addr,
			"10.0.0.0/24", "127.0.0.1/32",
			"/var/lib/postgresql/17/ajo", n.data,
			"/usr/lib/postgresql/17/bin", bin,
			"/var/lib/postgresql/.pgpass-patroni", m.path(name+".pgpass"),
			"/var/run/postgresql", m.dir,
			"CHANGE-ME", patroniPassword,
			"mode: automatic", "mode: 'off'",
		).Replace(string(shipped)))
		t.Cleanup(func() { m.killPostgres(n) })
		m.startNode(n)
		m.nodes = append(m.nodes, n)
		if name == "a" {
			m.await("a primary", func() bool { return m.primary() == n })
		}
	}
	m.await("a synchronous standby", m.synchronous)
	for _, sql := range []string{"CREATE ROLE ajo LOGIN PASSWORD '" + patroniPassword + "'", "CREATE DATABASE ajo OWNER ajo"} {
		require.NoError(t, m.on(m.primary(), func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, sql)
			return err
		}))
	}
	env := &testenv.Env{T: t}
	env.Redis()
	m.failovers = failoversOn(t, fmt.Sprintf("postgres://ajo:%s@%s,%s/ajo?sslmode=disable", patroniPassword, m.nodes[0].addr, m.nodes[1].addr), env.RedisURL)
	return m
}

func (m *managed) startNode(n *patroniNode) {
	n.process = m.serverDir.start("patroni-"+n.name+".log", "patroni", n.conf)
}

func (m *managed) await(what string, ok func() bool) {
	m.t.Helper()
	testenv.Eventually(m.t, 90*time.Second, what, ok, func() any {
		return supervise.Tail(m.path("patroni-a.log")) + supervise.Tail(m.path("patroni-b.log"))
	})
}

// on connects to a node as its superuser.
func (m *managed) on(n *patroniNode, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", patroniPassword, n.addr))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return fn(ctx, conn)
}

// primary is the node that takes writes; nil when there is none.
func (m *managed) primary() *patroniNode {
	for _, n := range m.nodes {
		standby := true
		err := m.on(n, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
		})
		if err == nil && !standby {
			return n
		}
	}
	return nil
}

// synchronous reports whether Patroni has noted that the standby has all that was committed: until
// then it would not promote it.
func (m *managed) synchronous() bool {
	n := m.primary()
	if n == nil {
		return false
	}
	answer, err := http.Get("http://" + n.api + "/cluster")
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return err == nil && strings.Contains(string(text), `"sync_standby"`)
}

// killPostgres is kill -9 of a node's Postgres, which Patroni has detached from itself.
func (m *managed) killPostgres(n *patroniNode) {
	text, err := os.ReadFile(filepath.Join(n.data, "postmaster.pid"))
	if err != nil {
		return // it does not run
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(m.t, err)
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && strings.Contains(string(command), n.data) { // the number may be another's by now
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// The primary dies under load, again and again: its Postgres alone, or its Patroni too, as with its
// machine. Patroni promotes the synchronous standby. What was answered 200 or 202 is there, once.
// AJO_FAILOVERS says how often (2).
func TestPatroniReplacesThePrimary(t *testing.T) {
	m := startManaged(t)
	m.startWorkers()
	end := m.startLoad()
	times := 2
	if v := os.Getenv("AJO_FAILOVERS"); v != "" {
		var err error
		times, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	const accepted, posted, paid = `SELECT count(*) FROM transfers`, `SELECT count(*) FROM ledger_entries WHERE direction = 'credit'`,
		`SELECT count(*) FROM transfers WHERE status = 'success'`
	for i := range times {
		m.since(time.Now(), "settlements to be accepted", accepted)
		old, what := m.primary(), "Postgres killed"
		died := time.Now()
		if i%2 == 1 {
			what = "Postgres and Patroni killed"
			old.process.Kill()
		}
		m.killPostgres(old)
		m.await("another primary", func() bool { n := m.primary(); return n != nil && n != old })
		promoted := time.Since(died).Round(10 * time.Millisecond)
		t.Logf("%s: promoted after %s, settlements accepted again after %s, payments posted after %s, paid out after %s", what, promoted,
			m.since(died, "settlements to be accepted", accepted), m.since(died, "payments to be posted", posted), m.since(died, "transfers to be paid", paid))
		if i%2 == 1 {
			m.startNode(old)
		}
		m.await("a synchronous standby", m.synchronous)
	}
	end()
	m.checkAll()
}
