package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/supervise"
)

// formLimit bounds the time in which several Redis processes find one another.
const formLimit = time.Minute

// nodesPassword is what a test's own Redis processes ask for.
const nodesPassword = "pass-of-this-test"

// RedisNode is one Redis process of several: it listens on 127.0.0.1, can be killed and started
// again, and keeps its port. On Linux it ends with the process that started it. It is not safe for
// concurrent use.
type RedisNode struct {
	Addr      string // 127.0.0.1:port
	URL       string
	port, bus string // bus: a Cluster node's second port, for the other nodes
	dir       string
	args      []string
	p         *supervise.Process
}

// StartRedis starts a Redis of the test's own, which is killed when t ends. settings are more lines
// of its configuration file, of which the last counts.
func StartRedis(t testing.TB, settings ...string) *RedisNode {
	t.Helper()
	n := &RedisNode{dir: t.TempDir(), port: freePort(t), bus: freePort(t)}
	n.Addr = "127.0.0.1:" + n.port
	n.URL = "redis://:" + nodesPassword + "@" + n.Addr
	file := filepath.Join(n.dir, "redis.conf") // Sentinel writes its own findings there
	n.args = []string{file}
	lines := []string{"bind 127.0.0.1", "port " + n.port, "dir " + n.dir, "requirepass " + nodesPassword}
	switch all := strings.Join(settings, "\n"); {
	case strings.Contains(all, "sentinel monitor"):
		n.args = append(n.args, "--sentinel")
	case strings.Contains(all, "cluster-enabled yes"):
		lines = append(lines, "cluster-port "+n.bus)
		fallthrough
	default:
		lines = append(lines, "appendonly yes", "maxmemory-policy noeviction", "masterauth "+nodesPassword)
	}
	must(t, os.WriteFile(file, []byte(strings.Join(append(lines, settings...), "\n")+"\n"), 0o600))
	must(t, n.Start(context.Background()))
	t.Cleanup(n.Kill)
	return n
}

func freePort(t testing.TB) string {
	t.Helper()
	port, err := supervise.FreePort()
	must(t, err)
	return strconv.Itoa(port)
}

// Start starts a node that was killed, with its port and its data, and returns when it answers.
func (n *RedisNode) Start(ctx context.Context) error {
	cmd := exec.Command("redis-server", n.args...)
	var err error
	if n.p, err = supervise.Start(cmd, supervise.Options{Name: "redis", Log: filepath.Join(n.dir, "redis.log")}); err != nil {
		return err
	}
	return n.p.Await(ctx, formLimit, func(ctx context.Context) error {
		c := n.Client()
		defer func() { _ = c.Close() }()
		return c.Ping(ctx).Err()
	})
}

// Kill is kill -9. A node that has ended is killed already.
func (n *RedisNode) Kill() { n.p.Kill() }

// Client returns a client of this one node, whatever it is.
func (n *RedisNode) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: n.Addr, Password: nodesPassword, MaxRetries: -1, DialTimeout: time.Second})
}

// Sentinels are a master, its replica and three Sentinels, each a process of its own.
type Sentinels struct {
	URL             string // redis://…,…,…/0?master_name=ajo&sentinel_password=…
	Master, Replica *RedisNode
	Sentinels       []*RedisNode
}

// StartSentinels starts them, and returns when the Sentinels know all the others. They are killed
// when t ends.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: StartRedis(t)}
	s.Replica = StartRedis(t, "replicaof 127.0.0.1 "+s.Master.port, "repl-diskless-sync-delay 0")
	var addrs []string
	for range 3 {
		n := StartRedis(t, "sentinel monitor ajo 127.0.0.1 "+s.Master.port+" 2", "sentinel auth-pass ajo "+nodesPassword,
			"sentinel sentinel-pass "+nodesPassword, "sentinel down-after-milliseconds ajo 5000", "sentinel failover-timeout ajo 6000")
		s.Sentinels, addrs = append(s.Sentinels, n), append(addrs, n.Addr)
	}
	for _, n := range s.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: n.Addr, Password: nodesPassword})
		Eventually(t, formLimit, "the Sentinels to know one another and the replica", func() bool {
			m, err := c.Master(context.Background(), "ajo").Result()
			return err == nil && m["num-other-sentinels"] == "2" && m["num-slaves"] == "1" && m["flags"] == "master"
		})
		_ = c.Close()
	}
	c := s.Replica.Client()
	defer func() { _ = c.Close() }()
	Eventually(t, formLimit, "the replica to follow", func() bool {
		return strings.Contains(c.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	s.URL = fmt.Sprintf("redis://:%s@%s/0?master_name=ajo&sentinel_password=%s", nodesPassword, strings.Join(addrs, ","), nodesPassword)
	return s
}

// Cluster is a Redis Cluster of three masters, each a process of its own.
type Cluster struct {
	URL   string // redis://…,…,…
	Nodes []*RedisNode
}

// StartCluster starts the nodes, gives each a third of the slots, and returns when they agree. They
// are killed when t ends.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	const slots, masters = 16384, 3
	ctx := context.Background()
	c := &Cluster{}
	var addrs []string
	for i := range masters {
		n := StartRedis(t, "cluster-enabled yes", "cluster-announce-ip 127.0.0.1", "cluster-node-timeout 3000")
		client := n.Client()
		must(t, client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		must(t, client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		for _, other := range c.Nodes {
			must(t, client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port, other.bus).Err())
		}
		_ = client.Close()
		c.Nodes, addrs = append(c.Nodes, n), append(addrs, n.Addr)
	}
	c.URL = fmt.Sprintf("redis://:%s@%s", nodesPassword, strings.Join(addrs, ","))
	c.Await(t)
	return c
}

// Await waits until all nodes say that the cluster is whole.
func (c *Cluster) Await(t testing.TB) {
	t.Helper()
	for _, n := range c.Nodes {
		client := n.Client()
		Eventually(t, formLimit, "the cluster to be whole", func() bool {
			info := client.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") && strings.Contains(info, "cluster_slots_ok:16384")
		})
		_ = client.Close()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
}
