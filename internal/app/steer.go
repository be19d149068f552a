package app

import (
	"context"
	"log/slog"
	"time"
)

const (
	// steerEvery is how often the clock is compared with Postgres'.
	steerEvery = time.Minute
	// clockAlert is from how far off the machine's clock is reported: what goes by it all the same
	// (asynq's leases and appointments, ids, log lines) then no longer fits that of other machines.
	clockAlert = 2 * time.Second
)

// steer puts the clock right by Postgres'.
func (c *core) steer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := c.pool.Acquire(ctx) // not part of what is measured
	if err != nil {
		return err
	}
	defer conn.Release()
	var said time.Time
	asked := time.Now()
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&said); err != nil {
		return err
	}
	if ahead := c.clock.Steer(asked, time.Now(), said); ahead.Abs() >= clockAlert {
		c.log.Error("this machine's clock is off; Postgres' time is used instead, but what Redis keeps for later may run early or late",
			slog.String("alert", "clock"), slog.String("ahead", ahead.Round(time.Millisecond).String()))
	}
	return nil
}

// keepSteering steers until the role closes. While Postgres is away the clock stays as it was put
// right last.
func (c *core) keepSteering() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(steerEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = c.steer(ctx) // others say that Postgres is away
			}
		}
	}()
	c.closers = append(c.closers, func() { cancel(); <-done })
}
