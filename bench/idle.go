package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// idle measures what the service uses when there is nothing to do, after it had something to do.
func (r *run) idle(ctx context.Context) error {
	w, err := r.newWorld(ctx, "idle", worldOptions{settings: chainSettings, hooked: true})
	if err != nil {
		return err
	}
	defer w.close(ctx)
	f, err := r.warmChain(ctx, w)
	if err != nil {
		return err
	}
	if err := sleep(ctx, r.took/2); err != nil {
		return err
	}
	before, err := w.redisCommands(ctx)
	if err != nil {
		return err
	}
	m := w.meter(ctx)
	watched := 3 * r.took
	if err := sleep(ctx, watched); err != nil {
		return err
	}
	cores := m.used(ctx).cores()
	after, err := w.redisCommands(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("over %s, %s after %d payments; one API and one worker with all queues", watched, r.took/2, f.tally.count)
	if cores == nil {
		r.add(figure{Row: "idle", What: "idle: CPU of API and worker", Error: errNoProc.Error()})
	} else {
		r.add(figure{
			Row: "idle", What: "idle: CPU of API and worker together", Unit: "% of a core", Value: (cores["api"] + cores["worker"]) * 100, Goal: 1, AtMost: true,
			Note: note, Cores: cores,
		})
	}
	const own = 2 // the reading before, and what the meter asks
	r.add(figure{
		Row: "idle", What: "idle: Redis commands", Unit: "/s", Value: float64(after-before-own) / watched.Seconds(), Goal: 50, AtMost: true, Note: note,
	})
	return w.verify(ctx, f.tally)
}

// redisCommands is how many commands Redis has done since its start, this one left out.
func (w *world) redisCommands(ctx context.Context) (int64, error) {
	info, err := w.redis.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(info, "total_commands_processed:")
	var n int64
	_, err = fmt.Sscan(after, &n)
	return n, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// memoryRow is the most that a role has had in memory in the rows before.
func (r *run) memoryRow(context.Context) error {
	if len(r.highest) == 0 {
		return errors.New("memory is what the rows before have used: run one of spread, hot, chain, settle too")
	}
	for _, role := range []string{"api", "worker"} {
		r.add(figure{
			Row: "memory", What: "resident memory of the " + role, Unit: "MiB", Value: float64(r.highest[role]) / (1 << 20), Goal: 80, AtMost: true,
			Note: "the most that the kernel counted (VmHWM) over the rows before, under full load",
		})
	}
	return nil
}
