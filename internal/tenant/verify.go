package tenant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// How long the refusal of a code takes, from the start of the check: the minimum, and the random
// part that is added.
const (
	refusalTime   = 50 * time.Millisecond
	refusalSpread = 20 * time.Millisecond
)

// maxCodeTries is how often a code may be entered, including the correct try.
const maxCodeTries = 5

// Refusals of a code check.
var (
	errTenantIDMissing = errs.New(errs.Invalid, "tenantId is required")
	errOTPMissing      = errs.New(errs.Invalid, "otp is required")
	errCode            = errs.New(errs.Invalid, "invalid or expired code")
)

// VerifyEmail checks the one-time code of a registration, makes the registration the tenant, and
// returns its first API key. Anyone may call it; tenantID is the text that the client sent.
// [errCode] whatever is wrong: the code, its age, its tries, the id, or an address that has an
// owner, which is its first registration that was verified.
//
// A try is counted in the transaction that reads the code, with the row locked: of any number of
// concurrent guesses five are checked, and of two correct ones one gets a key. (Specification, POST
// /auth/verify-email.)
func (s *Service) VerifyEmail(ctx context.Context, tenantID string, otp secret.Redacted) (secret.APIKey, error) {
	if tenantID == "" {
		return secret.APIKey{}, errTenantIDMissing
	}
	if otp.IsZero() {
		return secret.APIKey{}, errOTPMissing
	}
	id, err := uuid.Parse(tenantID)
	if err != nil {
		return secret.APIKey{}, errCode
	}
	began := time.Now()
	key := s.KeyKind.New()
	verified := false
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		verified = false
		// A wrong try does not wait for the disk: an unknown id has nothing to write, and its
		// answer must not be faster. After a crash of the server, a try or two may not be counted.
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = off`); err != nil {
			return err
		}
		now := s.Clock.Now()
		var sealed []byte
		err := tx.QueryRow(ctx, `
			UPDATE pending_registrations r SET code_tries = code_tries + 1
			WHERE id = $1 AND code_hash IS NOT NULL AND code_expires_at > $2 AND code_tries < $3
				AND NOT EXISTS (SELECT FROM members m WHERE m.email = r.email AND `+joined+`)
			RETURNING code_hash`, id, now, maxCodeTries).Scan(&sealed)
		if err != nil {
			return pg.OrNone(err, nil)
		}
		right, err := s.codeIs(id, sealed, otp)
		if err != nil || !right {
			return err // a wrong try is committed
		}
		verified, err = s.confirm(ctx, tx, id, key)
		failpoint.At("tenant/before-verify-commit")
		return err
	})
	switch {
	case err != nil:
		return secret.APIKey{}, err
	case !verified:
		// An id with a row takes about a tenth of a millisecond longer, because the wrong try is
		// counted. So every refusal takes the same time, which is longer than either. Timers fire
		// at the next millisecond from their own start, which would show the difference again; a
		// random part hides it for more calls than the limits allow.
		_ = clock.Sleep(ctx, refusalTime+rand.N(refusalSpread)-time.Since(began))
		return secret.APIKey{}, errCode
	}
	failpoint.At("tenant/after-verify-commit")
	return key, nil
}

// confirm makes the registration the tenant, with its owner and its first key, durably again. It
// answers false when another registration of the address is verified at the same moment: the
// address is unique among members, so one of them waits for the other here.
func (s *Service) confirm(ctx context.Context, tx pg.Tx, id uuid.UUID, key secret.APIKey) (bool, error) {
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit TO DEFAULT`); err != nil {
		return false, err
	}
	made, err := tx.Exec(ctx, `
		WITH r AS (SELECT * FROM pending_registrations WHERE id = $1),
			m AS (
				INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at)
				SELECT $3, id, email, name, 'owner', password_hash, created_at, $2 FROM r
				ON CONFLICT (email) WHERE joined_at IS NOT NULL AND removed_at IS NULL DO NOTHING
				RETURNING id)
		INSERT INTO tenants (id, name, email, email_verified_at, created_at, updated_at)
		SELECT r.id, r.name, r.email, $2, r.created_at, $2 FROM r, m`, id, s.Clock.Now(), uuid.Must(uuid.NewV7()))
	if err != nil || made.RowsAffected() == 0 {
		return false, err
	}
	// The row stays, without its secrets. Otherwise an older registration of the address would
	// become the newest, and a login with its password would be answered differently than before.
	if _, err := tx.Exec(ctx, `UPDATE pending_registrations SET password_hash = '', code_hash = NULL WHERE id = $1`, id); err != nil {
		return false, err
	}
	_, err = writeKey(ctx, tx, mainKey(id), key, s.Clock.Now())
	return true, err
}

// sealCode returns what is stored of a code: its SHA-256, encrypted for the registration's row. A
// plain hash would not protect it: a million codes are hashed in an instant.
func (s *Service) sealCode(id uuid.UUID, code secret.Redacted) []byte {
	sum := sha256.Sum256([]byte(code.Reveal()))
	return s.Box.Seal(codePlace(id), sum[:])
}

func (s *Service) codeIs(id uuid.UUID, sealed []byte, otp secret.Redacted) (bool, error) {
	want, err := s.Box.Open(codePlace(id), sealed)
	if err != nil {
		return false, err
	}
	got := sha256.Sum256([]byte(otp.Reveal()))
	return subtle.ConstantTimeCompare(got[:], want) == 1, nil
}

func codePlace(id uuid.UUID) secret.Place {
	return secret.Place{Table: "pending_registrations", Column: "code_hash", Row: id.String()}
}
