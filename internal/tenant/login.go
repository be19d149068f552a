package tenant

import (
	"context"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// SessionLife is how long a session lasts (specification, "Limits").
const SessionLife = 7 * 24 * time.Hour

// tokenLength is a session token's, in characters; anything else does not reach the database.
const tokenLength = 43

// Refusals of a login.
var (
	ErrCredentials = errs.New(errs.Unauthorized, "invalid credentials")
	ErrUnverified  = errs.New(errs.Forbidden, "email is not verified")
)

// Session is a successful login. Token goes into the cookie; only its hash is stored.
type Session struct {
	Token    secret.Redacted
	TenantID uuid.UUID
	Name     string
	Email    string
	Expires  time.Time
	First    bool // nobody has opened one of the tenant before
}

// Login opens a session. Anyone may call it. [ErrCredentials] for a wrong password and, after the
// same time, for an unknown address. [ErrSuspended] only to whoever knows the password.
// [ErrUnverified] to whoever registered the address last, within [registrationLife], whether it was
// taken or not, so that a registration does not reveal that. Two passwords are hashed each time.
// The audit log has the session, and a wrong password for a tenant, within bounds, after the
// answer. (Specification, POST /auth/login.)
func (s *Service) Login(ctx context.Context, email string, password secret.Redacted, from netip.Addr) (Session, error) {
	long := utf8.RuneCountInString(email) > maxEmail
	email = NormalizeEmail(email)
	switch {
	case email == "":
		return Session{}, ErrEmailMissing
	case password.IsZero():
		return Session{}, ErrPasswordMissing
	case utf8.RuneCountInString(password.Reveal()) > maxPassword, long:
		return Session{}, ErrCredentials // no account has such a password
	}
	var t Tenant
	var hash, pending string
	err := s.Pool.QueryRow(ctx, `
		SELECT coalesce((SELECT r.password_hash FROM pending_registrations r WHERE r.email = $1 AND r.created_at > $2
			ORDER BY r.created_at DESC, r.id DESC LIMIT 1), '')`, email, s.Clock.Now().Add(-registrationLife)).Scan(&pending)
	if err != nil {
		return Session{}, err
	}
	err = s.Pool.QueryRow(ctx, `SELECT `+columns+`, t.password_hash FROM tenants t WHERE t.email = $1`, email).Scan(append(t.fields(), &hash)...)
	if err != nil && !pg.IsNoRows(err) {
		return Session{}, err
	}
	right, err := isPassword(ctx, hash, password)
	if err != nil {
		return Session{}, err
	}
	waiting, err := isPassword(ctx, pending, password)
	switch {
	case err != nil:
		return Session{}, err
	case !right && waiting:
		return Session{}, ErrUnverified
	case !right:
		if t.ID != uuid.Nil {
			s.noteRefusal(t.ID, from)
		}
		return Session{}, ErrCredentials
	}
	if _, err := admit(t); err != nil {
		return Session{}, err
	}
	if secret.NeedsRehash(hash) {
		if hash, err = s.rehash(ctx, t.ID, hash, password); err != nil {
			return Session{}, err
		}
	}
	return s.openSession(ctx, t.ID, hash, from)
}

// isPassword reports whether the hash is of the password. Without a hash it takes the same time and
// reports false.
func isPassword(ctx context.Context, hash string, password secret.Redacted) (bool, error) {
	if hash == "" {
		return false, secret.DummyVerify(ctx, password)
	}
	return secret.VerifyPassword(ctx, hash, password)
}

// rehash replaces a hash with older parameters and returns its replacement, or the old hash if
// somebody else replaced it first.
func (s *Service) rehash(ctx context.Context, id uuid.UUID, old string, password secret.Redacted) (string, error) {
	hash, err := secret.HashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	set, err := s.Pool.Exec(ctx, `UPDATE tenants SET password_hash = $3, updated_at = $4 WHERE id = $1 AND password_hash = $2`, id, old, hash, s.Clock.Now())
	if err != nil || set.RowsAffected() == 0 {
		return old, err
	}
	return hash, nil
}

// openSession opens a session of a tenant whose password hash was hash a moment ago. The tenant's
// row is locked until the session is committed. So a change of password or status that ends all
// sessions either sees this one, or is seen here.
func (s *Service) openSession(ctx context.Context, id uuid.UUID, hash string, from netip.Addr) (out Session, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var t Tenant
		err := tx.QueryRow(ctx, `SELECT `+columns+` FROM tenants t WHERE t.id = $1 AND t.password_hash = $2 FOR SHARE`, id, hash).Scan(t.fields()...)
		if err != nil {
			return pg.OrNone(err, ErrCredentials)
		}
		if _, err := admit(t); err != nil {
			return err
		}
		out, err = s.writeSession(ctx, tx, t, "password", from)
		return err
	})
	return out, err
}

// writeSession writes a new session, which was opened by a means and from an address. The caller
// has locked the tenant's row.
func (s *Service) writeSession(ctx context.Context, tx pg.Tx, t Tenant, means string, from netip.Addr) (Session, error) {
	now := s.Clock.Now()
	out := Session{Token: secret.NewToken(), TenantID: t.ID, Name: t.Name, Email: t.Email, Expires: now.Add(SessionLife)}
	hash := secret.Hash(out.Token.Reveal())
	_, err := tx.Exec(ctx, `INSERT INTO sessions (token_hash, tenant_id, created_at, expires_at) VALUES ($1, $2, $3, $4)`,
		hash[:], t.ID, now, out.Expires)
	if err != nil {
		return out, err
	}
	err = tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM audit_log WHERE tenant_id = $1 AND action = $2)`, t.ID, actSignIn).Scan(&out.First)
	if err != nil {
		return out, err
	}
	change := audit.Change{After: struct {
		By string `json:"by"`
	}{means}}
	return out, audit.Write(ctx, tx, now, audit.Session(t.Email, from).Entry(actSignIn, target(t.ID), change).Of(t.ID))
}

// Session returns the tenant of the session token, which is looked up for every request.
// [ErrUnauthorized] when it is unknown, expired, ended or logged out; [ErrSuspended].
// (Specification, "Session (dashboard)".)
func (s *Service) Session(ctx context.Context, token secret.Redacted) (Tenant, error) {
	if len(token.Reveal()) != tokenLength {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(token.Reveal())
	var t Tenant
	var ended bool
	err := s.Pool.QueryRow(ctx, `
		SELECT `+columns+`, s.ended_at IS NOT NULL FROM sessions s JOIN tenants t ON t.id = s.tenant_id WHERE s.token_hash = $1 AND s.expires_at > $2`,
		hash[:], s.Clock.Now()).Scan(append(t.fields(), &ended)...)
	if err != nil {
		return Tenant{}, pg.OrNone(err, ErrUnauthorized)
	}
	if t, err = admit(t); err == nil && ended {
		return Tenant{}, ErrUnauthorized
	}
	return t, err
}

// Logout ends the session on the server. An invalid token is not an error: it is logged out
// already.
func (s *Service) Logout(ctx context.Context, token secret.Redacted, from netip.Addr) error {
	hash := secret.Hash(token.Reveal())
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var id uuid.UUID
		var email string
		err := tx.QueryRow(ctx, `
			DELETE FROM sessions s USING tenants t WHERE s.token_hash = $1 AND t.id = s.tenant_id RETURNING t.id, t.email`, hash[:]).Scan(&id, &email)
		if err != nil {
			return pg.OrNone(err, nil)
		}
		return audit.Write(ctx, tx, s.Clock.Now(), audit.Session(email, from).Entry(actSignOut, target(id), nil).Of(id))
	})
}
