package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/fee"
	"ajo/internal/metrics"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/reconcile"
	"ajo/internal/redisconn"
	"ajo/internal/secret"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/tasks"
)

// parts are what roles and operators' commands have alike. [open] says what a role has beside them,
// and [Tools.open] what a command has: so where the two differ, one of these says so.
type parts struct {
	cfg      config.Config
	log      *slog.Logger
	optional bool // what has no settings is left out: Redis, the keys, the fees
	Pool     *pg.Pool
	clock    clock.Synced // this machine's may be off
	redis    redis.UniversalClient
	enqueuer *tasks.Enqueuer
	box      *secret.Box
	bank     provider.Bank
	banks    *transfer.BankList
	fees     fee.Tiers
	closers  []func() // in the order of opening; closed backwards
}

// wanted reports whether a part is opened, whose setting is set or not.
func (p *parts) wanted(set bool) bool { return set || !p.optional }

// connect opens what reaches Postgres and Redis, and reads the keys and the fees. Redis may be
// unavailable: the sweeper makes up for it.
func (p *parts) connect(ctx context.Context, conns int32) (err error) {
	if p.wanted(!p.cfg.EncryptionKeys.IsZero()) {
		if p.box, err = secret.ParseKeys(p.cfg.EncryptionKeys.Reveal()); err != nil {
			return fmt.Errorf("AJO_ENCRYPTION_KEYS: %w", err)
		}
	}
	if p.wanted(p.cfg.FeeTiers != "") {
		if err := p.fees.UnmarshalText([]byte(p.cfg.FeeTiers)); err != nil {
			return fmt.Errorf("AJO_FEE_TIERS: %w", err)
		}
	}
	if p.Pool, err = pg.Open(ctx, p.cfg.DatabaseURL.Reveal(), conns); err != nil {
		return fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	p.closers = append(p.closers, p.Pool.Close)
	if err := syncClock(ctx, p.Pool, &p.clock, p.log); err != nil {
		return fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	p.closers = append(p.closers, keepClockSynced(p.Pool, &p.clock, p.log))
	if !p.wanted(!p.cfg.RedisURL.IsZero()) {
		return nil
	}
	if p.redis, err = redisconn.Open(p.cfg.RedisURL.Reveal(), redisconn.Options{}); err != nil {
		return fmt.Errorf("AJO_REDIS_URL: %w", err)
	}
	p.enqueuer = tasks.NewEnqueuer(p.redis, &p.clock, p.log)
	p.closers = append(p.closers, func() { _ = p.redis.Close() }, p.enqueuer.Close, work.EnqueueWith(p.Pool, p.enqueuer.Enqueue))
	return nil
}

// Close ends what was opened, after what is being enqueued.
func (p *parts) Close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

// wallet is our account at the bank, by the settings.
func (p *parts) wallet() transfer.Wallet {
	w := transfer.Wallet{AccountID: p.cfg.ProviderAccountID}
	if u, err := url.Parse(p.cfg.ProviderURL); err == nil {
		w.Host = u.Hostname()
	}
	return w
}

// bankHost is the host of the bank's API, with its port, by the settings.
func (p *parts) bankHost() string {
	u, err := url.Parse(p.cfg.ProviderURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// bankOptions are how the bank is reached, by the settings.
func (p *parts) bankOptions() nomba.Options {
	return nomba.Options{
		URL: p.cfg.ProviderURL, AccountID: p.cfg.ProviderAccountID, ClientID: p.cfg.ProviderClientID, ClientSecret: p.cfg.ProviderClientSecret.Reveal(),
		Clock: &p.clock, Log: p.log, RequestsPerSec: p.cfg.ProviderRate, PostsPerSec: p.cfg.ProviderPostRate,
	}
}

// openBank makes what speaks with the bank. What the simulated one does not find is not there; of
// any other, it is doubted.
func (p *parts) openBank(o nomba.Options) error {
	client, err := nomba.New(o)
	if err != nil {
		return fmt.Errorf("AJO_PROVIDER_*: %w", err)
	}
	if p.bank = client; !p.cfg.Sandbox {
		p.bank = p.doubting(client)
	}
	p.banks = transfer.NewBankList(p.bank, p.bankHost(), p.redis, &p.clock, p.log)
	return nil
}

// doubting is the bank, with the database as the source of records that the bank certainly knows.
func (p *parts) doubting(bank provider.Bank) provider.Bank {
	pool := p.Pool
	return provider.Doubt(provider.DoubtOptions{Bank: bank, Clock: &p.clock, Log: p.log, Observe: metrics.Doubted.Inc, Known: provider.KnownRecords{
		Transaction:      func(ctx context.Context) (string, error) { return payment.KnownAtBank(ctx, pool, uuid.Nil) },
		Payout:           func(ctx context.Context) (string, error) { return transfer.KnownPayout(ctx, pool) },
		Account:          func(ctx context.Context) (string, error) { return account.KnownAtBank(ctx, pool) },
		PaymentElsewhere: func(ctx context.Context, ref string) (bool, error) { return payment.AtOtherAccount(ctx, pool, ref) },
		PayoutElsewhere:  func(ctx context.Context, ref string) (bool, error) { return transfer.AtOtherAccount(ctx, pool, ref) },
		Destination:      func(ctx context.Context) (provider.Destination, error) { return transfer.KnownDestination(ctx, pool) },
	}})
}

// paymentOptions are enough to decide about payments by hand.
func (p *parts) paymentOptions() payment.Options {
	return payment.Options{
		Pool: p.Pool, Bank: p.bank, Clock: &p.clock, Log: p.log, ConfirmDelays: p.cfg.ConfirmDelays, ConfirmMinAge: p.cfg.ConfirmMinAge,
	}
}

// transferOptions are enough to decide about payouts by hand.
func (p *parts) transferOptions() transfer.Options {
	return transfer.Options{
		Pool: p.Pool, Bank: p.bank, Banks: p.banks, Clock: &p.clock, Log: p.log, Rechecks: p.cfg.SettleRechecks, Fees: p.fees,
	}
}

// reconciler compares the books of these services with the bank's.
func (p *parts) reconciler(payments *payment.Service, transfers *transfer.Service) *reconcile.Service {
	return reconcile.New(reconcile.Options{
		Pool: p.Pool, Bank: p.bank, Payments: payments, Transfers: transfers, Clock: &p.clock, Log: p.log, MinAge: p.cfg.ConfirmMinAge,
	})
}

// overdueRuns reads which runs of a reconciliation are overdue, of those that the settings want.
func (p *parts) overdueRuns(ctx context.Context) (reconcile.Overdue, error) {
	o, err := reconcile.ReadOverdue(ctx, p.Pool)
	if p.cfg.ReconcileBack == 0 {
		o.Daily = nil
	}
	return o, err
}
