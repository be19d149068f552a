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

// resetLife is how long a reset code is valid. It is longer than the window of the limit on
// requesting one: if strangers have used up the owner's limit, one of the codes that they caused is
// still valid.
const resetLife = 30 * time.Minute

// Refusals of a change or reset of a password.
var (
	errOldPasswordMissing = errs.New(errs.Invalid, "oldPassword is required")
	errNewPasswordMissing = errs.New(errs.Invalid, "newPassword is required")
	errNewPasswordShort   = errs.New(errs.Invalid, "newPassword must be at least 8 characters")
	errNewPasswordLong    = errs.New(errs.Invalid, "newPassword must be at most 128 characters")
	errOldPassword        = errs.New(errs.Invalid, "oldPassword is wrong")
	ErrResetCodeMissing   = errs.New(errs.Invalid, "code is required")
)

func checkNewPassword(password secret.Redacted) error {
	return checkPassword(password, errNewPasswordMissing, errNewPasswordShort, errNewPasswordLong)
}

// ChangePassword replaces a member's password and ends all its sessions except the one of token,
// which calls it. The member gets an e-mail. [errOldPassword], and the errors of an invalid new
// password.
func (s *Service) ChangePassword(ctx context.Context, id uuid.UUID, m Member, token, old, fresh secret.Redacted, by audit.By) error {
	if old.IsZero() {
		return errOldPasswordMissing
	}
	if err := checkNewPassword(fresh); err != nil {
		return err
	}
	was, err := s.checkOwnPassword(ctx, m.ID, old, errOldPassword)
	if err != nil {
		return err
	}
	hash, err := secret.HashPassword(ctx, fresh)
	if err != nil {
		return err
	}
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) error {
		set, err := tx.Exec(ctx, `UPDATE members SET password_hash = $3 WHERE id = $1 AND password_hash = $2`, m.ID, was, hash)
		if err != nil {
			return err
		}
		if set.RowsAffected() == 0 { // it was changed meanwhile
			return errOldPassword
		}
		if _, err = deleteSessions(ctx, tx, now, id, m.ID, token); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("password.change", memberTarget(m.ID), nil).Of(id))
	})
	if err == nil {
		s.mails.send(passwordEmail(m.Email))
	}
	return err
}

// checkOwnPassword returns the hash of a member's password, if this is the one. otherwise refuses
// another.
func (s *Service) checkOwnPassword(ctx context.Context, memberID uuid.UUID, password secret.Redacted, otherwise *errs.Error) (hash string, err error) {
	if utf8.RuneCountInString(password.Reveal()) > maxPassword {
		return "", otherwise
	}
	err = s.Pool.QueryRow(ctx, `SELECT coalesce(password_hash, '') FROM members WHERE id = $1`, memberID).Scan(&hash)
	if err != nil {
		return "", err
	}
	right, err := secret.IsPassword(ctx, hash, password)
	if err == nil && !right {
		return "", otherwise
	}
	return hash, err
}

// ForgotPassword sends a code to the owner of an address by e-mail; without an owner nothing is
// sent. Anyone may call it: the answer and its time are the same. A code is too long to guess, and
// each one is valid for [resetLife], so requests of others do not harm the owner. [errEmail] for an
// address that is too long to exist. (Decisions, "Onboarding, sessions, keys".)
func (s *Service) ForgotPassword(ctx context.Context, email string) error {
	email = NormalizeEmail(email)
	switch {
	case email == "":
		return errEmailMissing
	case isLong(email): // no such address exists, so the refusal reveals nothing
		return errEmail
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
			RETURNING EXISTS (SELECT FROM members m WHERE m.email = $2 AND `+joined+`)`, hash[:], email, now, now.Add(resetLife)).Scan(&owned)
	})
	if err != nil {
		return err
	}
	if owned {
		s.mails.send(resetEmail(email, code))
	}
	return nil
}

// ResetPassword uses a reset code: it sets a new password, ends all sessions of the member and
// opens one. Anyone may call it. [errCode] whatever is wrong with the code; [ErrSuspended], after
// which the code stays valid.
//
// A member with a second factor gets no session, and logs in with the new password and a code: the
// mailbox alone is not two factors. Token is empty then.
func (s *Service) ResetPassword(ctx context.Context, code, fresh secret.Redacted, from netip.Addr) (Session, error) {
	if code.IsZero() {
		return Session{}, ErrResetCodeMissing
	}
	if err := checkNewPassword(fresh); err != nil {
		return Session{}, err
	}
	if len(code.Reveal()) != tokenLength {
		return Session{}, errCode
	}
	password, err := secret.HashPassword(ctx, fresh)
	if err != nil {
		return Session{}, err
	}
	hash := secret.Hash(code.Reveal())
	var out Session
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		const owned = `FROM password_resets r JOIN members m ON m.email = r.email AND ` + joined + ` WHERE r.token_hash = $1 AND r.expires_at > $2`
		var id uuid.UUID
		if err := tx.QueryRow(ctx, `SELECT m.tenant_id `+owned, hash[:], now).Scan(&id); err != nil {
			return pg.OrNone(err, errCode)
		}
		t, err := lockTenant(ctx, tx, id, forChange)
		if err != nil {
			return err
		}
		// again, as it is under the lock: the code may be used, or the member removed
		if err := tx.QueryRow(ctx, `SELECT `+memberColumns+` `+owned+` AND m.tenant_id = $3`, hash[:], now, id).Scan(t.Member.fields()...); err != nil {
			return pg.OrNone(err, errCode)
		}
		if err := admit(t.Tenant); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE members SET password_hash = $2 WHERE id = $1`, t.Member.ID, password); err != nil {
			return err
		}
		// the code is one of what it ends
		if _, err := deleteSessions(ctx, tx, now, t.ID, t.Member.ID, secret.Redacted{}); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, now, audit.Session(t.Member.Email, from).Entry("password.reset", memberTarget(t.Member.ID), nil).Of(t.ID)); err != nil {
			return err
		}
		if t.Member.TOTP {
			out = Session{TenantID: t.ID, Name: t.Name, Email: t.Member.Email}
			return nil
		}
		out, err = s.writeSession(ctx, tx, t.Tenant, "reset code", from)
		return err
	})
	if err == nil {
		s.mails.send(passwordEmail(out.Email))
	}
	return out, err
}

// deleteSessions ends all sessions of a member, or of the tenant when the member is uuid.Nil, but
// the one of keep, and whatever opens one without the password: login links, which are the owner's,
// and reset codes. The known networks are forgotten. It returns how many sessions there were. The
// caller has locked the tenant's row, for which whoever opens a session waits.
func deleteSessions(ctx context.Context, tx pg.Tx, now time.Time, id, memberID uuid.UUID, keep secret.Redacted) (int64, error) {
	kept := secret.Hash(keep.Reveal())
	ended, err := tx.Exec(ctx, `
		UPDATE sessions SET ended_at = $3
		WHERE tenant_id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR member_id = $2) AND ended_at IS NULL AND expires_at > $3 AND token_hash <> $4`,
		id, memberID, now, kept[:])
	if err != nil {
		return 0, err
	}
	const of = `m.tenant_id = $1 AND ($2 = '00000000-0000-0000-0000-000000000000'::uuid OR m.id = $2) AND ` + joined
	for _, sql := range []string{
		`DELETE FROM login_links l USING members m WHERE l.tenant_id = m.tenant_id AND m.role = 'owner' AND ` + of,
		`DELETE FROM password_resets r USING members m WHERE r.email = m.email AND ` + of,
		`DELETE FROM known_networks k USING members m WHERE k.email = m.email AND ` + of,
	} {
		if _, err := tx.Exec(ctx, sql, id, memberID); err != nil {
			return 0, err
		}
	}
	return ended.RowsAffected(), nil
}
