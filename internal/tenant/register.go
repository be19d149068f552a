package tenant

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Limits of a registration, in characters.
const (
	maxName     = 200
	maxEmail    = 254
	maxLocal    = 64
	minPassword = 8
	maxPassword = 128
)

// codeLife is how long a one-time code is good for.
const codeLife = 10 * time.Minute

// Refusals of a registration.
var (
	ErrNameMissing     = errs.New(errs.Invalid, "name is required")
	ErrNameLong        = errs.New(errs.Invalid, "name must be at most 200 characters")
	ErrNameControl     = errs.New(errs.Invalid, "name must not contain control characters")
	ErrEmailMissing    = errs.New(errs.Invalid, "email is required")
	ErrEmail           = errs.New(errs.Invalid, "email is invalid")
	ErrPasswordMissing = errs.New(errs.Invalid, "password is required")
	ErrPasswordShort   = errs.New(errs.Invalid, "password must be at least 8 characters")
	ErrPasswordLong    = errs.New(errs.Invalid, "password must be at most 128 characters")
)

// Registration is a request for a tenant (specification, POST /register).
type Registration struct {
	Name     string
	Email    string
	Password secret.Redacted
}

// emailForm is an address as mail servers take it everywhere: ASCII, unquoted, and a domain with a dot.
var emailForm = regexp.MustCompile(`^[a-z0-9!#$%&'*+/=?^_{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_{|}~-]+)*@([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// NormalizeEmail returns the one form under which an address is kept and looked up: trimmed and in lower case.
func NormalizeEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

func (n *Registration) check() error {
	n.Name, n.Email = strings.TrimSpace(n.Name), NormalizeEmail(n.Email)
	local, _, _ := strings.Cut(n.Email, "@")
	password := n.Password.Reveal()
	switch {
	case n.Name == "":
		return ErrNameMissing
	case utf8.RuneCountInString(n.Name) > maxName:
		return ErrNameLong
	case strings.ContainsFunc(n.Name, unicode.IsControl):
		return ErrNameControl
	case n.Email == "":
		return ErrEmailMissing
	case len(n.Email) > maxEmail, len(local) > maxLocal, !emailForm.MatchString(n.Email):
		return ErrEmail
	case password == "":
		return ErrPasswordMissing
	case utf8.RuneCountInString(password) < minPassword:
		return ErrPasswordShort
	case utf8.RuneCountInString(password) > maxPassword:
		return ErrPasswordLong
	}
	return nil
}

// Register writes an unverified tenant and mails it a one-time code. Anyone may call.
//
// The answer does not tell whether the address is known. A new address gets an id; an unverified one gets the same id
// again, with a new code, and the new name and password in place of the old, as nobody has proved to own it; a verified
// one gets an id that leads nowhere, the same each time, and its owner a mail. All three hash one password, write one row
// and queue one mail, so they take the same time. The errors are the named values above.
func (s *Service) Register(ctx context.Context, in Registration) (uuid.UUID, error) {
	if err := in.check(); err != nil {
		return uuid.Nil, err
	}
	hash, err := secret.HashPassword(ctx, in.Password)
	if err != nil {
		return uuid.Nil, err
	}
	code := secret.NewCode()
	var id uuid.UUID
	var taken bool
	for range 3 { // two first registrations of one address at once: the second finds the row of the first
		id, taken, err = s.enrol(ctx, in, hash, code)
		if !pg.IsUnique(err, "tenants_email_key") {
			break
		}
	}
	if err != nil {
		return uuid.Nil, err
	}
	if taken {
		s.post.send(takenLetter(in.Email))
		return decoy(id), nil
	}
	s.post.send(codeLetter(in.Email, id, code))
	return id, nil
}

// enrol writes the registration in one transaction, with the row of a known address locked. An id is random, and not a
// UUIDv7 as everywhere else: one that has its time in it would tell how long the address has been known.
func (s *Service) enrol(ctx context.Context, in Registration, hash string, code secret.Redacted) (id uuid.UUID, taken bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		known := true
		err := tx.QueryRow(ctx, `SELECT id, email_verified_at IS NOT NULL FROM tenants WHERE email = $1 FOR UPDATE`, in.Email).Scan(&id, &taken)
		if pg.IsNoRows(err) {
			id, known, err = uuid.New(), false, nil
		}
		if err != nil {
			return err
		}
		sealed := s.sealCode(id, code)
		if !known {
			_, err = tx.Exec(ctx, `
				INSERT INTO tenants (id, name, email, password_hash, code_hash, code_expires_at, created_at, updated_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $7)`, id, in.Name, in.Email, hash, sealed, now.Add(codeLife), now)
			failpoint.At("tenant/before-register-commit")
			return err
		}
		// A verified row stays as it was, but for the claim: a login with this password says what it says for a new address.
		_, err = tx.Exec(ctx, `
			UPDATE tenants SET name = CASE WHEN $8 THEN name ELSE $2 END, password_hash = CASE WHEN $8 THEN password_hash ELSE $3 END,
				code_hash = CASE WHEN $8 THEN code_hash ELSE $4 END, code_expires_at = CASE WHEN $8 THEN code_expires_at ELSE $5 END,
				code_tries = CASE WHEN $8 THEN code_tries ELSE $6 END, updated_at = CASE WHEN $8 THEN updated_at ELSE $7 END,
				claim_hash = CASE WHEN $8 THEN $3 ELSE '' END
			WHERE id = $1`, id, in.Name, hash, sealed, now.Add(codeLife), 0, now, taken)
		failpoint.At("tenant/before-register-commit")
		return err
	})
	if err == nil {
		failpoint.At("tenant/after-register-commit")
	}
	return id, taken, err
}

// decoy is the id that a registration of a verified address is answered with. It is derived from the tenant's own id, so
// that it is the same each time, as the id of an unverified address is; nobody can work back from it, and it is nobody's.
func decoy(id uuid.UUID) uuid.UUID {
	sum := sha256.Sum256(append([]byte("ajo: registration of a taken address\x00"), id[:]...))
	out := uuid.UUID(sum[:16])
	out[6] = out[6]&0x0f | 0x40 // version 4
	out[8] = out[8]&0x3f | 0x80 // variant
	return out
}
