// Package freeze owns the freezes: what operators have stopped, from when, why and until when.
//
// What always holds: while a freeze stands, no payout of its subject is submitted to the bank. The
// submission's own statement reads the table (package transfer), so no message, cache or worker
// stands between the freeze and its effect; [Service.Begin] returns only when the transactions
// that may have read the table before it have ended. A frozen payout stays pending. A freeze
// changes neither entries nor balances: what comes in is posted, and stands still with the rest.
// (docs/decisions.md, "Freezes".)
package freeze

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Scope says whose payouts a freeze stops.
type Scope string

// The scopes.
const (
	Account Scope = "account"
	Tenant  Scope = "tenant"
	Payouts Scope = "payouts" // all of them
	// a tenant that is suspended, whose payouts stop as under a freeze; only in lists
	Suspension Scope = "suspension"
)

// Status is whether a freeze stands.
type Status string

// The statuses.
const (
	Standing Status = "standing"
	Ended    Status = "ended" // lifted, or its time has come
)

// Refusals.
var (
	ErrNotFound = errs.New(errs.NotFound, "freeze not found")
	ErrUntil    = errs.New(errs.Invalid, "a freeze must end in the future, or have no end")
	ErrEnded    = errs.New(errs.Unprocessable, "the freeze has ended")
	ErrStatus   = errs.New(errs.Invalid, "status must be standing or ended")
)

// Freeze is a freeze as operators see it.
type Freeze struct {
	ID        uuid.UUID // uuid.Nil of a suspension, which ends with the tenant's activation
	Scope     Scope
	Subject   uuid.UUID // the account or tenant; uuid.Nil: all payouts
	TenantID  *uuid.UUID
	Requests  bool // new settle requests are refused too
	Reason    string
	Actor     string
	CreatedAt *time.Time // nil of a suspension: its line of the audit log is removed
	Until     *time.Time // when it ends by itself; nil: never
	LiftedAt  *time.Time
}

// Stands reports whether the freeze stands at a time.
func (f *Freeze) Stands(now time.Time) bool {
	return f.LiftedAt == nil && (f.Until == nil || f.Until.After(now))
}

const columns = `id, scope, subject, tenant_id, requests, reason, actor, created_at, until, lifted_at`

// New asks for a freeze.
type New struct {
	Scope   Scope
	Subject uuid.UUID // of an account or a tenant that exists; uuid.Nil with [Payouts]
	// of an account: new settle requests are refused too, instead of accepted to wait
	Requests bool
	Until    *time.Time
}

// Service has the use cases. All are operators'.
type Service struct {
	Pool  *pg.Pool
	Clock clock.Clock
}

// Begin freezes. Once it has returned without an error, nothing of the subject is submitted that
// had not been, anywhere, and no money of a frozen account is moved to another one. [ErrOpen] says
// that the freeze stands, and that transactions from before it were not seen to end. [ErrUntil].
func (s *Service) Begin(ctx context.Context, n New, by audit.By) (f Freeze, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if n.Until != nil && !n.Until.After(now) {
			return ErrUntil
		}
		f, err = pg.One(ctx, tx, pgx.RowToStructByPos[Freeze], ErrNotFound, `
			INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at, until)
			VALUES ($1, $2, $3, CASE $2 WHEN 'tenant' THEN $3 WHEN 'account' THEN (SELECT tenant_id FROM accounts WHERE id = $3) END, $4, $5, $6, $7, $8)
			RETURNING `+columns,
			uuid.Must(uuid.NewV7()), n.Scope, n.Subject, n.Requests, by.Reason, by.Actor, now, n.Until)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("freeze."+string(f.Scope), f.Target(), struct {
			Freeze   uuid.UUID
			Requests bool
			Until    *time.Time
		}{f.ID, f.Requests, f.Until}).Of(f.tenant()))
	})
	if err != nil {
		return f, err
	}
	if f.Scope == Account {
		// whoever moves its money looks for freezes under the lock of its balance: who has it
		// already is waited for
		if err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error { return ledger.LockBalances(ctx, tx, []uuid.UUID{f.Subject}) }); err != nil {
			return f, errors.Join(ErrOpen, err)
		}
	}
	return f, AwaitSubmissions(ctx, s.Pool)
}

// tenant is the tenant whose payouts, or an account of which, the freeze stops; uuid.Nil for all.
func (f *Freeze) tenant() uuid.UUID {
	if f.TenantID == nil {
		return uuid.Nil
	}
	return *f.TenantID
}

// Target names whose payouts the freeze stops, as the audit log does.
func (f *Freeze) Target() string {
	if f.Scope == Payouts {
		return "payouts:all"
	}
	return string(f.Scope) + ":" + f.Subject.String()
}

// Lift ends a freeze. What waits for nothing else goes on at once ([ErrNotResumed]: later).
// [ErrNotFound], [ErrEnded].
func (s *Service) Lift(ctx context.Context, id uuid.UUID, by audit.By) (f Freeze, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		f, err = pg.One(ctx, tx, pgx.RowToStructByPos[Freeze], ErrNotFound, `SELECT `+columns+` FROM freezes WHERE id = $1 FOR UPDATE`, id)
		switch {
		case err != nil:
			return err
		case !f.Stands(now):
			return ErrEnded
		}
		f.LiftedAt = &now
		if _, err := tx.Exec(ctx, `UPDATE freezes SET lifted_at = $2 WHERE id = $1`, id, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("freeze.lift", f.Target(), struct{ Freeze uuid.UUID }{f.ID}).Of(f.tenant()))
	})
	if err != nil {
		return f, err
	}
	return f, Resume(ctx, s.Pool, s.Clock.Now(), f.Scope, f.Subject)
}

// Find returns a freeze; [ErrNotFound].
func (s *Service) Find(ctx context.Context, id uuid.UUID) (Freeze, error) {
	return pg.One(ctx, s.Pool, pgx.RowToStructByPos[Freeze], ErrNotFound, `SELECT `+columns+` FROM freezes WHERE id = $1`, id)
}

// MaxSuspended is how many suspended tenants a list has.
const MaxSuspended = 100

// LacksSuspended reports whether a list may lack suspended tenants: it has as many as fit.
func LacksSuspended(list []Freeze) bool {
	return len(list) >= MaxSuspended && list[MaxSuspended-1].Scope == Suspension
}

// suspendedSQL has who suspended a tenant, and why, from the audit log, which keeps it for a year.
const suspendedSQL = `
		SELECT '00000000-0000-0000-0000-000000000000'::uuid, 'suspension', t.id, t.id, true, coalesce(l.reason, ''), coalesce(l.actor, ''), l.at,
			NULL::timestamptz, NULL::timestamptz
		FROM tenants t LEFT JOIN LATERAL (
			SELECT reason, actor, at FROM audit_log WHERE tenant_id = t.id AND action IN ('tenant.suspend', 'tenant.begin-close', 'tenant.close') ORDER BY id DESC LIMIT 1) l ON true
		WHERE t.status = 'suspended' ORDER BY 8 DESC NULLS LAST LIMIT $1`

// List returns a page of freezes, newest first, of one status or, if it is empty, of all. Before
// those that stand, the first page has the newest 100 tenants that are suspended. [ErrStatus], or
// [page.ErrCursor].
func (s *Service) List(ctx context.Context, status Status, r page.Request) ([]Freeze, page.Info, error) {
	if status != "" && status != Standing && status != Ended {
		return nil, page.Info{}, ErrStatus
	}
	var suspended []Freeze
	if r.After == "" && status != Ended {
		var err error
		if suspended, err = pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[Freeze], suspendedSQL, MaxSuspended); err != nil {
			return nil, page.Info{}, err
		}
	}
	list := pg.List[Freeze]{Name: page.Freezes, ID: func(f Freeze) uuid.UUID { return f.ID }, Row: pgx.RowToStructByPos[Freeze]}
	freezes, info, err := list.Filtered(ctx, s.Pool, r, `freezes WHERE true`, `
		SELECT `+columns+` FROM freezes
		WHERE id < @before AND id >= @floor AND (@status = '' OR (@status = 'standing') = (lifted_at IS NULL AND coalesce(until, 'infinity') > @now))
		ORDER BY id DESC LIMIT @limit`, pgx.NamedArgs{"status": string(status), "now": s.Clock.Now()})
	return append(suspended, freezes...), info, err
}
