package tenant

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// ResetLife is how long a reset code is valid. It is longer than the window of the limit on
// requesting one: if strangers have used up the owner's limit, one of the codes that they caused is
// still valid.
const ResetLife = 30 * time.Minute

// Refusals of a change or reset of a password.
var (
	ErrOldPasswordMissing = errs.New(errs.Invalid, "oldPassword is required")
	ErrNewPasswordMissing = errs.New(errs.Invalid, "newPassword is required")
	ErrNewPasswordShort   = errs.New(errs.Invalid, "newPassword must be at least 8 characters")
	ErrNewPasswordLong    = errs.New(errs.Invalid, "newPassword must be at most 128 characters")
	ErrOldPassword        = errs.New(errs.Invalid, "oldPassword is wrong")
	ErrResetCodeMissing   = errs.New(errs.Invalid, "code is required")
)

func checkNewPassword(password secret.Redacted) error {
	switch n := utf8.RuneCountInString(password.Reveal()); {
	case n == 0:
		return ErrNewPasswordMissing
	case n < minPassword:
		return ErrNewPasswordShort
	case n > maxPassword:
		return ErrNewPasswordLong
	}
	return nil
}

// ChangePassword replaces the tenant's password and ends all its sessions except the one of token,
// which calls it. The owner gets an e-mail. [ErrOldPassword], and the errors of an invalid new
// password.
func (s *Service) ChangePassword(ctx context.Context, id uuid.UUID, token, old, fresh secret.Redacted, by audit.By) error {
	if old.IsZero() {
		return ErrOldPasswordMissing
	}
	if err := checkNewPassword(fresh); err != nil {
		return err
	}
	if utf8.RuneCountInString(old.Reveal()) > maxPassword {
		return ErrOldPassword
	}
	var email, was string
	if err := s.Pool.QueryRow(ctx, `SELECT email, password_hash FROM tenants WHERE id = $1`, id).Scan(&email, &was); err != nil {
		return err
	}
	right, err := isPassword(ctx, was, old)
	switch {
	case err != nil:
		return err
	case !right:
		return ErrOldPassword
	}
	hash, err := secret.HashPassword(ctx, fresh)
	if err != nil {
		return err
	}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		set, err := tx.Exec(ctx, `UPDATE tenants SET password_hash = $3, updated_at = $4 WHERE id = $1 AND password_hash = $2`, id, was, hash, now)
		if err != nil {
			return err
		}
		if set.RowsAffected() == 0 { // it was changed meanwhile
			return ErrOldPassword
		}
		if _, err = deleteSessions(ctx, tx, now, id, token); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("password.change", target(id), nil).Of(id))
	})
	if err == nil {
		s.mails.send(passwordEmail(email))
	}
	return err
}

// ForgotPassword sends a code to the owner of an address by e-mail; without an owner nothing is
// sent. Anyone may call it: the answer and its time are the same. A code is too long to guess, and
// each one is valid for [ResetLife], so requests of others do not harm the owner. [ErrEmail] for an
// address that is too long to exist. (Decisions, "Onboarding, sessions, keys".)
func (s *Service) ForgotPassword(ctx context.Context, email string) error {
	long := utf8.RuneCountInString(email) > maxEmail
	email = NormalizeEmail(email)
	switch {
	case email == "":
		return ErrEmailMissing
	case long: // no such address exists, so the refusal reveals nothing
		return ErrEmail
	}
	began := time.Now()
	if err := s.mailReset(ctx, email); err != nil {
		return err
	}
	_ = clock.Sleep(ctx, refusalTime+rand.N(refusalSpread)-time.Since(began))
	return nil
}

func (s *Service) mailReset(ctx context.Context, email string) error {
	code := secret.NewToken()
	hash := secret.Hash(code.Reveal())
	var owned bool
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		return tx.QueryRow(ctx, `
			INSERT INTO password_resets (token_hash, email, created_at, expires_at) VALUES ($1, $2, $3, $4)
			RETURNING EXISTS (SELECT FROM tenants t WHERE t.email = $2)`, hash[:], email, now, now.Add(ResetLife)).Scan(&owned)
	})
	if err != nil {
		return err
	}
	if owned {
		s.mails.send(resetEmail(email, code))
	}
	return nil
}

// ResetPassword uses a reset code: it sets a new password, ends all sessions of the tenant and
// opens one. Anyone may call it. [ErrCode] whatever is wrong with the code; [ErrSuspended], after
// which the code stays valid.
func (s *Service) ResetPassword(ctx context.Context, code, fresh secret.Redacted, from netip.Addr) (Session, error) {
	if code.IsZero() {
		return Session{}, ErrResetCodeMissing
	}
	if err := checkNewPassword(fresh); err != nil {
		return Session{}, err
	}
	if len(code.Reveal()) != tokenLength {
		return Session{}, ErrCode
	}
	password, err := secret.HashPassword(ctx, fresh)
	if err != nil {
		return Session{}, err
	}
	hash := secret.Hash(code.Reveal())
	var out Session
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var t Tenant
		err := tx.QueryRow(ctx, `
			SELECT `+columns+` FROM password_resets r JOIN tenants t ON t.email = r.email
			WHERE r.token_hash = $1 AND r.expires_at > $2 FOR NO KEY UPDATE OF t`, hash[:], now).Scan(t.fields()...)
		if err != nil {
			return pg.OrNone(err, ErrCode)
		}
		if _, err := admit(t); err != nil {
			return err
		}
		spent, err := tx.Exec(ctx, `DELETE FROM password_resets WHERE token_hash = $1`, hash[:])
		if err != nil {
			return err
		}
		if spent.RowsAffected() == 0 { // while this one waited for the tenant's row
			return ErrCode
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET password_hash = $2, updated_at = $3 WHERE id = $1`, t.ID, password, now); err != nil {
			return err
		}
		if _, err := deleteSessions(ctx, tx, now, t.ID, secret.Redacted{}); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, now, audit.Session(t.Email, from).Entry("password.reset", target(t.ID), nil).Of(t.ID)); err != nil {
			return err
		}
		out, err = s.writeSession(ctx, tx, t, "reset code", from)
		return err
	})
	if err == nil {
		s.mails.send(passwordEmail(out.Email))
	}
	return out, err
}

// deleteSessions ends all sessions of a tenant except the one of keep, and whatever opens one
// without the password: login links and reset codes. Its known networks are forgotten. It returns
// how many sessions there were. The caller has locked the tenant's row, for which whoever opens a
// session waits.
func deleteSessions(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, keep secret.Redacted) (int64, error) {
	kept := secret.Hash(keep.Reveal())
	ended, err := tx.Exec(ctx, `
		UPDATE sessions SET ended_at = $2 WHERE tenant_id = $1 AND ended_at IS NULL AND expires_at > $2 AND token_hash <> $3`, id, now, kept[:])
	if err != nil {
		return 0, err
	}
	for _, sql := range []string{
		`DELETE FROM login_links WHERE tenant_id = $1`,
		`DELETE FROM password_resets r USING tenants t WHERE t.id = $1 AND r.email = t.email`,
		`DELETE FROM known_networks k USING tenants t WHERE t.id = $1 AND k.email = t.email`,
	} {
		if _, err := tx.Exec(ctx, sql, id); err != nil {
			return 0, err
		}
	}
	return ended.RowsAffected(), nil
}
