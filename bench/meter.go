package main

import (
	"context"
	"os"
	"time"

	"ajo/internal/supervise"
)

// meter measures what the processes of a world use while a row is measured.
type meter struct {
	w        *world
	postgres int
	redis    int
	begin    time.Time
	before   map[string]time.Duration
	wal      int64
}

// meter begins to measure. On systems without /proc it measures nothing.
func (w *world) meter(ctx context.Context) *meter {
	m := &meter{w: w, begin: time.Now()}
	var err error
	if m.postgres, m.redis, err = w.pids(ctx); err == nil {
		m.wal, _ = w.walPosition(ctx)
		m.before = m.read()
	}
	return m
}

// usage is what the processes have used while a row was measured.
type usage struct {
	took time.Duration
	busy map[string]time.Duration // of processors, by process; nil: not measured
	wal  int64                    // bytes that Postgres has written ahead
}

// used is what has been used since the meter began.
func (m *meter) used(ctx context.Context) usage {
	u := usage{took: time.Since(m.begin)}
	if m.before == nil {
		return u
	}
	u.busy = m.read()
	for name, d := range u.busy {
		u.busy[name] = max(0, d-m.before[name])
	}
	if wal, err := m.w.walPosition(ctx); err == nil {
		u.wal = wal - m.wal
	}
	return u
}

// cores is how many processors each part has kept busy.
func (u usage) cores() map[string]float64 {
	if u.busy == nil {
		return nil
	}
	cores := map[string]float64{}
	for name, d := range u.busy {
		cores[name] = d.Seconds() / u.took.Seconds()
	}
	return cores
}

// cost is what each of n items has taken: microseconds of a processor by process, and bytes of the
// write-ahead log.
func (u usage) cost(n int) map[string]float64 {
	if len(u.busy) == 0 || n == 0 {
		return nil
	}
	cost := map[string]float64{"WAL bytes": float64(u.wal) / float64(n)}
	for name, d := range u.busy {
		cost[name] = float64(d.Microseconds()) / float64(n)
	}
	return cost
}

// walPosition is how many bytes the server has ever written ahead, of all databases.
func (s *servers) walPosition(ctx context.Context) (n int64, err error) {
	err = s.admin.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&n)
	return n, err
}

// read is what each part has used of the processors. Postgres is its first process with those that
// have ended, and those that run.
func (m *meter) read() map[string]time.Duration {
	stats := processes()
	// nothing more by one that is gone
	used := func(pid int) time.Duration { return ticks(stats[pid].UTime + stats[pid].STime) }
	all := map[string]time.Duration{"postgres": used(m.postgres) + ticks(stats[m.postgres].CUTime+stats[m.postgres].CSTime)}
	for pid, s := range stats {
		if s.PPID == m.postgres {
			all["postgres"] += used(pid)
		}
	}
	for name, pid := range map[string]int{
		"api": m.w.api.PID, "worker": m.w.worker.PID, "fakebank": m.w.bank.PID, "redis": m.redis, "generator": os.Getpid(),
	} {
		all[name] = used(pid)
	}
	return all
}

// memory keeps the most that the API and the worker have had in memory, in bytes.
func (r *run) memory(w *world) {
	for _, p := range []*supervise.Process{w.api, w.worker} {
		if n, err := highestMemory(p.PID); err == nil {
			r.highest[p.Name] = max(r.highest[p.Name], n)
		}
	}
}
