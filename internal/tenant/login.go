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
	errUnverified  = errs.New(errs.Forbidden, "email is not verified")
)

// Session is a successful login. Token goes into the cookie; only its hash is stored.
type Session struct {
	Token    secret.Redacted
	TenantID uuid.UUID
	Name     string // the tenant's
	Email    string // the member's
	Expires  time.Time
	First    bool // the member, who joined within the last year, has opened none before
}

// Login opens a session. Anyone may call it. [ErrCredentials] for a wrong password and, after the
// same time, for an unknown address. [ErrSuspended] only to whoever knows the password.
// [errUnverified] to whoever registered the address last, within [registrationLife], whether it
// was taken or not, so that a registration does not reveal that. Two passwords are hashed each
// time. A member with a second factor needs a code of it, or a recovery code: [errCodeNeeded]
// without one, [errSecondFactor] for a wrong or used one, both only to whoever knows the
// password. The audit log has the session, and a wrong password for a tenant, within bounds,
// after the answer. (Specification, POST /auth/login.)
func (s *Service) Login(ctx context.Context, email string, password, code secret.Redacted, from netip.Addr) (Session, error) {
	email = NormalizeEmail(email)
	switch {
	case email == "":
		return Session{}, errEmailMissing
	case password.IsZero():
		return Session{}, errPasswordMissing
	case utf8.RuneCountInString(password.Reveal()) > maxPassword, isLong(email):
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
	err = s.Pool.QueryRow(ctx, `
		SELECT `+columns+`, `+memberColumns+`, m.password_hash FROM members m JOIN tenants t ON t.id = m.tenant_id
		WHERE m.email = $1 AND `+joined, email).Scan(append(append(t.fields(), t.Member.fields()...), &hash)...)
	if err != nil && !pg.IsNoRows(err) {
		return Session{}, err
	}
	right, err := secret.IsPassword(ctx, hash, password)
	if err != nil {
		return Session{}, err
	}
	waiting, err := secret.IsPassword(ctx, pending, password)
	switch {
	case err != nil:
		return Session{}, err
	case !right && waiting:
		return Session{}, errUnverified
	case !right:
		if t.ID != uuid.Nil {
			s.noteRefusal(t.ID, email, from)
		}
		return Session{}, ErrCredentials
	}
	if err := admit(t); err != nil {
		return Session{}, err
	}
	if secret.NeedsRehash(hash) {
		if hash, err = s.rehash(ctx, t.Member.ID, hash, password); err != nil {
			return Session{}, err
		}
	}
	out, err := s.openSession(ctx, t, hash, code, from)
	if errs.As(err) == errSecondFactor {
		s.noteRefusal(t.ID, email, from)
	}
	return out, err
}

// rehash replaces a hash with older parameters and returns its replacement, or the old hash if
// somebody else replaced it first.
func (s *Service) rehash(ctx context.Context, id uuid.UUID, old string, password secret.Redacted) (string, error) {
	hash, err := secret.HashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	set, err := s.Pool.Exec(ctx, `UPDATE members SET password_hash = $3 WHERE id = $1 AND password_hash = $2`, id, old, hash)
	if err != nil || set.RowsAffected() == 0 {
		return old, err
	}
	return hash, nil
}

// openSession opens a session of a member whose password hash was hash a moment ago. The tenant's
// row is locked until the session is committed. So a change of password, of members or of status
// that ends sessions either sees this one, or is seen here.
func (s *Service) openSession(ctx context.Context, of Tenant, hash string, code secret.Redacted, from netip.Addr) (out Session, err error) {
	left := -1
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		t, err := lockTenant(ctx, tx, of.ID, forLogin)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.id = $1 AND m.password_hash = $2 AND `+joined, of.Member.ID, hash).Scan(t.Member.fields()...)
		if err != nil {
			return pg.OrNone(err, ErrCredentials)
		}
		if err := admit(t.Tenant); err != nil {
			return err
		}
		means := "password"
		if t.Member.TOTP {
			if means, left, err = s.second(ctx, tx, t.Member.ID, code); err != nil {
				return err
			}
		}
		out, err = s.writeSession(ctx, tx, t.Tenant, means, from)
		return err
	})
	if err == nil && left >= 0 {
		s.mails.send(recoveryEmail(out.Email, left, from))
	}
	return out, err
}

// second asks for the second factor, and returns by what means the session is opened.
func (s *Service) second(ctx context.Context, tx pg.Tx, memberID uuid.UUID, code secret.Redacted) (means string, left int, err error) {
	if code.IsZero() {
		return "", -1, errCodeNeeded
	}
	right, left, err := s.spend(ctx, tx, memberID, code, s.Clock.Now())
	switch {
	case err != nil:
		return "", -1, err
	case !right:
		return "", -1, errSecondFactor
	case left >= 0:
		return "password and recovery code", left, nil
	}
	return "password and code", -1, nil
}

// firstFor is for how long after a member joined a session can be the first: the audit log has all
// sign-ins of that time, but may have none of those before it.
const firstFor = 365 * 24 * time.Hour

// firstSQL asks whether a tenant's actor, a member ($3) who joined after a time ($4), has never
// signed in.
const firstSQL = `
	SELECT EXISTS (SELECT FROM members WHERE id = $3 AND joined_at > $4)
		AND NOT EXISTS (SELECT FROM audit_log WHERE tenant_id = $1 AND action = '` + actSignIn + `' AND actor = $2)`

// writeSession writes a new session of t.Member, which was opened by a means and from an address.
// The caller has locked the tenant's row.
func (s *Service) writeSession(ctx context.Context, tx pg.Tx, t Tenant, means string, from netip.Addr) (Session, error) {
	now := s.Clock.Now()
	out := Session{Token: secret.NewToken(), TenantID: t.ID, Name: t.Name, Email: t.Member.Email, Expires: now.Add(SessionLife)}
	hash := secret.Hash(out.Token.Reveal())
	by := audit.Session(t.Member.Email, from)
	_, err := tx.Exec(ctx, `
		INSERT INTO sessions (token_hash, id, tenant_id, member_id, address, created_at, expires_at) VALUES ($1, $2, $3, $4, nullif($5, '')::inet, $6, $7)`,
		hash[:], uuid.Must(uuid.NewV7()), t.ID, t.Member.ID, by.From(), now, out.Expires)
	if err != nil {
		return out, err
	}
	err = tx.QueryRow(ctx, firstSQL, t.ID, by.Actor, t.Member.ID, now.Add(-firstFor)).Scan(&out.First)
	if err != nil {
		return out, err
	}
	change := audit.Change{After: struct {
		By string `json:"by"`
	}{means}}
	return out, audit.Write(ctx, tx, now, by.Entry(actSignIn, target(t.ID), change).Of(t.ID))
}

// Session returns the tenant of the session token with the member, as they are now: both are looked
// up for every request. [ErrUnauthorized] when it is unknown, expired, ended or logged out, or the
// member is removed; [ErrSuspended].
// (Specification, "Session (dashboard)".)
func (s *Service) Session(ctx context.Context, token secret.Redacted) (Tenant, error) {
	if len(token.Reveal()) != tokenLength {
		return Tenant{}, ErrUnauthorized
	}
	hash := secret.Hash(token.Reveal())
	var t Tenant
	var ended bool
	err := s.Pool.QueryRow(ctx, `
		SELECT `+columns+`, `+memberColumns+`, s.ended_at IS NOT NULL OR m.removed_at IS NOT NULL
		FROM sessions s JOIN tenants t ON t.id = s.tenant_id JOIN members m ON m.tenant_id = s.tenant_id AND m.id = s.member_id
		WHERE s.token_hash = $1 AND s.expires_at > $2`, hash[:], s.Clock.Now()).Scan(append(append(t.fields(), t.Member.fields()...), &ended)...)
	if err != nil {
		return Tenant{}, pg.OrNone(err, ErrUnauthorized)
	}
	if err := admit(t); err != nil {
		return Tenant{}, err
	}
	if ended {
		return Tenant{}, ErrUnauthorized
	}
	return t, nil
}

// Logout ends the session on the server, and reports whether there was one. An invalid token is not
// an error: it is logged out already.
func (s *Service) Logout(ctx context.Context, token secret.Redacted, from netip.Addr) (ended bool, err error) {
	if len(token.Reveal()) != tokenLength {
		return false, nil
	}
	hash := secret.Hash(token.Reveal())
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var id uuid.UUID
		var email string
		err := tx.QueryRow(ctx, `
			DELETE FROM sessions s USING members m WHERE s.token_hash = $1 AND m.tenant_id = s.tenant_id AND m.id = s.member_id
			RETURNING s.tenant_id, m.email`, hash[:]).Scan(&id, &email)
		if ended = err == nil; !ended {
			return pg.OrNone(err, nil)
		}
		return audit.Write(ctx, tx, s.Clock.Now(), audit.Session(email, from).Entry(actSignOut, target(id), nil).Of(id))
	})
	return ended && err == nil, err
}
