package tenant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// previousSecretLife is how long the previous signing secret signs beside a new one (decisions,
// "Outbound deliveries").
const previousSecretLife = 24 * time.Hour

// Refusals of operators' requests.
var (
	ErrNotFound = errs.New(errs.NotFound, "tenant not found")
	ErrPending  = errs.New(errs.NotFound, "tenant not found: a registration of this e-mail waits for its code")
	ErrRotated  = errs.New(errs.Conflict, "the tenant was given another signing secret meanwhile: read what it has, and decide again")
	ErrStatus   = errs.New(errs.Invalid, "status must be active, suspended or closed")
)

// Record is a tenant as operators see it. No secret is part of it.
type Record struct {
	ID            uuid.UUID
	Name          string
	Email         string
	Status        string
	Operator      bool
	PayoutFeeBy   FeeBearer // who bears what the bank takes for its payouts
	KYCStatus     KYCStatus
	BusinessType  *string
	APIKeySuffix  string
	WebhookURL    string
	WebhookSecret bool // whether deliveries are signed
	// the previous secret signs until then; nil: there is none
	WebhookSecretPreviousUntil *time.Time
	CreatedAt, UpdatedAt       time.Time
}

const recordColumns = `id, name, email, status, operator, payout_fee_by, kyc_status, business_type,
	coalesce((SELECT m.suffix FROM api_keys m WHERE m.tenant_id = tenants.id AND m.main), ''), webhook_url,
	webhook_secret IS NOT NULL, webhook_secret_previous_until, created_at, updated_at`

// List returns a page of tenants, newest first, of one status or, if it is empty, of all. For
// operators. [ErrStatus], or [page.ErrCursor].
func (s *Service) List(ctx context.Context, status string, r page.Request) ([]Record, page.Info, error) {
	if status != "" && status != Active && status != Suspended && status != Closed {
		return nil, page.Info{}, ErrStatus
	}
	at, id, err := newest(ctx, s.Pool, r)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Record], `
		SELECT `+recordColumns+` FROM tenants
		WHERE (created_at, id) < ($1, $2) AND ($3 = '' OR status = $3) ORDER BY created_at DESC, id DESC LIMIT $4`, at, id, status, r.Limit+1)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(t Record) string { return page.ID(page.Tenants, t.ID) })
	return list, info, nil
}

// newest is where a page begins. Ids of tenants are random, so the row that the cursor names gives
// the time. Tenants are never removed, so cursors stay valid.
func newest(ctx context.Context, q pg.Querier, r page.Request) (at time.Time, id uuid.UUID, err error) {
	id, ok, err := page.ParseID(page.Tenants, r.After)
	if err != nil || !ok {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max, err
	}
	err = q.QueryRow(ctx, `SELECT created_at FROM tenants WHERE id = $1`, id).Scan(&at)
	return at, id, pg.OrNone(err, page.ErrCursor)
}

// Find returns a tenant by its id or its e-mail, for operators. [ErrNotFound], or [ErrPending]
// when there is only a registration.
func (s *Service) Find(ctx context.Context, idOrEmail string) (Record, error) {
	id, _ := uuid.Parse(idOrEmail) // uuid.Nil, which no tenant has, when it is an e-mail
	t, err := pg.One(ctx, s.Pool, pgx.RowToStructByPos[Record], ErrNotFound, `SELECT `+recordColumns+` FROM tenants WHERE id = $1 OR email = $2`, id, NormalizeEmail(idOrEmail))
	if !errors.Is(err, ErrNotFound) {
		return t, err
	}
	var pending bool
	err = s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pending_registrations WHERE (id = $1 OR email = $2) AND code_expires_at > $3)`,
		id, NormalizeEmail(idOrEmail), s.Clock.Now()).Scan(&pending)
	switch {
	case err != nil:
		return t, err
	case pending:
		return t, ErrPending
	}
	return t, ErrNotFound
}

// Suspend blocks the tenant's credentials from the next request on: its key is refused, and its
// sessions end. Its accounts keep receiving: payments are posted and delivered. Settlements that
// were submitted to the bank are completed; the others stay pending until it is active again (those
// that await approval fail after a day), and none of them is submitted once this has returned
// (freeze.ErrOpen: not known). It answers false, and records nothing, when the tenant is suspended
// already. For operators; [ErrNotFound].
func (s *Service) Suspend(ctx context.Context, id uuid.UUID, by audit.By) (bool, error) {
	changed, err := s.setStatus(ctx, id, Suspended, "tenant.suspend", by)
	if err != nil {
		return false, err
	}
	// whoever suspended it before may not have seen the end of what was open
	return changed, freeze.AwaitSubmissions(ctx, s.Pool)
}

// Activate ends a suspension, or opens a closed tenant again, which has no key and no open account
// then. The tenant's key works again; it must log in anew. Its pending
// settlements go on (freeze.ErrNotResumed: later). It answers false, and records nothing, when the
// tenant is active already. For operators; [ErrNotFound].
func (s *Service) Activate(ctx context.Context, id uuid.UUID, by audit.By) (bool, error) {
	changed, err := s.setStatus(ctx, id, Active, "tenant.activate", by)
	if err != nil || !changed {
		return changed, err
	}
	return true, freeze.Resume(ctx, s.Pool, s.Clock.Now(), freeze.Tenant, id)
}

func (s *Service) setStatus(ctx context.Context, id uuid.UUID, to, action string, by audit.By) (changed bool, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		if changed = t.Status != to; !changed {
			return nil
		}
		if err := enter(ctx, tx, now, id, to); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry(action, target(id), struct{ Name, From, To string }{t.Name, t.Status, to}).Of(id))
	})
	return changed && err == nil, err
}

// enter sets the status of a tenant, and ends its sessions.
func enter(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, status string) error {
	if _, err := tx.Exec(ctx, `UPDATE tenants SET status = $2, updated_at = $3 WHERE id = $1`, id, status, now); err != nil {
		return err
	}
	_, err := deleteSessions(ctx, tx, now, id, uuid.Nil, secret.Redacted{})
	return err
}

// EndSessions ends all sessions of the tenant, its login links and its reset codes, and answers
// how many sessions there were; with an e-mail only those of that member. Who had them must log in
// again. For operators; [ErrNotFound], [ErrMemberNotFound].
func (s *Service) EndSessions(ctx context.Context, id uuid.UUID, email string, by audit.By) (ended int64, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) (err error) {
		var m Member
		of, name := target(id), t.Name
		if email != "" {
			if m, err = readJoined(ctx, tx, id, email); err != nil {
				return err
			}
			of, name = memberTarget(m.ID), m.Email
		}
		if ended, err = deleteSessions(ctx, tx, now, id, m.ID, secret.Redacted{}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.end-sessions", of, struct {
			Name     string
			Sessions int64
		}{name, ended}).Of(id))
	})
	return ended, err
}

// SetOperator sets whether the tenant's sessions may approve and reject KYC in production. It
// answers false, and records nothing, when that is so already. For operators; [ErrNotFound].
func (s *Service) SetOperator(ctx context.Context, id uuid.UUID, operator bool, by audit.By) (changed bool, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		if changed = t.Operator != operator; !changed {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET operator = $2, updated_at = $3 WHERE id = $1`, id, operator, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.operator", target(id), struct {
			Name     string
			Operator bool
		}{t.Name, operator}).Of(id))
	})
	return changed && err == nil, err
}

// FeeBearer is who bears what the bank takes for payouts.
type FeeBearer string

// The bearers.
const (
	PlatformBears FeeBearer = "platform" // as long as operators have set nothing else
	TenantBears   FeeBearer = "tenant"   // by a debit of its own beside each payout's
)

// SetPayoutFee sets who bears what the bank takes for the payouts that are accepted from now on. It
// answers false, and records nothing, when that is so already. For operators; [ErrNotFound].
func (s *Service) SetPayoutFee(ctx context.Context, id uuid.UUID, bearer FeeBearer, by audit.By) (changed bool, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		tag, err := tx.Exec(ctx, `UPDATE tenants SET payout_fee_by = $2, updated_at = $3 WHERE id = $1 AND payout_fee_by <> $2`, id, string(bearer), now)
		if changed = err == nil && tag.RowsAffected() > 0; !changed {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.payout-fee", target(id), struct {
			Name   string
			Bearer FeeBearer
		}{t.Name, bearer}))
	})
	return changed && err == nil, err
}

// RotateWebhookSecret gives the tenant a new signing secret. The previous one signs beside it
// until the returned time (nil when there was none). The tenant reads the new one as before (POST
// /auth/webhook-secret). At most two secrets sign: an older one that was still signing stops, as
// whoever was shown the tenant has read. For operators; [ErrNotFound], and [ErrRotated] if its
// secrets are not those of the tenant that was shown any more.
func (s *Service) RotateWebhookSecret(ctx context.Context, shown Record, by audit.By) (previousUntil *time.Time, err error) {
	id := shown.ID
	place := func(column string) secret.Place {
		return secret.Place{Table: "tenants", Column: column, Row: id.String()}
	}
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		until := func(t *time.Time) time.Time {
			if t == nil {
				return time.Time{}
			}
			return *t
		}
		if shown.WebhookSecret != (t.secret != nil) || !until(shown.WebhookSecretPreviousUntil).Equal(until(t.previousUntil)) {
			return ErrRotated
		}
		var previous []byte
		previousUntil = nil
		if t.secret != nil { // bound to its column, so it is encrypted again for the other
			plain, err := s.Box.Open(place("webhook_secret"), t.secret)
			if err != nil {
				return fmt.Errorf("webhook_secret of tenant %s: %w", id, err)
			}
			until := now.Add(previousSecretLife)
			previous, previousUntil = s.Box.Seal(place("webhook_secret_previous"), plain), &until
		}
		fresh := s.Box.Seal(place("webhook_secret"), []byte(secret.NewSigningSecret().Reveal()))
		if _, err := tx.Exec(ctx, `
			UPDATE tenants SET webhook_secret = $2, webhook_secret_previous = $3, webhook_secret_previous_until = $4, updated_at = $5 WHERE id = $1`,
			id, fresh, previous, previousUntil, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.rotate-secret", target(id), struct {
			Name          string
			PreviousUntil *time.Time
		}{t.Name, previousUntil}).Of(id))
	})
	return previousUntil, err
}

func target(id uuid.UUID) string { return "tenant:" + id.String() }
