package operator

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
	"ajo/internal/totp"
)

// Bounds of a password, in characters; the length of a token and of a set-up code.
const (
	minPassword = 12
	maxPassword = 128
	tokenLength = 43
)

// Refusals of a login. One text for a wrong name, password or code: it tells none of them.
var (
	ErrCredentials  = errs.New(errs.Unauthorized, "name, password or code is wrong")
	ErrUnauthorized = errs.New(errs.Unauthorized, "unauthorized")
	ErrSetup        = errs.New(errs.Unauthorized, "name or set-up code is wrong, or the code has expired")
	ErrPassword     = errs.New(errs.Invalid, "password must have 12 to 128 characters")
)

// Session is a successful login. Token goes into the cookie; only its hash is stored.
type Session struct {
	Token   secret.Redacted
	Expires time.Time
	Operator
}

func place(id uuid.UUID) secret.Place {
	return secret.Place{Table: "operators", Column: "totp_secret", Row: id.String()}
}

// SetUp gives an invited operator a password of their choice and a secret for an authenticator.
// The code of the invitation works again until the first login, so that a picture that was not
// scanned is no loss. [ErrSetup], [ErrPassword].
func (s *Service) SetUp(ctx context.Context, name string, code, password secret.Redacted, from netip.Addr) (totp.Setup, error) {
	if n := utf8.RuneCountInString(password.Reveal()); n < minPassword || n > maxPassword {
		return totp.Setup{}, ErrPassword
	}
	hash := secret.Hash(code.Reveal())
	var id uuid.UUID
	err := s.Pool.QueryRow(ctx, `SELECT id FROM operators WHERE name = $1 AND removed_at IS NULL AND setup_hash = $2 AND setup_expires_at > $3`,
		name, hash[:], s.Clock.Now()).Scan(&id)
	if err != nil {
		return totp.Setup{}, pg.OrNone(err, ErrSetup)
	}
	chosen, err := secret.HashPassword(ctx, password)
	if err != nil {
		return totp.Setup{}, err
	}
	shared := totp.New()
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var role Role
		err := tx.QueryRow(ctx, `UPDATE operators SET password_hash = $3, totp_secret = $4 WHERE id = $1 AND setup_hash = $2 AND removed_at IS NULL RETURNING role`,
			id, hash[:], chosen, s.Box.Seal(place(id), []byte(shared.Reveal()))).Scan(&role)
		if err != nil { // reset, removed or logged in meanwhile
			return pg.OrNone(err, ErrSetup)
		}
		by := audit.Console(name, "a password and a second factor by the set-up code", from)
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("operator.set-up", target(name), roleShown{role}))
	})
	if err != nil {
		return totp.Setup{}, err
	}
	return totp.NewSetup("Ajo operations", name, shared)
}

// Login opens a session by a password and a code of the authenticator. A wrong name takes as long
// as a wrong password. [ErrCredentials].
func (s *Service) Login(ctx context.Context, name string, password, code secret.Redacted, from netip.Addr) (out Session, err error) {
	if password.IsZero() || utf8.RuneCountInString(password.Reveal()) > maxPassword || !nameForm.MatchString(name) {
		return out, ErrCredentials
	}
	var hash string
	err = s.Pool.QueryRow(ctx, `SELECT coalesce(password_hash, '') FROM operators WHERE name = $1 AND removed_at IS NULL`, name).Scan(&hash)
	if err != nil && !pg.IsNoRows(err) {
		return out, err
	}
	right, err := secret.IsPassword(ctx, hash, password)
	switch {
	case err != nil:
		return out, err
	case !right:
		return out, ErrCredentials
	}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		out, err = s.open(ctx, tx, name, hash, code, from)
		return err
	})
	return out, err
}

// open writes the session of an operator whose password hash was hash a moment ago. The row is
// locked, so of two uses of a code at once one is right.
func (s *Service) open(ctx context.Context, tx pg.Tx, name, hash string, code secret.Redacted, from netip.Addr) (out Session, err error) {
	var sealed []byte
	var last int64
	err = tx.QueryRow(ctx, `
		SELECT id, name, role, created_at, totp_confirmed_at, totp_secret, coalesce(totp_last_step, 0) FROM operators
		WHERE name = $1 AND removed_at IS NULL AND password_hash = $2 FOR NO KEY UPDATE`, name, hash).
		Scan(&out.ID, &out.Name, &out.Role, &out.CreatedAt, &out.SetUpAt, &sealed, &last)
	if err != nil {
		return out, pg.OrNone(err, ErrCredentials)
	}
	shared, err := s.Box.Open(place(out.ID), sealed)
	if err != nil {
		return out, err
	}
	now := s.Clock.Now()
	step := totp.StepOf(secret.Redact(string(shared)), code, last, now)
	if step == 0 {
		return out, ErrCredentials
	}
	_, err = tx.Exec(ctx, `
		UPDATE operators SET totp_last_step = $2, totp_confirmed_at = coalesce(totp_confirmed_at, $3), setup_hash = NULL, setup_expires_at = NULL WHERE id = $1`,
		out.ID, step, now)
	if err != nil {
		return out, err
	}
	out.Token, out.Expires = secret.NewToken(), now.Add(SessionLife)
	token := secret.Hash(out.Token.Reveal())
	by := audit.Console(name, "a login to the console", from)
	_, err = tx.Exec(ctx, `INSERT INTO operator_sessions (token_hash, operator_id, address, created_at, expires_at) VALUES ($1, $2, nullif($3, '')::inet, $4, $5)`,
		token[:], out.ID, by.From(), now, out.Expires)
	if err != nil {
		return out, err
	}
	return out, audit.Write(ctx, tx, now, by.Entry("operator.login", target(name), roleShown{out.Role}))
}

// Session returns the operator of a session's token, as they are now. [ErrUnauthorized] when it is
// unknown or expired, or the operator was removed or reset.
func (s *Service) Session(ctx context.Context, token secret.Redacted) (o Operator, err error) {
	if len(token.Reveal()) != tokenLength {
		return o, ErrUnauthorized
	}
	hash := secret.Hash(token.Reveal())
	err = s.Pool.QueryRow(ctx, `
		SELECT o.id, o.name, o.role FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
		WHERE s.token_hash = $1 AND s.expires_at > $2 AND o.removed_at IS NULL`, hash[:], s.Clock.Now()).Scan(&o.ID, &o.Name, &o.Role)
	return o, pg.OrNone(err, ErrUnauthorized)
}

// Standing is the check that the session of a token is still open, for a change that has waited: it
// is made in the change's own transaction, during which nobody is removed, reset or logged out. The
// operator is locked before the session, as by those. [ErrUnauthorized].
func (s *Service) Standing(token secret.Redacted) func(context.Context, pg.Querier) error {
	hash := secret.Hash(token.Reveal())
	return func(ctx context.Context, q pg.Querier) error {
		var id uuid.UUID
		err := q.QueryRow(ctx, `
			SELECT o.id FROM operators o JOIN operator_sessions s ON s.operator_id = o.id
			WHERE s.token_hash = $1 AND s.expires_at > $2 AND o.removed_at IS NULL FOR SHARE`, hash[:], s.Clock.Now()).Scan(&id)
		return pg.OrNone(err, ErrUnauthorized)
	}
}

// Logout ends the session on the server. An invalid token is no error: it is logged out already.
func (s *Service) Logout(ctx context.Context, token secret.Redacted) error {
	hash := secret.Hash(token.Reveal())
	_, err := s.Pool.Exec(ctx, `DELETE FROM operator_sessions WHERE token_hash = $1`, hash[:])
	return err
}
