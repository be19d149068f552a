package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/stack"
)

// servers are the Postgres and the Redis that all rows run on.
type servers struct {
	dir           string // for logs, mails, spools and the keys; absolute
	bin           string // the built binary; absolute
	admin         *pg.Pool
	databaseURL   string
	redisURL      string
	redis         *redis.Client
	encryptionKey string
	prefix        string // of the databases' names
	stop          func()
	say           func(format string, args ...any) // a line of progress
}

// shippedForm finds what deploy/compose.yaml sets of what decides how much is written ahead.
var shippedForm = regexp.MustCompile(`(?m)^ +- ((?:shared_buffers|max_wal_size|checkpoint_timeout|wal_compression)=\S+)$`)

// postgres are the settings of the run's Postgres, where they are not the default.
func (o options) postgres() (settings []string, err error) {
	if o.pg != "" {
		settings = strings.Split(o.pg, ",")
	} else if o.scale {
		b, err := os.ReadFile("deploy/compose.yaml")
		if err != nil {
			return nil, err
		}
		for _, m := range shippedForm.FindAllSubmatch(b, -1) {
			settings = append(settings, string(m[1]))
		}
	}
	if o.profile || o.scale {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements")
	}
	if o.profile {
		settings = append(settings, "pg_stat_statements.track_planning=on", "track_io_timing=on")
	}
	return settings, nil
}

// startServers runs a stack of the bench's own, durable as a production server is by default: fsync
// and synchronous_commit on, full_page_writes on, Redis with an append-only file that is synced
// every second. Its data stay in dir for the next run.
func startServers(ctx context.Context, dir, bin string, settings []string, say func(string, ...any)) (*servers, error) {
	s, err := stack.Start(ctx, stack.Options{Dir: filepath.Join(dir, "stack"), PostgresSettings: settings, Install: true, Log: say})
	if err != nil {
		return nil, err
	}
	found, err := useServers(ctx, dir, bin, s.DatabaseURL, s.RedisURL, say)
	if err != nil {
		s.Stop()
		return nil, err
	}
	closePools := found.stop
	found.stop = func() { closePools(); s.Stop() }
	return found, nil
}

// useServers is startServers with servers that run already, as a test has them.
func useServers(ctx context.Context, dir, bin, databaseURL, redisURL string, say func(string, ...any)) (*servers, error) {
	s := &servers{dir: dir, bin: bin, databaseURL: databaseURL, redisURL: redisURL, prefix: "bench", say: say}
	var err error
	if s.admin, err = pg.Open(ctx, databaseURL, 4); err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, err
	}
	s.redis = redis.NewClient(o)
	s.stop = func() { s.admin.Close(); _ = s.redis.Close() }
	if s.encryptionKey, err = keptKey(filepath.Join(dir, "encryption-key")); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// keptKey is the sealing key of the bench's databases; a filled one is used by later runs.
func keptKey(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	key := secret.NewKey("bench").Reveal()
	return key, os.WriteFile(file, []byte(key+"\n"), 0o600)
}

// database is the URL of a database on the bench's Postgres.
func (s *servers) database(name string) (string, error) {
	u, err := url.Parse(s.databaseURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// createDatabase makes a database anew: empty, or a copy of template. The copy is one of files,
// since 10 GB through the WAL would take minutes, and leave the server with a checkpoint to write
// while the next row runs.
func (s *servers) createDatabase(ctx context.Context, name, template string) error {
	if err := s.dropDatabase(ctx, name); err != nil {
		return err
	}
	sql := "CREATE DATABASE " + name
	if template != "" {
		sql += " TEMPLATE " + template + " STRATEGY file_copy"
	}
	return patiently(ctx, s.admin, sql)
}

func (s *servers) dropDatabase(ctx context.Context, name string) error {
	return patiently(ctx, s.admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

// patiently runs one statement that may take minutes.
func patiently(ctx context.Context, pool *pg.Pool, sql string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		return err
	}
	defer func() { _, _ = conn.Exec(ctx, "RESET statement_timeout") }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// checkpoint writes out what the last row left, so that each begins alike.
func (s *servers) checkpoint(ctx context.Context) error { return patiently(ctx, s.admin, "CHECKPOINT") }

// pids are the processes of both servers: Postgres' first one, and Redis'.
func (s *servers) pids(ctx context.Context) (postgres, redis int, err error) {
	var backend int
	if err := s.admin.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, 0, err
	}
	parent, ok := processes()[backend]
	if !ok {
		return 0, 0, errors.New(noProc)
	}
	info, err := s.redis.Info(ctx, "server").Result()
	if err != nil {
		return 0, 0, err
	}
	_, after, _ := strings.Cut(info, "process_id:")
	_, err = fmt.Sscan(after, &redis)
	return parent.PPID, redis, err
}
