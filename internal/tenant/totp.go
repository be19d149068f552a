package tenant

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/totp"
)

const recoveryCodes = 10

// Refusals of a second factor.
var (
	errCodeNeeded   = errs.New(errs.Unauthorized, "code is required")
	errSecondFactor = errs.New(errs.Unauthorized, "invalid code")
	errWrongCode    = errs.New(errs.Invalid, "code is wrong")
	errTOTPOn       = errs.New(errs.Unprocessable, "two-factor authentication is already on")
	ErrTOTPOff      = errs.New(errs.Unprocessable, "two-factor authentication is not on")
	errTOTPNone     = errs.New(errs.Unprocessable, "two-factor authentication is not being set up")
	errTOTPNeeded   = errs.New(errs.Forbidden, "set up two-factor authentication first")
	errTOTPKept     = errs.New(errs.Unprocessable, "two-factor authentication is required for this role")
)

// Complete refuses a session of a member who must have a second factor, and has none yet, with
// [errTOTPNeeded].
func (t Tenant) Complete() error {
	if t.TOTPRequired && !t.Member.TOTP && (t.Member.Role == Owner || t.Member.Role == Finance) {
		return errTOTPNeeded
	}
	return nil
}

func totpPlace(memberID uuid.UUID) secret.Place {
	return secret.Place{Table: "members", Column: "totp_secret", Row: memberID.String()}
}

// SetUpTOTP gives a member a new secret for an authenticator, in place of one that was not
// confirmed. It takes the password, so that a session that was left open is not enough. A member's
// own session only. [errPasswordMissing], [ErrPassword]; [errTOTPOn].
func (s *Service) SetUpTOTP(ctx context.Context, id uuid.UUID, m Member, password secret.Redacted, by audit.By) (out totp.Setup, err error) {
	if password.IsZero() {
		return out, errPasswordMissing
	}
	if _, err := s.checkOwnPassword(ctx, m.ID, password, ErrPassword); err != nil {
		return out, err
	}
	shared := totp.New()
	var name string
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		name = t.Name
		set, err := tx.Exec(ctx, `UPDATE members m SET totp_secret = $2 WHERE id = $1 AND totp_confirmed_at IS NULL AND `+joined, m.ID, s.Box.Seal(totpPlace(m.ID), []byte(shared.Reveal())))
		switch {
		case err != nil:
			return err
		case set.RowsAffected() == 0:
			return errTOTPOn
		}
		return audit.Write(ctx, tx, now, by.Entry("totp.set-up", memberTarget(m.ID), nil).Of(id))
	})
	if err != nil {
		return out, err
	}
	return totp.NewSetup(name, m.Email, shared)
}

// ConfirmTOTP turns the second factor on, by a code of the authenticator, and returns the recovery
// codes, once: each opens a session in the place of one code. The member gets an e-mail. A member's
// own session only. [errWrongCode]; [errTOTPNone], [errTOTPOn].
func (s *Service) ConfirmTOTP(ctx context.Context, id uuid.UUID, m Member, code secret.Redacted, by audit.By) (codes []secret.Redacted, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) error {
		codes = nil
		f, err := readFactor(ctx, tx, m.ID)
		switch {
		case err != nil:
			return err
		case f.on:
			return errTOTPOn
		case f.sealed == nil:
			return errTOTPNone
		}
		step, err := s.stepOf(m.ID, f, code, now)
		switch {
		case err != nil:
			return err
		case step == 0:
			return errWrongCode
		}
		if _, err := tx.Exec(ctx, `UPDATE members SET totp_confirmed_at = $2, totp_last_step = $3 WHERE id = $1`, m.ID, now, step); err != nil {
			return err
		}
		hashes := make([][]byte, recoveryCodes)
		for i := range hashes {
			c := newRecoveryCode()
			h := recoveryHash(c)
			codes, hashes[i] = append(codes, c), h[:]
		}
		_, err = tx.Exec(ctx, `INSERT INTO recovery_codes (hash, tenant_id, member_id) SELECT h, $2, $3 FROM unnest($1::bytea[]) h`, hashes, id, m.ID)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("totp.on", memberTarget(m.ID), nil).Of(id))
	})
	if err == nil {
		s.mails.send(totpEmail(m.Email, "on", by))
	}
	return codes, err
}

// EndTOTP turns a member's second factor off, by a code of it or a recovery code. The member gets
// an e-mail. A member's own session only. [errWrongCode], [ErrTOTPOff]; [errTOTPKept] where the
// tenant requires it.
func (s *Service) EndTOTP(ctx context.Context, t Tenant, code secret.Redacted, by audit.By) error {
	m := t.Member
	err := s.locking(ctx, t.ID, func(tx pg.Tx, now time.Time, t locked) error {
		if err := tx.QueryRow(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.id = $1 AND `+joined, m.ID).Scan(m.fields()...); err != nil {
			return pg.OrNone(err, ErrUnauthorized)
		}
		if !m.TOTP {
			return ErrTOTPOff
		}
		t.Member, t.Member.TOTP = m, false
		if t.Complete() != nil {
			return errTOTPKept
		}
		right, _, err := s.spend(ctx, tx, m.ID, code, now)
		switch {
		case err != nil:
			return err
		case !right:
			return errWrongCode
		}
		if err := clearTOTP(ctx, tx, m.ID); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("totp.off", memberTarget(m.ID), nil).Of(t.ID))
	})
	if err == nil {
		s.mails.send(totpEmail(m.Email, "off", by))
	}
	return err
}

// ResetTOTP turns a member's second factor off, for an operator who has made sure who asks, and
// ends the member's sessions. The member gets an e-mail. [ErrNotFound], [ErrMemberNotFound];
// [ErrTOTPOff].
func (s *Service) ResetTOTP(ctx context.Context, id uuid.UUID, email string, by audit.By) (m Member, err error) {
	err = s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) (err error) {
		if m, err = readJoined(ctx, tx, id, email); err != nil {
			return err
		}
		if !m.TOTP {
			return ErrTOTPOff
		}
		if err := clearTOTP(ctx, tx, m.ID); err != nil {
			return err
		}
		if _, err := deleteSessions(ctx, tx, now, id, m.ID, secret.Redacted{}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("tenant.reset-totp", memberTarget(m.ID), struct{ Email string }{m.Email}).Of(id))
	})
	if err == nil {
		s.mails.send(totpResetEmail(m.Email))
	}
	return m, err
}

// RequireTOTP sets whether the tenant's owner and finance need a second factor. Who has none yet
// can only set one up from then on. The owner's session only: standing returns an error if that has
// ended (nil: that is not checked), and is asked before the change, after which it would refuse an
// owner without a factor.
func (s *Service) RequireTOTP(ctx context.Context, id uuid.UUID, required bool, standing func(context.Context, pg.Querier) error, by audit.By) error {
	return s.locking(ctx, id, func(tx pg.Tx, now time.Time, _ locked) error {
		if standing != nil {
			if err := standing(ctx, tx); err != nil {
				return err
			}
		}
		set, err := tx.Exec(ctx, `UPDATE tenants SET totp_required = $2, updated_at = $3 WHERE id = $1 AND totp_required <> $2`, id, required, now)
		if err != nil || set.RowsAffected() == 0 {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("totp.required", target(id), audit.Change{Before: requiredShown{!required}, After: requiredShown{required}}).Of(id))
	})
}

type requiredShown struct {
	Required bool `json:"required"`
}

// factor is a member's second factor as it is stored.
type factor struct {
	sealed []byte // nil: none
	on     bool
	last   int64 // the step of the last code that was accepted
}

func readFactor(ctx context.Context, tx pg.Tx, memberID uuid.UUID) (f factor, err error) {
	err = tx.QueryRow(ctx, `SELECT totp_secret, totp_confirmed_at IS NOT NULL, coalesce(totp_last_step, 0) FROM members WHERE id = $1 FOR NO KEY UPDATE`, memberID).
		Scan(&f.sealed, &f.on, &f.last)
	return f, err
}

// stepOf returns the step whose code this is, 0 when it is none's near the present one, or of a
// step that has been used: no code works twice.
func (s *Service) stepOf(memberID uuid.UUID, f factor, code secret.Redacted, now time.Time) (int64, error) {
	shared, err := s.Box.Open(totpPlace(memberID), f.sealed)
	if err != nil {
		return 0, fmt.Errorf("totp_secret of member %s: %w", memberID, err)
	}
	return totp.StepOf(secret.Redact(string(shared)), code, f.last, now), nil
}

// spend uses a code up: one of the authenticator, or a recovery code. It reports whether the code
// is right, and how many recovery codes are left when it was one, else -1. The member's row is
// locked, so of two uses at once one is right, and none once the factor was turned off.
func (s *Service) spend(ctx context.Context, tx pg.Tx, memberID uuid.UUID, code secret.Redacted, now time.Time) (right bool, left int, err error) {
	f, err := readFactor(ctx, tx, memberID)
	if err != nil || !f.on { // it may have been turned off a moment ago
		return false, -1, err
	}
	step, err := s.stepOf(memberID, f, code, now)
	if err != nil {
		return false, -1, err
	}
	if step != 0 {
		_, err := tx.Exec(ctx, `UPDATE members SET totp_last_step = $2 WHERE id = $1`, memberID, step)
		return err == nil, -1, err
	}
	hash := recoveryHash(code)
	spent, err := tx.Exec(ctx, `DELETE FROM recovery_codes WHERE hash = $1 AND member_id = $2`, hash[:], memberID)
	if err != nil || spent.RowsAffected() == 0 {
		return false, -1, err
	}
	err = tx.QueryRow(ctx, `SELECT count(*) FROM recovery_codes WHERE member_id = $1`, memberID).Scan(&left)
	return err == nil, left, err
}

func clearTOTP(ctx context.Context, tx pg.Tx, memberID uuid.UUID) error {
	if _, err := tx.Exec(ctx, `UPDATE members SET totp_secret = NULL, totp_confirmed_at = NULL, totp_last_step = NULL WHERE id = $1`, memberID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM recovery_codes WHERE member_id = $1`, memberID)
	return err
}

// newRecoveryCode returns 80 random bits: too many to guess, or to find by their hash.
func newRecoveryCode() secret.Redacted {
	raw := make([]byte, 10)
	_, _ = rand.Read(raw) // which never fails
	c := strings.ToLower(base32.StdEncoding.EncodeToString(raw))
	return secret.Redact(c[:4] + "-" + c[4:8] + "-" + c[8:12] + "-" + c[12:])
}

// recoveryHash is what is stored of a recovery code. Blanks, hyphens and case do not count.
func recoveryHash(code secret.Redacted) [32]byte {
	return secret.Hash(strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(code.Reveal())))
}
