package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/stack"
)

// formLimit bounds the time in which several Redis processes find one another.
const formLimit = time.Minute

// nodesPassword is what a test's own Redis processes ask for.
const nodesPassword = "pass-of-this-test"

// Sentinels are a master, its replica and three Sentinels, each a process of its own.
type Sentinels struct {
	URL             string // redis://…,…,…/0?master_name=ajo&sentinel_password=…
	Master, Replica *stack.RedisNode
	Sentinels       []*stack.RedisNode
}

// StartSentinels starts them, and returns when the Sentinels know all the others. They are killed
// when t ends.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: node(t, stack.NodeOptions{Password: nodesPassword, Settings: []string{"masterauth " + nodesPassword}})}
	host, port, err := net.SplitHostPort(s.Master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s.Replica = node(t, stack.NodeOptions{Password: nodesPassword, Settings: []string{
		"masterauth " + nodesPassword, "replicaof " + host + " " + port, "repl-diskless-sync-delay 0",
	}})
	var addrs []string
	for range 3 {
		n := node(t, stack.NodeOptions{Sentinel: true, Password: nodesPassword, Settings: []string{
			"sentinel monitor ajo " + host + " " + port + " 2", "sentinel auth-pass ajo " + nodesPassword, "sentinel sentinel-pass " + nodesPassword,
			"sentinel down-after-milliseconds ajo 1500", "sentinel failover-timeout ajo 6000",
		}})
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
	s.URL = fmt.Sprintf("redis://:%s@%s/0?master_name=ajo&sentinel_password=%s", url.QueryEscape(nodesPassword), strings.Join(addrs, ","), url.QueryEscape(nodesPassword))
	return s
}

// Cluster is a Redis Cluster of three masters, each a process of its own.
type Cluster struct {
	URL   string // redis://…,…,…
	Nodes []*stack.RedisNode
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
		n := node(t, stack.NodeOptions{Cluster: true, Password: nodesPassword, Settings: []string{"cluster-node-timeout 3000", "masterauth " + nodesPassword}})
		client := n.Client()
		must(t, client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		must(t, client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		for _, other := range c.Nodes {
			host, port, _ := net.SplitHostPort(other.Addr)
			must(t, client.Do(ctx, "CLUSTER", "MEET", host, port, other.Bus).Err())
		}
		_ = client.Close()
		c.Nodes, addrs = append(c.Nodes, n), append(addrs, n.Addr)
	}
	c.URL = fmt.Sprintf("redis://:%s@%s", url.QueryEscape(nodesPassword), strings.Join(addrs, ","))
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

func node(t testing.TB, o stack.NodeOptions) *stack.RedisNode {
	t.Helper()
	o.Dir = t.TempDir()
	n, err := stack.StartNode(context.Background(), o)
	must(t, err)
	t.Cleanup(n.Kill)
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
}
