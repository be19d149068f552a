package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/archive"
	"ajo/internal/audit"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/fee"
	"ajo/internal/freeze"
	"ajo/internal/limit"
	"ajo/internal/operator"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/rekey"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/migrations"
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
// them, and mail and a bank to read from only where they are set. What only a role does has no
// settings here: to take the bank's events, to judge by its records, to pay out. So what the bank
// has not confirmed covers no refund by hand, whatever AJO_SETTLE_PROVISIONAL says. Close ends all.
type Tools struct {
	parts      // Pool is for what is no service's
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

	lost atomic.Int64 // of the enqueuer's tasks, when that was last asked
}

// OpenTools connects, refuses a schema that is behind (migrations.ErrBehind), and makes the
// capabilities.
func OpenTools(ctx context.Context, s ToolSettings) (*Tools, error) {
	t := &Tools{parts: parts{cfg: s.Config, log: s.Log, optional: true}}
	if err := t.open(ctx, cmp.Or(s.Conns, toolConns)); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tools) open(ctx context.Context, conns int32) (err error) {
	if t.cfg.DatabaseURL.IsZero() {
		return errors.New("AJO_DATABASE_URL is not set")
	}
	if err := migrations.Check(ctx, t.cfg.DatabaseURL.Reveal()); err != nil {
		return err
	}
	if err := t.connect(ctx, conns); err != nil {
		return err
	}
	// without rules for URLs: a policy keeps the hook that its tenant has set
	o := tenant.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box, Log: t.log}
	if !t.cfg.SMTPURL.IsZero() || t.cfg.MailDir != "" {
		if o.Mail, err = mailer(t.cfg); err != nil {
			return err
		}
	}
	if t.cfg.ProviderURL != "" {
		bank := t.bankOptions()
		// another account's word is not asked for; what asks no bank goes on
		if err := transfer.CheckWallet(ctx, t.Pool, t.wallet()); errors.Is(err, transfer.ErrWallet) {
			bank.HTTP, bank.Retries = &http.Client{Transport: refusing{err}}, -1
		} else if err != nil {
			return err
		}
		if err := t.openBank(bank); err != nil {
			return err
		}
	}
	if t.Archive, err = archiveOf(t.cfg, t.Pool, &t.clock, t.log); err != nil {
		return err
	}
	t.Tenants = tenant.New(o)
	t.Customers = customer.New(customer.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box, Log: t.log})
	t.Payments = payment.New(t.paymentOptions())
	t.Transfers = transfer.New(t.transferOptions())
	t.Reconciler = t.reconciler(t.Payments, t.Transfers)
	t.Operators = &operator.Service{Pool: t.Pool, Clock: &t.clock, Box: t.box}
	t.Freezes = &freeze.Service{Pool: t.Pool, Clock: &t.clock}
	t.Limits = &limit.Service{Pool: t.Pool, Clock: &t.clock}
	t.Prices = &fee.Prices{Pool: t.Pool, Clock: &t.clock}
	t.Webhooks = webhook.New(webhook.Options{Pool: t.Pool, Clock: &t.clock, Box: t.box})
	t.closers = append(t.closers, func() { _ = t.Tenants.Close(context.Background()) }, t.Payments.Close, t.Transfers.Close, t.Webhooks.Close)
	return nil
}

// refusing is a bank's connection that none of its calls leaves.
type refusing struct{ why error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.why }

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
