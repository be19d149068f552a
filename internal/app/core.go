// Package app wires the parts together, in one place: configuration in, running roles out.
//
// Each role has a function that starts it ([StartAPI], [StartWorker], [Dev]) and a Stop that lets
// work in progress finish first. Nothing else in Ajo opens a connection pool or knows how the parts
// are joined.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/failpoint"
	"ajo/internal/identity"
	"ajo/internal/identity/dojah"
	"ajo/internal/mail"
	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/spool"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/migrations"
)

// Closing takes at most this long.
const closeTimeout = 10 * time.Second

// core is what every role shares.
type core struct {
	parts
	accounts  *account.Service
	payments  *payment.Service
	spool     *spool.Spool
	transfers *transfer.Service
	stopping  atomic.Bool // stopping: not ready, but still answering
}

// open checks the schema, connects, and makes the services that every role uses.
func open(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *core, err error) {
	// not a named result: the deferred function must close what is open whatever is returned
	c := &core{parts: parts{cfg: cfg, log: log}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if !cfg.Production() {
		if err = failpoint.Arm(cfg.Failpoint); err != nil {
			return nil, fmt.Errorf("AJO_FAILPOINT: %w", err)
		}
	}
	if err = c.trace(ctx); err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	if err = migrations.Check(ctx, cfg.DatabaseURL.Reveal()); errors.Is(err, migrations.ErrBehind) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	if err = c.connect(ctx, cfg.DatabaseMax); err != nil {
		return nil, err
	}
	if err = c.checkPostgres(ctx); err != nil {
		return nil, fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	if !cfg.Sandbox { // whose bank is part of the process
		if err = transfer.RecordWallet(ctx, c.Pool, c.clock.Now(), c.wallet()); err != nil {
			return nil, fmt.Errorf("AJO_PROVIDER_ACCOUNT_ID, AJO_PROVIDER_URL: %w", err)
		}
	}
	if c.spool, err = spool.Open(cfg.SpoolDir, cfg.SpoolMax<<20); err != nil {
		return nil, fmt.Errorf("AJO_SPOOL_DIR: %w", err)
	}
	c.closers = append(c.closers, func() { _ = c.spool.Close() })
	bank := c.bankOptions()
	bank.Observe = metrics.BankCalled
	if err = c.openBank(bank); err != nil {
		return nil, err
	}
	c.openServices()
	c.drain()
	return c, nil
}

// openServices makes the services of money, which call each other.
func (c *core) openServices() {
	c.accounts = account.New(account.Options{
		Pool: c.Pool, Bank: c.bank, Box: c.box, Clock: &c.clock, Callbacks: c.callbacks(), Production: c.cfg.Production(),
		Provisional: c.cfg.SettleProvisional,
		EnsureSecret: func(ctx context.Context, tx pg.Tx, tenantID uuid.UUID) error {
			return tenant.EnsureWebhookSecret(ctx, tx, c.box, c.clock.Now(), tenantID)
		},
	})
	p := c.paymentOptions()
	p.Spool, p.Box, p.WebhookSecret = c.spool, c.box, c.cfg.ProviderWebhookSecret
	p.PreviousSecret, p.PreviousUntil = c.cfg.ProviderWebhookSecretPrevious, c.cfg.ProviderWebhookSecretPreviousUntil
	p.ConfirmMisses, p.ConfirmDeadline = c.cfg.ConfirmMisses, c.cfg.ConfirmDeadline
	p.SendBack = func(ctx context.Context, id uuid.UUID) error { return c.transfers.RefundByPolicy(ctx, id) }
	p.ExpeditePayouts = func(ctx context.Context, tx pg.Tx, refs []string) error { return c.transfers.ExpediteTx(ctx, tx, refs) }
	c.payments = payment.New(p)
	t := c.transferOptions()
	t.Hooks = safehttp.New(safehttp.Options{Allow: c.cfg.CallbackAllow, RequireHTTPS: c.cfg.Production(), Timeout: hookTimeout})
	t.Box, t.Test = c.box, c.cfg.Sandbox
	t.Delays, t.Lease, t.RecipientRate, t.Provisional = c.cfg.SettleDelays, c.cfg.SettleLease, c.cfg.ProviderRecipientRate, c.cfg.SettleProvisional
	t.OpenRecall = c.payments.RecallTakenBack
	c.transfers = transfer.New(t)
	c.closers = append(c.closers, c.payments.Close, c.transfers.Close)
}

// hookTimeout is how long a tenant's own system has to answer whether a payout may leave. It is
// short: meanwhile a slot of a worker is taken.
const hookTimeout = 5 * time.Second

// drainEvery is how often the spool is checked.
const drainEvery = 2 * time.Second

// drain moves events from the spool to Postgres until the role closes. Both roles do this: the API
// writes the spool, and a worker with the same folder drains what a dead API left.
func (c *core) drain() {
	c.background(func(ctx context.Context) {
		c.spool.Run(ctx, drainEvery, c.payments.Unspool, func(taken int, err error) {
			level, more := slog.LevelInfo, []any{slog.Int("events", taken), slog.Int64("bytes_left", c.spool.Waiting()), slog.Any("err", err)}
			switch {
			case errors.Is(err, spool.ErrSetAside):
				level, more = slog.LevelError, append(more, slog.String("alert", "spool_damaged"))
			case errors.Is(err, spool.ErrDisk):
				level, more = slog.LevelError, append(more, slog.String("alert", "spool_disk"))
			}
			c.log.Log(ctx, level, "the spool was drained", more...)
		})
	})
}

// background does something beside the role until that closes.
func (c *core) background(do func(ctx context.Context)) { c.closers = append(c.closers, beside(do)) }

// beside does something until it is stopped; stop waits for its end.
func beside(do func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	return func() { cancel(); <-done }
}

// tenants makes the service of tenants, with the mail sender of the settings.
func (c *core) tenants() (*tenant.Service, error) {
	sender, err := mailer(c.cfg)
	if err != nil {
		return nil, err
	}
	s := tenant.New(tenant.Options{Pool: c.Pool, Clock: &c.clock, Box: c.box, Mail: sender, Log: c.log, Callbacks: c.callbacks(), KeyKind: keyKind(c.cfg)})
	c.closers = append(c.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			c.log.Warn("e-mails were not sent", slog.Any("err", err))
		}
	})
	return s, nil
}

// customers makes the service of customers, with the NIN service of the settings, if there is one.
func (c *core) customers() (*customer.Service, error) {
	// nobody's money is at stake in the sandbox, so a tenant decides about its own test customers
	o := customer.Options{Pool: c.Pool, Box: c.box, Clock: &c.clock, Log: c.log, Production: c.cfg.Production() && !c.cfg.Sandbox}
	if c.cfg.IdentityURL != "" {
		checker, err := dojah.New(dojah.Options{URL: c.cfg.IdentityURL, AppID: c.cfg.IdentityAppID, Key: c.cfg.IdentityKey.Reveal()})
		if err != nil {
			return nil, fmt.Errorf("AJO_IDENTITY_URL: %w", err)
		}
		if o.Identity = checker; !c.cfg.Sandbox {
			o.Identity = &identity.Doubting{Checker: checker, Clock: &c.clock, Log: c.log, Observe: metrics.Doubted.Inc}
		}
	}
	return customer.New(o), nil
}

// callbacks are the rules for the URLs that tenants choose.
func (c *core) callbacks() safehttp.Rules {
	return safehttp.CallbackRules(c.cfg.Production(), c.cfg.CallbackAllow)
}

// webhooks makes the service of deliveries, with the outbound client that refuses private
// addresses. One endpoint gets at most an eighth of the delivering workers, and one tenant a
// quarter.
func (c *core) webhooks(workers int) *webhook.Service {
	client := safehttp.New(safehttp.Options{Allow: c.cfg.CallbackAllow, RequireHTTPS: c.cfg.Production()})
	s := webhook.New(webhook.Options{
		Pool: c.Pool, Clock: &c.clock, Box: c.box, Client: client,
		Delays: c.cfg.DeliveryDelays, Version: Version(), Log: c.log, Callbacks: c.callbacks(), Test: c.cfg.Sandbox,
		PerEndpoint: max(1, workers/8), PerTenant: max(1, workers/4),
	})
	c.closers = append(c.closers, client.Close, s.Close)
	return s
}

func mailer(cfg config.Config) (mail.Sender, error) {
	if cfg.Sandbox {
		return mail.Nowhere{}, nil
	}
	if cfg.SMTPURL.IsZero() {
		s, err := mail.NewFolder(cfg.MailDir, cfg.MailFrom)
		if err != nil {
			return nil, fmt.Errorf("AJO_MAIL_DIR or AJO_MAIL_FROM: %w", err)
		}
		return s, nil
	}
	s, err := mail.NewSMTP(cfg.SMTPURL, cfg.MailFrom)
	if err != nil {
		return nil, fmt.Errorf("AJO_SMTP_URL or AJO_MAIL_FROM: %w", err)
	}
	return s, nil
}

// linkedVersion is set by builds that know it better than git does, such as the image: -ldflags "-X
// ajo/internal/app.linkedVersion=1.4.0".
var linkedVersion string

// Version is the version of the program, as recorded by the build.
func Version() string {
	if linkedVersion != "" {
		return linkedVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// Migrate brings the schema up to date, makes the partitions that are missing (of no size: as the
// newest are), and prints what it did.
func Migrate(ctx context.Context, url string, size partition.Size, out io.Writer) error {
	if url == "" {
		return errors.New("AJO_DATABASE_URL is not set")
	}
	applied, err := upgrade(ctx, url, size, migrations.Options{Log: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }})
	for _, f := range applied {
		fmt.Fprintln(out, "applied", f)
	}
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		fmt.Fprintln(out, "the schema is up to date")
	}
	return nil
}

// upgrade brings the schema up to date, and returns the migrations that it applied. Partitions that
// could not be made, because somebody reads the tables for long, are made by the workers later.
func upgrade(ctx context.Context, url string, size partition.Size, o migrations.Options) ([]string, error) {
	applied, err := migrations.Up(ctx, url, o)
	if err != nil {
		return applied, err
	}
	pool, err := pg.Open(ctx, url, 2)
	if err != nil {
		return applied, err
	}
	defer pool.Close()
	if size == "" {
		if size, err = partition.Newest(ctx, pool); err != nil {
			return applied, err
		}
	}
	if err := partition.MakeAhead(ctx, pool, size, time.Now()); err != nil && o.Log != nil {
		o.Log("partitions were not made, and the workers will try again: %v", err)
	}
	if why, err := partition.Crowded(ctx, pool); err == nil && why != "" && o.Log != nil {
		o.Log("Postgres may soon be out of shared memory for locks: %s", why)
	}
	return applied, nil
}
