package tenant

import (
	"context"
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

// codeLife is how long a one-time code is valid.
const codeLife = 10 * time.Minute

// Refusals of a registration.
var (
	ErrNameMissing     = errs.New(errs.Invalid, "name is required")
	errNameLong        = errs.New(errs.Invalid, "name must be at most 200 characters")
	errNameControl     = errs.New(errs.Invalid, "name must not contain control characters")
	errEmailMissing    = errs.New(errs.Invalid, "email is required")
	errEmail           = errs.New(errs.Invalid, "email is invalid")
	errPasswordMissing = errs.New(errs.Invalid, "password is required")
	errPasswordShort   = errs.New(errs.Invalid, "password must be at least 8 characters")
	errPasswordLong    = errs.New(errs.Invalid, "password must be at most 128 characters")
)

// Registration is a request for a tenant (specification, POST /register).
type Registration struct {
	Name     string
	Email    string
	Password secret.Redacted
}

// emailForm is an address that every mail server accepts: ASCII, unquoted, with a dot in the
// domain.
var emailForm = regexp.MustCompile(`^[a-z0-9!#$%&'*+/=?^_{|}~-]+(\.[a-z0-9!#$%&'*+/=?^_{|}~-]+)*@([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// NormalizeEmail returns the form in which an address is stored and looked up: trimmed and in lower
// case.
func NormalizeEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// isLong reports whether a normalized address is too long to exist.
func isLong(email string) bool { return utf8.RuneCountInString(email) > maxEmail }

func (n *Registration) check() (err error) {
	n.Email = NormalizeEmail(n.Email)
	if n.Name, err = checkName(n.Name); err != nil {
		return err
	}
	if err := checkEmail(n.Email); err != nil {
		return err
	}
	return checkPassword(n.Password, errPasswordMissing, errPasswordShort, errPasswordLong)
}

// checkName returns a name without surrounding blanks, which do not count for its length.
func checkName(raw string) (string, error) {
	name := strings.TrimSpace(raw)
	switch {
	case name == "":
		return name, ErrNameMissing
	case utf8.RuneCountInString(name) > maxName:
		return name, errNameLong
	case strings.ContainsFunc(name, unicode.IsControl):
		return name, errNameControl
	}
	return name, nil
}

// checkEmail checks a normalized address.
func checkEmail(email string) error {
	local, _, _ := strings.Cut(email, "@")
	switch {
	case email == "":
		return errEmailMissing
	case isLong(email), len(local) > maxLocal, !emailForm.MatchString(email):
		return errEmail
	}
	return nil
}

// checkPassword checks a password that is to be set; the refusals name its field.
func checkPassword(p secret.Redacted, missing, short, long error) error {
	switch n := utf8.RuneCountInString(p.Reveal()); {
	case n == 0:
		return missing
	case n < minPassword:
		return short
	case n > maxPassword:
		return long
	}
	return nil
}

// registrationLife is how long a registration is kept; a login with its password is told meanwhile
// that the e-mail is not verified.
const registrationLife = 24 * time.Hour

// Register writes a registration with its own id, name, password and code, and sends the code by
// e-mail. Anyone may call it. An address can have several registrations until the code of one is
// entered (see [Service.VerifyEmail]); a later one changes nothing of an earlier one.
//
// The answer does not reveal whether the address is known: each call hashes one password, writes
// one row and queues one e-mail. If the address has an owner, the e-mail says so, and the returned
// id cannot be verified. The errors are the named values above.
func (s *Service) Register(ctx context.Context, in Registration) (uuid.UUID, error) {
	if err := in.check(); err != nil {
		return uuid.Nil, err
	}
	hash, err := secret.HashPassword(ctx, in.Password)
	if err != nil {
		return uuid.Nil, err
	}
	// An id is random, not a UUIDv7 as elsewhere: only the id distinguishes two registrations.
	id, code := uuid.New(), secret.NewCode()
	taken, err := s.enrol(ctx, id, in, hash, code)
	if err != nil {
		return uuid.Nil, err
	}
	if taken {
		s.mails.send(takenEmail(in.Email))
	} else {
		s.mails.send(codeEmail(in.Email, id, code))
	}
	return id, nil
}

// enrol writes the registration, and reports whether the address has an owner.
func (s *Service) enrol(ctx context.Context, id uuid.UUID, in Registration, hash string, code secret.Redacted) (taken bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		err := tx.QueryRow(ctx, `
			INSERT INTO pending_registrations (id, email, name, password_hash, code_hash, code_expires_at, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)
			RETURNING EXISTS (SELECT FROM members m WHERE m.email = $2 AND `+joined+`)`,
			id, in.Email, in.Name, hash, s.sealCode(id, code), now.Add(codeLife), now).Scan(&taken)
		failpoint.At("tenant/before-register-commit")
		return err
	})
	if err == nil {
		failpoint.At("tenant/after-register-commit")
	}
	return taken, err
}
