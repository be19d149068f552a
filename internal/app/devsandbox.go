package app

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/internal/supervise"
)

// The sandbox of `ajo dev` is a process of its own, as its metrics and its queues are.
const (
	sandboxDatabase = "ajo_sandbox"
	sandboxRedis    = "/1" // the live one is 0
	sandboxLimit    = time.Minute
	sandboxPatience = 15 * time.Second
)

// startSandbox starts test mode on a database of its own; it is awaited when all else is up.
func (d *devRun) startSandbox(ctx context.Context, s *stack.Stack) error {
	database, err := makeSandboxDatabase(ctx, s.DatabaseURL)
	if err != nil {
		return fmt.Errorf("the sandbox's database: %w", err)
	}
	redis, err := url.Parse(s.RedisURL)
	if err != nil {
		return err
	}
	redis.Path = sandboxRedis
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "sandbox")
	for name, value := range map[string]string{
		"AJO_HTTP_ADDR": strings.TrimPrefix(d.cfg.TestURL, "http://"), "AJO_OPS_ADDR": "127.0.0.1:0", "AJO_DRAIN": "0s",
		"AJO_DATABASE_URL": database, "AJO_REDIS_URL": redis.String(), "AJO_ENCRYPTION_KEYS": d.cfg.EncryptionKeys.Reveal(),
		"AJO_TEST_SECRET": d.cfg.TestSecret.Reveal(), "AJO_SPOOL_DIR": filepath.Join(d.Dir, "sandbox", "spool"),
	} {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	d.test, err = supervise.Start(cmd, supervise.Options{Name: "ajo sandbox", Log: filepath.Join(d.Dir, "sandbox.log"), Death: syscall.SIGTERM})
	if err == nil {
		d.stops = append(d.stops, func() { d.test.Stop(syscall.SIGTERM, sandboxPatience) })
	}
	return err
}

// makeSandboxDatabase makes the database beside the live one, unless it is there, and returns its
// URL.
func makeSandboxDatabase(ctx context.Context, live string) (string, error) {
	u, err := url.Parse(live)
	if err != nil {
		return "", err
	}
	u.Path = "/" + sandboxDatabase
	pool, err := pg.Open(ctx, live, 2)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	var there bool
	err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, sandboxDatabase).Scan(&there)
	if err == nil && !there {
		_, err = pool.Exec(ctx, `CREATE DATABASE `+sandboxDatabase)
	}
	return u.String(), err
}
