package app

import (
	"context"
	"log/slog"
	"time"

	"ajo/internal/trace"
)

// traceTimeout is how long a stopping process waits for the collector to accept its last spans.
const traceTimeout = 2 * time.Second

// trace starts tracing, if the settings say so, until the role closes.
func (c *core) trace(ctx context.Context) error {
	stop, err := trace.Setup(ctx, trace.Options{Endpoint: c.cfg.TraceEndpoint, Every: c.cfg.TraceEvery, Version: Version(), Log: c.log})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceTimeout)
		defer cancel()
		if err := stop(ctx); err != nil {
			c.log.Warn("the last spans were lost", slog.Any("err", err))
		}
	})
	return nil
}
