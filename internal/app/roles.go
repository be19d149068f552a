package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"ajo/api"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/ratelimit"
	"ajo/tasks"
	"ajo/workers"
)

// readyTimeout bounds what GET /ready waits for a dependency.
const readyTimeout = 2 * time.Second

// API is a running API.
type API struct {
	URL  string // http://host:port
	stop func()
}

// Stop refuses new requests, finishes those under way, and closes what they used.
func (a *API) Stop() { a.stop() }

// StartAPI runs the API on cfg.HTTPAddr. It returns when the API listens; failed receives an error if it ends by itself.
func StartAPI(ctx context.Context, cfg config.Config, log *slog.Logger) (a *API, failed <-chan error, err error) {
	c, err := open(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	tenants, err := c.tenants()
	if err != nil {
		return nil, nil, err
	}
	limits, err := ratelimit.New(c.redis, cfg.RateLimit, cfg.RateLimitOpen, log)
	if err != nil {
		return nil, nil, fmt.Errorf("AJO_RATE_LIMIT or AJO_RATE_LIMIT_OPEN: %w", err)
	}
	c.closers = append(c.closers, func() { _ = limits.Close() })
	server := api.New(api.Options{
		Tenants: tenants, Accounts: c.accounts, Payments: c.payments, Webhooks: c.webhooks(), Limits: limits, Enqueuer: c.enqueuer,
		Ready: c.ready, Log: log, Production: cfg.Production(), TrustedProxies: cfg.TrustedProxies,
		SignatureHeader: cfg.ProviderSignatureHeader, TimestampHeader: cfg.ProviderTimestampHeader,
	})
	listener, err := net.Listen("tcp", cfg.HTTPAddr)
	if err != nil {
		return nil, nil, fmt.Errorf("AJO_HTTP_ADDR: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Listener(listener) }()
	return &API{URL: "http://" + listener.Addr().String(), stop: func() {
		if err := server.ShutdownWithTimeout(closeTimeout); err != nil {
			log.Warn("requests were cut off", slog.Any("err", err))
		}
		c.close()
	}}, ended, nil
}

// ready asks the dependencies, side by side.
func (c *core) ready(ctx context.Context) []api.Check {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	redis := make(chan error, 1)
	go func() { redis <- c.redis.Ping(ctx).Err() }()
	return []api.Check{{Name: "postgres", Err: c.pool.Ping(ctx)}, {Name: "redis", Err: <-redis}}
}

// Worker is a running set of queue servers with its sweeper.
type Worker struct{ stop func() }

// Stop finishes the tasks under way, hands back the others, and closes what they used.
func (w *Worker) Stop() { w.stop() }

// StartWorker serves the given queues (a concurrency of 0: the kind's own) and sweeps.
func StartWorker(ctx context.Context, cfg config.Config, log *slog.Logger, queues map[tasks.Kind]int) (*Worker, error) {
	c, err := open(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	w, err := workers.Start(workers.Options{
		Pool: c.pool, Redis: c.redis, Enqueuer: c.enqueuer, Payments: c.payments, Webhooks: c.webhooks(), Accounts: c.accounts,
		Clock: clock.System, Log: log, Queues: queues, SweepEvery: cfg.SweepEvery,
	})
	if err != nil {
		c.close()
		return nil, err
	}
	return &Worker{stop: func() {
		w.Stop()
		c.close()
	}}, nil
}

// AllQueues serves every queue with its own concurrency.
func AllQueues() map[tasks.Kind]int {
	m := map[tasks.Kind]int{}
	for _, k := range tasks.Kinds {
		m[k] = 0
	}
	return m
}
