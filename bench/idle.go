package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"ajo/internal/clock"
)

// idle measures what the service uses when there is nothing to do, after it had something to do.
func (r *run) idle(ctx context.Context) error {
	f, err := r.warmChain(ctx, "idle")
	if err != nil {
		return err
	}
	defer f.close(ctx)
	if err := clock.Sleep(ctx, r.took/2); err != nil {
		return err
	}
	m := f.meter(ctx)
	watched := 3 * r.took
	if err := clock.Sleep(ctx, watched); err != nil {
		return err
	}
	cores := m.used(ctx).cores()
	sent, all, err := f.redisCommands(ctx, watched)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("over %s, %s after %d payments; one API and one worker with all queues", watched, r.took/2, f.tally.count)
	if cores == nil {
		r.add(figure{Row: "idle", What: "idle: CPU of API and worker", Error: noProc})
	} else {
		r.add(figure{
			Row: "idle", What: "idle: CPU of API and worker together", Unit: "% of a core", Value: (cores["api"] + cores["worker"]) * 100, Goal: 1, AtMost: true,
			Note: note, Cores: cores,
		})
	}
	r.add(figure{
		Row: "idle", What: "idle: Redis commands", Unit: "/s", Value: sent, Goal: 50, AtMost: true,
		Note: fmt.Sprintf("%s; as sent by the processes, in the time after that; with those that asynq's scripts call inside Redis: %.0f", note, all),
	})
	return f.verify(ctx)
}

// redisCommands watches Redis for that long, by MONITOR on a connection of its own: commands a
// second as they were sent, and together with those that scripts called.
func (w *world) redisCommands(ctx context.Context, watched time.Duration) (sent, all float64, err error) {
	o := w.redis.Options()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(watched)); err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nMONITOR\r\n", o.Password); err != nil {
		return 0, 0, err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() { // until the deadline
		switch l := lines.Text(); {
		case strings.HasPrefix(l, "-"):
			return 0, 0, fmt.Errorf("MONITOR: %s", l)
		case !strings.Contains(l, "] \""): // +OK
		case strings.Contains(l, " lua] \""):
			all++
		default:
			sent++
			all++
		}
	}
	if err := lines.Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, 0, fmt.Errorf("MONITOR ended: %w", err)
	}
	if sent == 0 {
		return 0, 0, errors.New("MONITOR showed nothing")
	}
	return sent / watched.Seconds(), all / watched.Seconds(), nil
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
