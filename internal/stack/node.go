package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/supervise"
)

// NodeOptions say what a [RedisNode] is.
type NodeOptions struct {
	Dir      string   // its own; what it keeps and prints goes there
	Password string   // clients need it; empty: none
	Sentinel bool     // it watches others, and keeps no data
	Cluster  bool     // it is a node of a Cluster, yet without slots
	Settings []string // more lines of its configuration file
}

// RedisNode is one Redis process of several, for tests of Sentinel and Cluster: it listens on
// 127.0.0.1, can be killed and started again, and keeps its port. On Linux it ends with the process
// that started it. It is not safe for concurrent use.
type RedisNode struct {
	Addr string // 127.0.0.1:port
	Bus  int    // a Cluster node's second port, for the other nodes
	opt  NodeOptions
	bin  string
	port int
	p    *supervise.Process
}

// StartNode starts a node and returns when it answers. Its owner must end it with [RedisNode.Kill].
func StartNode(ctx context.Context, o NodeOptions) (*RedisNode, error) {
	n := &RedisNode{opt: o, bin: findRedis()}
	if n.bin == "" {
		return nil, errors.New("redis-server is not installed")
	}
	for try := 1; ; try++ {
		var err error
		if n.port, err = supervise.FreePort(); err != nil {
			return nil, err
		}
		if n.Bus, err = supervise.FreePort(); err != nil {
			return nil, err
		}
		n.Addr = "127.0.0.1:" + strconv.Itoa(n.port)
		// Sentinel writes its own findings there
		if err := os.WriteFile(n.file(), []byte(n.settings()), 0o600); err != nil {
			return nil, err
		}
		if err = n.Start(ctx); err == nil {
			return n, nil
		}
		if try == portTries || n.p == nil || !n.p.LostPort() {
			return nil, err
		}
	}
}

func (n *RedisNode) file() string { return filepath.Join(n.opt.Dir, "redis.conf") }

func (n *RedisNode) settings() string {
	lines := []string{"bind 127.0.0.1", "port " + strconv.Itoa(n.port), "dir " + strconv.Quote(n.opt.Dir), "daemonize no", `logfile ""`}
	if n.opt.Password != "" {
		lines = append(lines, "requirepass "+n.opt.Password)
	}
	if !n.opt.Sentinel {
		lines = append(lines, "appendonly yes", "maxmemory-policy noeviction")
	}
	if n.opt.Cluster {
		lines = append(lines, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-announce-ip 127.0.0.1", "cluster-port "+strconv.Itoa(n.Bus))
	}
	return strings.Join(append(lines, n.opt.Settings...), "\n") + "\n"
}

// Start starts a node that was killed, with its port and its data, and returns when it answers.
func (n *RedisNode) Start(ctx context.Context) error {
	args := []string{n.file()}
	if n.opt.Sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command(n.bin, args...)
	cmd.Dir = n.opt.Dir
	var err error
	if n.p, err = (account{}).spawn(cmd, redisName, filepath.Join(n.opt.Dir, redisLog), syscall.SIGKILL); err != nil {
		return err
	}
	if err := n.p.Await(ctx, readyTimeout, func(ctx context.Context) error {
		c := n.Client()
		defer func() { discard(c.Close()) }()
		return c.Ping(ctx).Err()
	}); err != nil {
		n.Kill()
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Kill is kill -9. A node that has ended is killed already.
func (n *RedisNode) Kill() { n.p.Stop(os.Kill, 0) }

// Client returns a client of this one node, whatever it is.
func (n *RedisNode) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: n.Addr, Password: n.opt.Password, MaxRetries: -1, DialTimeout: time.Second})
}
