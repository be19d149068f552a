package main

import (
	"context"
	"os"
	"time"
)

// meter measures what the processes of a world use while a row is measured.
type meter struct {
	w        *world
	postgres int
	redis    int
	begin    time.Time
	before   map[string]time.Duration
}

// meter begins to measure. On systems without /proc it measures nothing.
func (w *world) meter(ctx context.Context) *meter {
	m := &meter{w: w, begin: time.Now()}
	var err error
	if m.postgres, m.redis, err = w.pids(ctx); err == nil {
		m.before = m.read()
	}
	return m
}

// cores is how many processors each part has kept busy since the meter began.
func (m *meter) cores() map[string]float64 {
	if m.before == nil {
		return nil
	}
	used := map[string]float64{}
	took := time.Since(m.begin).Seconds()
	for name, d := range m.read() {
		used[name] = max(0, d-m.before[name]).Seconds() / took
	}
	return used
}

func (m *meter) read() map[string]time.Duration {
	all := map[string]time.Duration{"postgres": postgresTime(m.postgres)}
	for name, pid := range map[string]int{
		"api": m.w.api.pid(), "worker": m.w.worker.pid(), "fakebank": m.w.bank.pid(), "redis": m.redis, "generator": os.Getpid(),
	} {
		all[name], _ = cpuTime(pid) // a process that is gone has used nothing more
	}
	return all
}

// postgresTime is what the server has used: its first process with those that have ended, and those that run.
func postgresTime(pid int) time.Duration {
	all, _ := cpuTime(pid)
	ended, _ := endedTime(pid)
	all += ended
	for _, child := range children(pid) {
		t, _ := cpuTime(child)
		all += t
	}
	return all
}

// memory keeps the most that the API and the worker have had in memory, in bytes.
func (r *run) memory(w *world) {
	for _, p := range []*process{w.api, w.worker} {
		if n, err := highestMemory(p.pid()); err == nil {
			r.highest[p.name] = max(r.highest[p.name], n)
		}
	}
}
