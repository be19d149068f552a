package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"ajo/internal/account"
	"ajo/internal/archive"
	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/fee"
	"ajo/internal/freeze"
	"ajo/internal/limit"
	"ajo/internal/operator"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/reconcile"
	"ajo/internal/redisconn"
	"ajo/internal/rekey"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/migrations"
	"ajo/tasks"
)

// toolConns is how many connections a command may take: it does one thing at a time.
const toolConns = 2

// ToolSettings are the settings of the operators' commands. Of Config only what is named here
// counts, and may be unset: the database's URL is needed; without Redis' nothing is enqueued, and
// the sweep finds the row; the keys are for [Tools.RotateSecret] and [Tools.Rekey]; the bank's are
// for what asks the bank; mail needs a server or a folder; the archive's; with a ReconcileBack of
// zero no day is read once more. What a command changes, a worker continues by ConfirmDelays and
// SettleRechecks: these are needed.
type ToolSettings struct {
	Config config.Config
	Log    *slog.Logger
	Conns  int32 // to the database; 0: as many as a command needs
}

// Tools are the capabilities that the operators' commands use. There is no outbound client behind
// them, and mail and a bank to read from only where they are set.
type Tools struct {
	Tenants    *tenant.Service
	Customers  *customer.Service
	Payments   *payment.Service
	Transfers  *transfer.Service
	Reconciler *reconcile.Service
	Webhooks   *webhook.Service
	Freezes    *freeze.Service
	Limits     *limit.Service
	Prices     *fee.Prices
	Operators  *operator.Service
	Archive    *archive.Service
	Pool       *pg.Pool // of what is no service's

	clock    clock.Synced // an operator's machine may be off
	back     time.Duration
	box      *secret.Box
	bank     provider.Bank   // nil without settings
	enqueuer *tasks.Enqueuer // nil without Redis
	lost     atomic.Int64    // of its tasks, when that was last asked
	redis    redis.UniversalClient
	closers  []func()
}

// OpenTools connects, refuses a schema that is behind (migrations.ErrBehind), and makes the
// capabilities. Close ends them.
func OpenTools(ctx context.Context, s ToolSettings) (*Tools, error) {
	t := &Tools{}
	if err := t.open(ctx, s); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tools) open(ctx context.Context, s ToolSettings) (err error) {
	cfg := s.Config
	t.back = cfg.ReconcileBack
	if cfg.DatabaseURL.IsZero() {
		return errors.New("AJO_DATABASE_URL is not set")
	}
	if !cfg.EncryptionKeys.IsZero() {
		if t.box, err = secret.ParseKeys(cfg.EncryptionKeys.Reveal()); err != nil {
			return fmt.Errorf("AJO_ENCRYPTION_KEYS: %w", err)
		}
	}
	if err = migrations.Check(ctx, cfg.DatabaseURL.Reveal()); err != nil {
		return err
	}
	if t.Pool, err = pg.Open(ctx, cfg.DatabaseURL.Reveal(), cmp.Or(s.Conns, toolConns)); err != nil {
		return fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	t.closers = append(t.closers, t.Pool.Close)
	if err = syncClock(ctx, t.Pool, &t.clock, s.Log); err != nil {
		return fmt.Errorf("AJO_DATABASE_URL: %w", err)
	}
	t.closers = append(t.closers, keepClockSynced(t.Pool, &t.clock, s.Log)) // the console's tools stay open
	if !cfg.RedisURL.IsZero() {
		r, err := redisconn.Open(cfg.RedisURL.Reveal(), redisconn.Options{})
		if err != nil {
			return fmt.Errorf("AJO_REDIS_URL: %w", err)
		}
		t.redis, t.enqueuer = r, tasks.NewEnqueuer(r, &t.clock, s.Log)
		t.closers = append(t.closers, func() { _ = r.Close() }, t.enqueuer.Close, work.EnqueueWith(t.Pool, t.enqueuer.Enqueue))
	}
	o := tenant.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box, Log: s.Log}
	if !cfg.SMTPURL.IsZero() || cfg.MailDir != "" {
		if o.Mail, err = mailer(cfg); err != nil {
			return err
		}
	}
	t.Tenants = tenant.New(o)
	t.Customers = customer.New(customer.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box, Log: s.Log})
	if err = t.openBank(ctx, s); err != nil {
		return err
	}
	t.Reconciler = reconcile.New(reconcile.Options{
		Pool: t.Pool, Bank: t.bank, Payments: t.Payments, Transfers: t.Transfers, Clock: &t.clock, Log: s.Log, MinAge: cfg.ConfirmMinAge,
	})
	t.Operators = &operator.Service{Pool: t.Pool, Clock: &t.clock, Box: t.box}
	t.Freezes = &freeze.Service{Pool: t.Pool, Clock: &t.clock}
	t.Limits = &limit.Service{Pool: t.Pool, Clock: &t.clock}
	t.Prices = &fee.Prices{Pool: t.Pool, Clock: &t.clock}
	t.Webhooks = webhook.New(webhook.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box})
	if t.Archive, err = archiveOf(cfg, t.Pool, &t.clock, s.Log); err != nil {
		return err
	}
	t.closers = append(t.closers, func() { _ = t.Tenants.Close(context.Background()) }, t.Payments.Close, t.Transfers.Close, t.Webhooks.Close)
	return nil
}

// openBank makes what asks the bank, or would if there were settings for it.
func (t *Tools) openBank(ctx context.Context, s ToolSettings) error {
	cfg := s.Config
	if cfg.ProviderURL != "" {
		o := bankOptions(cfg, &t.clock, s.Log)
		// another account's word is not asked for; what asks no bank goes on
		if err := transfer.CheckWallet(ctx, t.Pool, walletOf(cfg)); errors.Is(err, transfer.ErrWallet) {
			o.HTTP, o.Retries = &http.Client{Transport: refusing{err}}, -1
		} else if err != nil {
			return err
		}
		client, err := nomba.New(o)
		if err != nil {
			return fmt.Errorf("AJO_PROVIDER_*: %w", err)
		}
		t.bank = doubting(client, t.Pool, &t.clock, s.Log)
	}
	t.Payments = payment.New(payment.Options{
		Pool: t.Pool, Bank: t.bank, Clock: &t.clock, Log: s.Log, ConfirmDelays: cfg.ConfirmDelays, ConfirmMinAge: cfg.ConfirmMinAge,
	})
	var fees fee.Tiers
	if cfg.FeeTiers != "" {
		if err := fees.UnmarshalText([]byte(cfg.FeeTiers)); err != nil {
			return fmt.Errorf("AJO_FEE_TIERS: %w", err)
		}
	}
	var banks *transfer.BankList
	if t.bank != nil {
		banks = transfer.NewBankList(t.bank, bankAddress(cfg), t.redis, &t.clock, s.Log)
	}
	t.Transfers = transfer.New(transfer.Options{Pool: t.Pool, Bank: t.bank, Banks: banks, Clock: &t.clock, Log: s.Log, Rechecks: cfg.SettleRechecks, Fees: fees})
	return nil
}

// Close ends what was opened, after what is being enqueued.
func (t *Tools) Close() {
	for i := len(t.closers) - 1; i >= 0; i-- {
		t.closers[i]()
	}
	t.closers = nil
}

// Now is the time by Postgres' clock, which what is done goes by.
func (t *Tools) Now() time.Time { return t.clock.Now() }

// Enqueued reports whether everything since it was last asked has reached Redis. What has not is
// not lost: a worker's sweep finds it.
func (t *Tools) Enqueued() bool {
	if t.enqueuer == nil {
		return false
	}
	t.enqueuer.Flush()
	lost := t.enqueuer.Lost()
	return t.lost.Swap(lost) == lost
}

// DashboardLink is the address that opens the dashboard by a login link's token
// ([tenant.Service.LoginLink]). The token stands behind the #, which a browser does not send: so it
// is in no server's log, and the page itself gives it to POST /auth/login-link.
func DashboardLink(base string, token secret.Redacted) string {
	return strings.TrimSuffix(base, "/") + "/dashboard/#link=" + token.Reveal()
}

// CanSeal refuses what seals a secret when there are no keys for it.
func (t *Tools) CanSeal() error {
	if t.box == nil {
		return errors.New("AJO_ENCRYPTION_KEYS is not set")
	}
	return nil
}

// Rekey returns what seals values anew ([rekey.Service]), batch rows at a time.
func (t *Tools) Rekey(batch int, progress func(c rekey.Column, looked, sealed int)) (*rekey.Service, error) {
	if err := t.CanSeal(); err != nil {
		return nil, err
	}
	return &rekey.Service{Pool: t.Pool, Clock: &t.clock, Box: t.box, Batch: batch, Progress: progress}, nil
}

// RotateSecret gives a tenant a new signing secret ([tenant.Service.RotateWebhookSecret]).
func (t *Tools) RotateSecret(ctx context.Context, shown tenant.Record, by audit.By) (previousUntil *time.Time, err error) {
	if err := t.CanSeal(); err != nil {
		return nil, err
	}
	return t.Tenants.RotateWebhookSecret(ctx, shown, by)
}

// unfinishedTime is for how long one call of [Tools.CloseTenant] removes what was never opened: the
// bank is asked about each, and the console does not wait for longer than two minutes.
const unfinishedTime = time.Minute

// CloseTenant closes a tenant: it is suspended, its accounts are ended, what was never opened is
// removed, and once the workers have closed the accounts at the bank, the next call archives it. It
// answers how many are still to be closed; zero: the tenant is closed. Under the references of open
// the bank may have numbers that it has not closed ([Tools.CloseAccount]). It may be called again
// at any time.
func (t *Tools) CloseTenant(ctx context.Context, id uuid.UUID, by audit.By) (waiting int64, open []string, err error) {
	closed, err := t.Tenants.BeginClose(ctx, id, by)
	if err != nil || closed {
		return 0, nil, err
	}
	if err := account.ExpireAll(ctx, t.Pool, t.clock.Now(), id, "the tenant is closed"); err != nil {
		return 0, nil, err
	}
	if open, err = t.removeUnfinished(ctx, id, by); err != nil {
		return 0, open, err
	}
	waiting, err = t.Tenants.FinishClose(ctx, id, by)
	return waiting, open, err
}

// removeUnfinished removes a tenant's rows that never became accounts.
func (t *Tools) removeUnfinished(ctx context.Context, tenantID uuid.UUID, by audit.By) (open []string, err error) {
	began := t.clock.Now()
	rows, err := account.Unfinished(ctx, t.Pool, began, tenantID)
	if err != nil {
		return nil, err
	}
	for _, id := range rows {
		if t.clock.Now().Sub(began) > unfinishedTime {
			break
		}
		switch _, atBank, err := t.CloseAccount(ctx, id, by); {
		case errors.Is(err, account.ErrNotClosable), errors.Is(err, account.ErrNotFound): // somebody else has it
		case err != nil:
			return open, err
		case atBank != nil:
			open = append(open, id.String())
		}
	}
	return open, nil
}

// CloseAccount closes an account by hand ([account.CloseByHand]). A number that the bank may have
// opened for a row that never became an account is closed there too, after the commit, so that no
// tenant is given a closed number: atBank is the bank's answer, an error where it was not asked or
// gave none.
func (t *Tools) CloseAccount(ctx context.Context, id uuid.UUID, by audit.By) (r account.Record, atBank, err error) {
	r, err = account.CloseByHand(ctx, t.Pool, t.clock.Now(), id, by)
	if err != nil || r.Status != account.Provisioning {
		return r, nil, err
	}
	if t.bank == nil {
		return r, provider.ErrNotSet, nil
	}
	if atBank = t.bank.CloseAccount(ctx, id.String()); errors.Is(atBank, provider.ErrUnknown) {
		atBank = nil
	}
	return r, atBank, nil
}
