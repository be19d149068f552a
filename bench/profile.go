package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/supervise"
)

// profiler sees where a row's time goes: CPU profiles of the API and the worker, Postgres'
// statements, Redis' commands.
type profiler struct {
	w       *world
	prefix  string // of the files' names
	seconds int
	running sync.WaitGroup
	mu      sync.Mutex
	failed  []error
}

// startProfile begins to write the files that are named row after the result; finish ends them.
func (r *run) startProfile(ctx context.Context, w *world, row string) (*profiler, error) {
	p := &profiler{w: w, prefix: r.out + "." + row + ".", seconds: max(1, int(r.took.Seconds()))}
	if _, err := w.pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return nil, err
	}
	if _, err := w.pool.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return nil, err
	}
	if err := w.redis.ConfigResetStat(ctx).Err(); err != nil {
		return nil, err
	}
	for _, role := range []*supervise.Process{w.api, w.worker} {
		p.running.Go(func() { p.keep(p.profile(ctx, role, "profile", ".pprof")) })
		p.running.Go(func() { p.keep(p.profile(ctx, role, "allocs", ".allocs.pprof")) })
	}
	return p, nil
}

func (p *profiler) keep(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, err)
}

// profile writes a role's profile of the kind: where its processor time goes, or what it allocates
// meanwhile.
func (p *profiler) profile(ctx context.Context, role *supervise.Process, kind, ending string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", p.w.ops[role], kind, p.seconds), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth("ops", opsPassword)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile of the %s: %s", role.Name, resp.Status)
	}
	file := p.prefix + role.Name + ending
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(resp.Body)
	return errors.Join(err, out.Close())
}

// statements are what Postgres spent its time on, the costliest first.
const statements = `SELECT format('%s ms  %s ms planning  %s calls  %s rows  %s blocks dirtied  %s B of WAL  %s', to_char(total_exec_time, '9999990.0'), to_char(total_plan_time, '9999990.0'), to_char(calls, '99999990'),
	to_char(rows, '999999990'), to_char(shared_blks_dirtied, '99999990'), to_char(wal_bytes, '99999999990'), left(regexp_replace(query, '\s+', ' ', 'g'), 300))
	FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY total_exec_time + total_plan_time DESC LIMIT 40`

// tables are the rows that were updated, and how many of them needed no new index entries (HOT).
const tables = `SELECT format('%s  %s inserted  %s updated  %s of them HOT', relname, n_tup_ins, n_tup_upd, n_tup_hot_upd)
	FROM pg_stat_user_tables WHERE n_tup_upd > 0 ORDER BY n_tup_upd DESC`

// indexes are how many entries were read by each look into an index: many mean that a statement
// goes by the wrong one.
const indexes = `SELECT format('%s  %s looks  %s entries each', indexrelname, idx_scan, round(idx_tup_read::numeric / idx_scan, 1))
	FROM pg_stat_user_indexes WHERE idx_scan > 0 ORDER BY idx_tup_read DESC LIMIT 15`

// finish writes what the servers counted, and waits for the profiles.
func (p *profiler) finish(ctx context.Context) error {
	var text strings.Builder
	for _, sql := range []string{statements, tables, indexes} {
		lines, err := pg.Collect(ctx, p.w.pool, pgx.RowTo[string], sql)
		if err != nil {
			return err
		}
		text.WriteString(strings.Join(lines, "\n") + "\n\n")
	}
	commands, err := p.w.redis.Info(ctx, "commandstats").Result()
	p.running.Wait()
	for _, role := range []*supervise.Process{p.w.api, p.w.worker} {
		top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=60", p.prefix+role.Name+".pprof").Output()
		p.keep(err)
		p.keep(os.WriteFile(p.prefix+role.Name+".txt", top, 0o644))
	}
	return errors.Join(append(p.failed, err,
		os.WriteFile(p.prefix+"statements.txt", []byte(text.String()), 0o644),
		os.WriteFile(p.prefix+"redis.txt", []byte(commands), 0o644))...)
}
