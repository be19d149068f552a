// Package tenant owns the tenants, their members with their sessions, and their API keys.
//
// Invariants: a tenant exists once the code of its registration was entered, and one registration
// changes nothing of another. A tenant has one owner; an e-mail address opens one tenant. Only
// hashes of passwords, codes, keys and session tokens are stored. A key or session is looked up for
// every request, so that it stops working as soon as it is rotated or ended. No answer, by content
// or time, reveals whether an e-mail is registered. Specification, "Tenant" and "Onboarding and
// session"; decisions, "Onboarding, sessions, keys".
package tenant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/mail"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// The statuses of a tenant. Only the command line changes them.
const (
	Active    = "active"
	Suspended = "suspended"
	Closed    = "closed" // its accounts are closed at the bank; its books stay
)

// Refusals of a credential.
var (
	ErrUnauthorized = errs.New(errs.Unauthorized, "unauthorized")
	ErrSuspended    = errs.New(errs.Forbidden, "tenant is suspended")
)

// Tenant is an organisation. Its JSON form is the profile of GET /auth/me (specification,
// "Tenant").
type Tenant struct {
	ID           uuid.UUID `json:"id"`
	Name         string    `json:"name"`
	Email        string    `json:"email"` // its owner's
	Status       string    `json:"status"`
	APIKeySuffix string    `json:"apiKeySuffix"` // of the main key; "" when it was revoked
	KYCStatus    KYCStatus `json:"kycStatus"`
	BusinessType *string   `json:"businessType"`
	WebhookURL   string    `json:"webhookUrl"` // "" until set
	CreatedAt    time.Time `json:"createdAt"`
	// may approve and reject KYC in production; only the command line sets it
	Operator bool `json:"-"`
	// the owner and finance need a second factor
	TOTPRequired bool `json:"-"`
	// Key is the API key that the request came with; the zero value for a session.
	Key Key `json:"-"`
	// Member is whose session the request came with; the zero value for an API key.
	Member Member `json:"-"`
}

// rowColumns are those of a tenant's own row, in the order of rowFields. columns are all, in the
// order of fields.
const (
	rowColumns = `t.id, t.name, t.email, t.status, t.kyc_status, t.business_type, t.webhook_url, t.created_at, t.operator, t.totp_required`
	columns    = rowColumns + `, coalesce((SELECT m.suffix FROM api_keys m WHERE m.tenant_id = t.id AND m.main), '')`
)

func (t *Tenant) rowFields() []any {
	return []any{&t.ID, &t.Name, &t.Email, &t.Status, &t.KYCStatus, &t.BusinessType, &t.WebhookURL, &t.CreatedAt, &t.Operator, &t.TOTPRequired}
}

func (t *Tenant) fields() []any { return append(t.rowFields(), &t.APIKeySuffix) }

// Options are what a Service needs.
type Options struct {
	Pool      *pg.Pool
	Clock     clock.Clock
	Box       *secret.Box // seals signing secrets and the hashes of one-time codes
	Mail      mail.Sender
	Log       *slog.Logger
	Callbacks safehttp.Rules // of the webhook URL
	// KeyKind is that of the keys that are made and accepted; "": live ones
	KeyKind secret.KeyKind
}

// Service has the use cases of tenants. Close it to send the last e-mails.
type Service struct {
	Options
	mails *mailQueue
	keys  *batch.Coalescer[[sha256.Size]byte, Tenant]
	uses  *keyUses
}

// New returns the service and starts its mailers.
func New(o Options) *Service {
	o.KeyKind = cmp.Or(o.KeyKind, secret.LiveKey)
	s := &Service{Options: o, mails: newMailQueue(o.Mail, o.Log), uses: newKeyUses(o.Pool, o.Log)}
	s.keys = batch.New(keyWriters, keyBatch, s.byKeys)
	return s
}

// Close accepts no more e-mails and waits until the queued ones are sent, or until ctx ends. It
// records the last uses of keys. After it, no key can be looked up.
func (s *Service) Close(ctx context.Context) error {
	s.keys.Close()
	s.uses.close(ctx)
	return s.mails.drain(ctx)
}

// admit refuses a suspended or closed tenant, whose credentials are valid, with [ErrSuspended].
func admit(t Tenant) error {
	if t.Status != Active {
		return ErrSuspended
	}
	return nil
}

// lockMode is how a tenant's row is locked: the end of the statement that reads it.
type lockMode string

// Whoever opens a session takes forLogin, and what ends sessions or changes who may open one takes
// forChange: so one of them sees the other. Neither blocks inserts of rows that refer to the
// tenant, such as deliveries.
const (
	forLogin  lockMode = ` WHERE t.id = $1 FOR SHARE`
	forChange lockMode = ` WHERE t.id = $1 FOR NO KEY UPDATE`
)

// locked is a tenant's row while its lock is held. It has no APIKeySuffix, which another table has.
type locked struct {
	Tenant
	secret        []byte     // signs deliveries; sealed; nil: there is none yet
	previousUntil *time.Time // until when the secret before it signs; nil: there is none
	endpoints     int        // how many there are beside the webhook URL
}

// lockTenant locks the tenant's row and returns it. What it is compared with must be read by a
// later statement, which sees what was committed before the lock was had. [ErrNotFound].
func lockTenant(ctx context.Context, tx pg.Tx, id uuid.UUID, mode lockMode) (t locked, err error) {
	err = tx.QueryRow(ctx, `
		SELECT `+rowColumns+`, t.webhook_secret, t.webhook_secret_previous_until, t.webhook_endpoints FROM tenants t`+string(mode), id).
		Scan(append(t.rowFields(), &t.secret, &t.previousUntil, &t.endpoints)...)
	return t, pg.OrNone(err, ErrNotFound)
}

// locking makes a change of a tenant in a transaction, with its row locked for a change.
// [ErrNotFound].
func (s *Service) locking(ctx context.Context, id uuid.UUID, do func(tx pg.Tx, now time.Time, t locked) error) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		t, err := lockTenant(ctx, tx, id, forChange)
		if err != nil {
			return err
		}
		return do(tx, now, t)
	})
}
