package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	referenceDB      = "bench_reference"
	referenceClients = 16
	referenceScale   = 20 // above the clients, so that they do not all wait for one branch's row
)

var tpsForm = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)

// reference is pgbench's TPC-B on the same Postgres, in transactions a second: the unit that goals
// are in.
func (s *servers) reference(ctx context.Context, took time.Duration, scale int) (float64, error) {
	var fresh bool
	if err := s.admin.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, referenceDB).Scan(&fresh); err != nil {
		return 0, err
	}
	if fresh {
		if err := s.createDatabase(ctx, referenceDB, ""); err != nil {
			return 0, err
		}
		if _, err := s.pgbench(ctx, "-i", "-q", "-s", strconv.Itoa(scale)); err != nil {
			_ = s.dropDatabase(context.WithoutCancel(ctx), referenceDB)
			return 0, err
		}
	}
	if err := s.checkpoint(ctx); err != nil {
		return 0, err
	}
	clients := strconv.Itoa(referenceClients)
	// Seconds may pass without any transaction where the machine stands still: then once more, for
	// longer.
	least := max(1, int(took.Seconds()))
	for seconds := least; ; seconds *= 2 {
		out, err := s.pgbench(ctx, "-c", clients, "-j", "2", "-T", strconv.Itoa(seconds))
		if err != nil {
			return 0, err
		}
		if m := tpsForm.FindSubmatch(out); m != nil {
			return strconv.ParseFloat(string(m[1]), 64)
		}
		if seconds == 64*least {
			return 0, fmt.Errorf("pgbench printed no tps: %s", out)
		}
	}
}

// pgbench runs the program that lies beside the server's.
func (s *servers) pgbench(ctx context.Context, args ...string) ([]byte, error) {
	var dir string
	if err := s.admin.QueryRow(ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&dir); err != nil {
		return nil, err
	}
	u, err := url.Parse(s.databaseURL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "pgbench"), append(args, referenceDB)...)
	cmd.Env = []string{"PGHOST=" + u.Hostname(), "PGPORT=" + u.Port(), "PGUSER=" + u.User.Username(), "PGPASSWORD=" + password}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	return out, nil
}
