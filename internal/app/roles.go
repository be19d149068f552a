package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"ajo/api"
	"ajo/internal/archive"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/fee"
	"ajo/internal/idempotency"
	"ajo/internal/limit"
	"ajo/internal/replica"
	"ajo/internal/retention"
	"ajo/internal/sandbox"
	"ajo/ratelimit"
	"ajo/tasks"
	"ajo/workers"
)

// readyTimeout is how long GET /ready waits for a dependency.
const readyTimeout = 2 * time.Second

var errStopping = errors.New("told to stop")

// API is a running API.
type API struct {
	URL  string // http://host:port
	stop func()
}

// Stop reports "not ready" and asks clients to close their connections for AJO_DRAIN. Then it
// refuses new requests, finishes those in progress, and closes what they used.
func (a *API) Stop() { a.stop() }

// StartAPI runs the API on cfg.HTTPAddr. It returns when the API listens; failed receives an error
// if the API ends on its own.
func StartAPI(ctx context.Context, cfg config.Config, log *slog.Logger) (a *API, failed <-chan error, err error) {
	return startAPIWith(ctx, cfg, log, nil)
}

// startAPIWith is [StartAPI], or runs the API of test mode with its bank.
func startAPIWith(ctx context.Context, cfg config.Config, log *slog.Logger, bank *sandbox.Bank) (a *API, failed <-chan error, err error) {
	c, err := open(ctx, cfg, log)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err = c.checkRedis(ctx); err != nil {
		return nil, nil, err
	}
	tenants, err := c.tenants()
	if err != nil {
		return nil, nil, err
	}
	customers, err := c.customers()
	if err != nil {
		return nil, nil, err
	}
	limits, err := ratelimit.New(ratelimit.Options{Client: c.redis, PerTenant: cfg.RateLimit, Open: cfg.RateLimitOpen, Log: log})
	if err != nil {
		return nil, nil, fmt.Errorf("AJO_RATE_LIMIT or AJO_RATE_LIMIT_OPEN: %w", err)
	}
	c.closers = append(c.closers, func() { _ = limits.Close() })
	var reads *replica.Replica
	if !cfg.DatabaseReadURL.IsZero() {
		reads, err = replica.Open(ctx, replica.Options{PrimaryURL: cfg.DatabaseURL.Reveal(), URL: cfg.DatabaseReadURL.Reveal(), MaxConns: cfg.DatabaseMax, Log: log})
		if err != nil {
			return nil, nil, fmt.Errorf("AJO_DATABASE_READ_URL: %w", err)
		}
		c.closers = append(c.closers, reads.Close)
	}
	answers := idempotency.NewCache(c.redis, c.box, c.Pool, idempotency.CacheTimeout)
	c.closers = append(c.closers, answers.Close)
	test, simulated := c.testMode(bank)
	server := api.New(api.Options{
		Pool: c.Pool, Clock: &c.clock, Test: test, Sandbox: simulated,
		Tenants: tenants, Accounts: c.accounts, Customers: customers, Payments: c.payments, Webhooks: c.webhooks(0), Limits: limits, Enqueuer: c.enqueuer,
		Transfers: c.transfers, Banks: c.banks, Fees: c.fees, Answers: answers, Replica: reads,
		TenantLimits: &limit.Service{Pool: c.Pool, Clock: &c.clock},
		Prices:       &fee.Prices{Pool: c.Pool, Clock: &c.clock},
		Ready:        c.ready, Stopping: c.stopping.Load, Log: log, Production: cfg.Production(), TrustedProxies: cfg.TrustedProxies,
		SignatureHeader: cfg.ProviderSignatureHeader, TimestampHeader: cfg.ProviderTimestampHeader,
	})
	tcp, err := net.Listen("tcp", cfg.HTTPAddr)
	if err != nil {
		return nil, nil, fmt.Errorf("AJO_HTTP_ADDR: %w", err)
	}
	c.collectMetrics("api", nil)
	paceCollector()
	listener := newListener(tcp, connLimit())
	ended := make(chan error, 1)
	go func() { ended <- server.Listener(listener) }()
	return &API{URL: "http://" + listener.Addr().String(), stop: func() {
		c.stopping.Store(true)
		time.Sleep(cfg.Drain)
		unused := time.AfterFunc(unusedGrace, listener.closeUnused)
		defer unused.Stop()
		if err := server.ShutdownWithTimeout(closeTimeout); err != nil {
			log.Warn("requests were cut off", slog.Any("err", err))
		}
		c.Close()
	}}, ended, nil
}

// ready checks the dependencies concurrently. Without Postgres the bank's events go to the spool,
// and without Redis the sweeper finds the work: the process stays ready as long as no event is
// refused.
func (c *core) ready(ctx context.Context) []api.Check {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	redis, disk := make(chan error, 1), make(chan error, 1)
	go func() { redis <- c.redis.Ping(ctx).Err() }()
	go func() { disk <- c.spool.Check(ctx) }()
	postgres, spool := c.Pool.Ping(ctx), <-disk
	if c.stopping.Load() {
		return []api.Check{{Name: "process", Err: errStopping}}
	}
	return []api.Check{
		{Name: "postgres", Err: postgres, Degraded: spool == nil},
		{Name: "redis", Err: <-redis, Degraded: true},
		{Name: "spool", Err: spool, Degraded: postgres == nil},
	}
}

// Worker is a running set of queue servers with its sweeper.
type Worker struct{ stop func() }

// Stop finishes the tasks in progress, hands back the others, and closes what they used.
func (w *Worker) Stop() { w.stop() }

// StartWorker serves the given queues (a concurrency of 0: the kind's own) and sweeps.
func StartWorker(ctx context.Context, cfg config.Config, log *slog.Logger, queues map[tasks.Kind]int) (_ *Worker, err error) {
	c, err := open(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err = c.checkRedis(ctx); err != nil {
		return nil, err
	}
	archived, err := archiveOf(cfg, c.Pool, &c.clock, log)
	if err != nil {
		return nil, err
	}
	if cfg.Production() && cfg.ArchiveDir != "" && archive.InMemory(cfg.ArchiveDir) {
		return nil, fmt.Errorf("AJO_ARCHIVE_DIR: %w", archive.ErrInMemory)
	}
	deliveries := c.webhooks(tasks.Concurrency(tasks.Deliver, queues))
	tenants, err := c.tenants()
	if err != nil {
		return nil, err
	}
	w, err := workers.Start(workers.Options{
		Pool: c.Pool, Redis: c.redis, Enqueuer: c.enqueuer, Payments: c.payments, Webhooks: deliveries, Accounts: c.accounts,
		Transfers: c.transfers, Tenants: tenants, Customers: customer.New(customer.Options{Pool: c.Pool, Clock: &c.clock, Log: log}),
		Reconciler: c.reconciler(c.payments, c.transfers),
		Clock:      &c.clock, Log: log, Queues: queues, SweepEvery: cfg.SweepEvery,
		ReconcileEvery: cfg.ReconcileEvery, ReconcileWindow: cfg.ReconcileWindow, ReconcileBack: cfg.ReconcileBack,
		Partition: cfg.Partition, Archive: archived,
		Keep: retention.Keep{Reports: cfg.KeepReports, Audit: cfg.KeepAudit},
	})
	if err != nil {
		return nil, err
	}
	c.collectMetrics("worker", deliveries)
	paceCollector()
	return &Worker{stop: func() {
		w.Stop()
		c.Close()
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
