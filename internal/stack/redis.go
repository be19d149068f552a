package stack

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	redisName = "redis"
	redisStop = syscall.SIGTERM // writes what is not on disk yet, and ends
)

// startRedis starts the server. What it keeps is append-only and synced every second; an ephemeral
// one keeps nothing.
func (s *Stack) startRedis(ctx context.Context, bin string) error {
	dir := filepath.Join(s.data, "redis")
	if err := s.account.makeDir(dir); err != nil {
		return err
	}
	s.Redis = &Server{name: redisName, log: redisLog, stack: s, ready: s.pingRedis, stop: redisStop}
	s.Redis.cmd = func(port int) *exec.Cmd {
		// settings on stdin: an argument would show the password to the whole machine
		cmd := exec.Command(bin, "-")
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader(s.redisSettings(dir, port))
		return cmd
	}
	err := s.Redis.startFirst(ctx)
	s.RedisURL = s.redisURL(s.Redis.port)
	return err
}

func (s *Stack) redisURL(port int) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("", s.password), Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/0"}
	return u.String()
}

func (s *Stack) redisSettings(dir string, port int) string {
	appendOnly := "yes"
	if s.opt.Ephemeral {
		appendOnly = "no"
	}
	lines := []string{
		"bind 127.0.0.1",
		"port " + strconv.Itoa(port),
		"requirepass " + s.password,
		"databases 4096", // a test takes one for itself
		"dir " + strconv.Quote(dir),
		`save ""`, // the append-only file is the record; snapshots beside it would only cost
		"appendonly " + appendOnly,
		"appendfsync everysec",
		"maxmemory-policy noeviction", // an evicted key is a lost task
		"daemonize no",
		`logfile ""`,
	}
	return strings.Join(lines, "\n") + "\n"
}

// pingRedis asks whether the server answers and has loaded its data.
func (s *Stack) pingRedis(ctx context.Context, port int) error {
	opt, err := redis.ParseURL(s.redisURL(port))
	if err != nil {
		return fmt.Errorf("redis address: %w", err)
	}
	opt.MaxRetries, opt.DialTimeout, opt.ReadTimeout = -1, time.Second, 5*time.Second
	c := redis.NewClient(opt)
	defer func() { discard(c.Close()) }()
	return c.Ping(ctx).Err()
}
