package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ajo/internal/supervise"
)

// PostgresNode is one Postgres process, for tests that take it away: it listens on 127.0.0.1, keeps
// its port and its data, and every commit is on disk. On Linux it ends with the process that
// started it. It is not safe for concurrent use.
type PostgresNode struct {
	URL  string // postgres://ajo:…@127.0.0.1:…/ajo?sslmode=disable; the role is a superuser
	s    *Stack
	bin  string
	port int
}

// StartPostgres makes an empty cluster in dir, starts it and returns when it answers. Its owner
// must end it with [PostgresNode.Close].
func StartPostgres(ctx context.Context, dir string, maxConnections int) (*PostgresNode, error) {
	locked, err := lockDir(ctx, dir)
	if err != nil {
		return nil, err
	}
	s := &Stack{opt: Options{Dir: dir, MaxConnections: maxConnections, Log: func(string, ...any) {}}, dir: locked}
	n := &PostgresNode{s: s}
	if err := n.prepare(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return n, nil
}

func (n *PostgresNode) prepare(ctx context.Context) error {
	found, err := locate(ctx, n.s.dir.path, n.s.opt)
	if err != nil {
		return err
	}
	n.bin = found.postgres
	if n.s.account, err = serverAccount(n.s.dir.path); err != nil {
		return err
	}
	if n.s.data, err = placeData(n.s.dir.path, n.s.account, n.s.opt.Log); err != nil {
		return err
	}
	if n.s.password, err = keepPassword(filepath.Join(n.s.data, "password")); err != nil {
		return err
	}
	if err := n.s.initCluster(ctx, n.bin, n.cluster()); err != nil {
		return err
	}
	if n.port, err = supervise.FreePort(); err != nil {
		return err
	}
	n.URL = n.s.databaseURL(n.port, roleAndDB)
	return n.Start(ctx)
}

func (n *PostgresNode) cluster() string { return filepath.Join(n.s.data, "postgres") }

// Start starts a server that was killed or stopped, and returns when it answers, after its
// recovery. What a killed server's processes still hold of its memory is waited for.
func (n *PostgresNode) Start(ctx context.Context) error {
	for begin := time.Now(); ; {
		var err error
		n.s.postgres, err = n.s.account.spawn(n.s.postgresCmd(n.bin, n.cluster(), n.port), postgresName,
			filepath.Join(n.s.dir.path, pgLogName), postgresQuit)
		if err != nil {
			return err
		}
		err = n.s.postgres.Await(ctx, readyTimeout, func(ctx context.Context) error { return n.s.makeDatabase(ctx, n.port) })
		if err == nil || !n.stillHeld() || time.Since(begin) > readyTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stillHeld tells whether the last start failed for what is left of the server before it: its port,
// its memory or its lock.
func (n *PostgresNode) stillHeld() bool {
	text := supervise.Tail(n.s.postgres.Log)
	return n.s.postgres.LostPort() || strings.Contains(text, "pre-existing shared memory block") || strings.Contains(text, "lock file")
}

// Kill is kill -9 of the server; its sessions end when they notice.
func (n *PostgresNode) Kill() { n.s.postgres.Stop(os.Kill, 0) }

// Quit is an immediate shutdown: no checkpoint is written, and the next start recovers.
func (n *PostgresNode) Quit() { n.s.postgres.Stop(postgresQuit, stopTimeout) }

// Close ends the server and removes its data.
func (n *PostgresNode) Close() {
	n.s.end(n.s.postgres, postgresQuit)
	discard(n.s.dir.remove())
	n.s.dir.unlock()
}
