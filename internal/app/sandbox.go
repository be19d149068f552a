package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/api"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/fakebank"
	"ajo/internal/redisconn"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/migrations"
)

// sandboxPayout is how long a payout is under way at the simulated bank, and sandboxKeep how long
// it is kept there: longer than the bank is asked about a recall.
const (
	sandboxPayout = 3 * time.Second
	sandboxKeep   = 20 * 24 * time.Hour
)

// keyKind is the kind of API keys that a process makes and accepts.
func keyKind(cfg config.Config) secret.KeyKind {
	if cfg.Sandbox {
		return secret.TestKey
	}
	return secret.LiveKey
}

// testMode is what an API has for test mode: the sandbox's own, or what sends requests on to it.
func (c *core) testMode(bank *sandbox.Bank) (*api.TestMode, *api.Sandbox) {
	passes := sandbox.NewPasses(c.cfg.TestSecret, &c.clock)
	switch {
	case bank != nil:
		return nil, &api.Sandbox{Passes: passes, Bank: bank}
	case c.cfg.TestURL != "":
		m := api.NewTestMode(c.cfg.TestURL, passes, c.log)
		c.closers = append(c.closers, m.Close)
		return m, nil
	}
	return nil, nil
}

// Sandbox runs test mode in one process until ctx ends: the simulated bank, the API and workers for
// all queues, on a database and a Redis that have nothing of the live service. It brings its schema
// up to date itself, as nobody else uses it.
func Sandbox(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	stopMarking, err := ownRedis(ctx, cfg)
	if err != nil {
		return fmt.Errorf("AJO_REDIS_URL: %w", err)
	}
	defer stopMarking()
	if _, err := upgrade(ctx, cfg.DatabaseURL.Reveal(), cfg.Partition, migrations.Options{}); err != nil {
		return fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	bank := sandbox.NewBank(fakebank.Options{
		Log: log.With(slog.String("role", "bank")), StateFile: filepath.Join(filepath.Dir(cfg.SpoolDir), "bank.json"), PayoutDelay: sandboxPayout, KeepFor: sandboxKeep,
		AccountID: cfg.ProviderAccountID, ClientID: cfg.ProviderClientID, ClientSecret: cfg.ProviderClientSecret.Reveal(), WebhookSecret: cfg.ProviderWebhookSecret.Reveal(),
		SignatureHeader: cfg.ProviderSignatureHeader, TimestampHeader: cfg.ProviderTimestampHeader,
	})
	address, err := bank.Start("")
	if err != nil {
		return err
	}
	defer func() { _ = bank.Close() }()
	cfg.ProviderURL, cfg.IdentityURL, cfg.IdentityAppID, cfg.IdentityKey = address, address, "sandbox", secret.Redact("sandbox")
	cfg.ProviderRecipientRate = -1 // every tenant pays to the numbers that stand for an outcome
	worker, err := StartWorker(ctx, cfg, log, AllQueues())
	if err != nil {
		return err
	}
	defer worker.Stop()
	a, failed, err := startAPIWith(ctx, cfg, log, bank)
	if err != nil {
		return err
	}
	defer a.Stop()
	bank.SetWebhookURL(reachable(a.URL) + "/webhooks/provider")
	log.Info("the sandbox listens", "url", a.URL, "bank", address, "version", Version())
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// reachable is an address that this process can call, of one that it listens on.
func reachable(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host, port, err := net.SplitHostPort(u.Host)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("localhost", port)
	}
	return u.String()
}

// sandboxMark is a key that says that a Redis database is the sandbox's.
const sandboxMark = "ajo:sandbox"

var (
	errLiveRedis = errors.New("it has keys of another service: the sandbox needs a database of its own")
	errTestRedis = errors.New("it is the sandbox's: the live service needs a database of its own")
)

// ownRedis refuses a Redis database that another service uses, whose tasks the sandbox would take.
// It marks its own until stop is called: a Redis that loses its data while the sandbox runs has
// keys again at once, and would be taken for another service's at the next start.
func ownRedis(ctx context.Context, cfg config.Config) (stop func(), err error) {
	c, err := redisconn.Open(cfg.RedisURL.Reveal(), redisconn.Options{Timeout: inspectTimeout})
	if err != nil {
		return nil, err
	}
	if err := mark(ctx, c); err != nil {
		_ = c.Close()
		return nil, err
	}
	stopMarking := beside(func(ctx context.Context) {
		clock.Every(ctx, cfg.SweepEvery, func() {
			_ = c.SetNX(ctx, sandboxMark, Version(), 0).Err() // if it fails, the next one is soon
		})
	})
	return func() {
		stopMarking()
		_ = c.Close()
	}, nil
}

// mark marks a Redis database that is empty, if it is not marked yet.
func mark(ctx context.Context, c redis.UniversalClient) error {
	if err := c.Get(ctx, sandboxMark).Err(); !errors.Is(err, redis.Nil) {
		return err
	}
	n, err := c.DBSize(ctx).Result()
	switch {
	case err != nil:
		return err
	case n > 0:
		return errLiveRedis
	}
	return c.Set(ctx, sandboxMark, Version(), 0).Err()
}
