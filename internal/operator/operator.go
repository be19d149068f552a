// Package operator owns the people who may log in to the console on the operations port: their
// accounts, which the command line makes, their logins and their sessions.
//
// What always holds: nobody gets in without a password and a code of an authenticator, and no code
// twice; whoever makes an account learns neither; a role is never changed, and is read anew for
// every request; of a removed operator no session works; every change of an account and every login
// has its audit line.
package operator

import (
	"context"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Role is what an operator may do.
type Role string

// The roles. An Actor does in the console what the command line does; a Viewer changes nothing.
const (
	Viewer Role = "viewer"
	Actor  Role = "operator"
)

// May reports whether who has the role may do what asks for the other.
func (r Role) May(asked Role) bool { return r == Actor || r == asked }

// Limits of time.
const (
	SessionLife = 12 * time.Hour
	SetupLife   = 24 * time.Hour
)

// Refusals of a change.
var (
	ErrName     = errs.New(errs.Invalid, "name must begin with a lower-case letter, and have at most 40 lower-case letters, digits, dots, hyphens and underscores")
	ErrRole     = errs.New(errs.Invalid, "role must be viewer or operator")
	ErrExists   = errs.New(errs.Conflict, "an operator with this name already exists")
	ErrNotFound = errs.New(errs.NotFound, "operator not found")
)

// Service keeps the operators. Its Box opens and seals the secrets of their authenticators.
type Service struct {
	Pool  *pg.Pool
	Clock clock.Clock
	Box   *secret.Box
}

// Operator is a person who may log in to the console, or could once.
type Operator struct {
	ID        uuid.UUID  `json:"id"`
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	CreatedAt time.Time  `json:"createdAt"`
	SetUpAt   *time.Time `json:"setUpAt"` // the first login; nil: none yet, or none since a reset
	RemovedAt *time.Time `json:"removedAt"`
	Sessions  int64      `json:"sessions"` // open ones
}

// Invitation is what a new operator is given: the code by which they choose a password. It works
// until the first login, and is stored nowhere.
type Invitation struct {
	Name      string
	Role      Role
	Code      secret.Redacted
	ExpiresAt time.Time
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,39}$`)

func target(name string) string { return "operator:" + name }

type roleShown struct{ Role Role }

// Check refuses an operator that cannot be added: [ErrName], [ErrRole], [ErrExists].
func (s *Service) Check(ctx context.Context, name string, role Role) error {
	switch {
	case !nameForm.MatchString(name):
		return ErrName
	case role != Viewer && role != Actor:
		return ErrRole
	}
	_, err := s.Find(ctx, name)
	switch {
	case err == nil:
		return ErrExists
	case errs.As(err) == ErrNotFound:
		return nil
	}
	return err
}

// Add makes an account, which cannot log in before the person has used the invitation. [ErrName],
// [ErrRole], [ErrExists].
func (s *Service) Add(ctx context.Context, name string, role Role, by audit.By) (Invitation, error) {
	if err := s.Check(ctx, name, role); err != nil {
		return Invitation{}, err
	}
	return s.invite(ctx, "operator.add", name, func(tx pg.Tx, now time.Time, hash []byte, until time.Time) (Role, error) {
		_, err := tx.Exec(ctx, `INSERT INTO operators (id, name, role, setup_hash, setup_expires_at, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			uuid.Must(uuid.NewV7()), name, role, hash, until, now)
		if pg.IsUnique(err, "operators_name") {
			err = ErrExists
		}
		return role, err
	}, by)
}

// Reset takes an operator's password, second factor and sessions away, and gives a new invitation.
// [ErrNotFound].
func (s *Service) Reset(ctx context.Context, name string, by audit.By) (Invitation, error) {
	return s.invite(ctx, "operator.reset", name, func(tx pg.Tx, _ time.Time, hash []byte, until time.Time) (role Role, err error) {
		var id uuid.UUID
		err = tx.QueryRow(ctx, `
			UPDATE operators SET password_hash = NULL, totp_secret = NULL, totp_confirmed_at = NULL, totp_last_step = NULL, setup_hash = $2, setup_expires_at = $3
			WHERE name = $1 AND removed_at IS NULL RETURNING id, role`, name, hash, until).Scan(&id, &role)
		if err != nil {
			return "", pg.OrNone(err, ErrNotFound)
		}
		return role, endSessions(ctx, tx, id)
	}, by)
}

func (s *Service) invite(ctx context.Context, action, name string, write func(tx pg.Tx, now time.Time, hash []byte, until time.Time) (Role, error), by audit.By) (out Invitation, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		out = Invitation{Name: name, Code: secret.NewToken(), ExpiresAt: now.Add(SetupLife)}
		hash := secret.Hash(out.Code.Reveal())
		if out.Role, err = write(tx, now, hash[:], out.ExpiresAt); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry(action, target(name), roleShown{out.Role}))
	})
	return out, err
}

// Remove ends an operator's sessions and account for good. The name may be given again.
// [ErrNotFound].
func (s *Service) Remove(ctx context.Context, name string, by audit.By) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var id uuid.UUID
		var role Role
		err := tx.QueryRow(ctx, `
			UPDATE operators SET removed_at = $2, password_hash = NULL, totp_secret = NULL, totp_confirmed_at = NULL, totp_last_step = NULL,
				setup_hash = NULL, setup_expires_at = NULL
			WHERE name = $1 AND removed_at IS NULL RETURNING id, role`, name, now).Scan(&id, &role)
		if err != nil {
			return pg.OrNone(err, ErrNotFound)
		}
		if err := endSessions(ctx, tx, id); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("operator.remove", target(name), roleShown{role}))
	})
}

func endSessions(ctx context.Context, tx pg.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `DELETE FROM operator_sessions WHERE operator_id = $1`, id)
	return err
}

// columns are those of an [Operator]; now is the argument that has the present time.
func columns(now string) string {
	return `SELECT o.id, o.name, o.role, o.created_at, o.totp_confirmed_at, o.removed_at,
		(SELECT count(*) FROM operator_sessions s WHERE s.operator_id = o.id AND s.expires_at > ` + now + `) FROM operators o`
}

// Find returns an operator who is not removed. [ErrNotFound].
func (s *Service) Find(ctx context.Context, name string) (Operator, error) {
	return pg.One(ctx, s.Pool, pgx.RowToStructByPos[Operator], ErrNotFound, columns("$1")+` WHERE o.name = $2 AND o.removed_at IS NULL`, s.Clock.Now(), name)
}

// List returns a page of the operators, newest first, also of those who are removed. A bad cursor
// is [page.ErrCursor].
func (s *Service) List(ctx context.Context, r page.Request) ([]Operator, page.Info, error) {
	list := pg.List[Operator]{Name: page.Operators, ID: func(o Operator) uuid.UUID { return o.ID }, Row: pgx.RowToStructByPos[Operator]}
	return list.Page(ctx, s.Pool, r, columns("@now")+` WHERE o.id < @before ORDER BY o.id DESC LIMIT @limit`, pgx.NamedArgs{"now": s.Clock.Now()})
}
