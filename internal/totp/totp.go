// Package totp is the second factor of RFC 6238: a secret for an authenticator, the picture that it
// scans, and the check of a code. Members of tenants and operators have the same.
//
// What always holds: a code of six digits stands for a step of 30 seconds; the steps before and
// after the present one count too, since clocks differ; and no code is right twice, as long as the
// caller keeps the step that it was given.
package totp

import (
	"crypto/rand"
	"encoding/base32"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp/hotp"

	"ajo/internal/secret"
)

// Step is how long a code counts.
const Step = 30 * time.Second

const (
	skew       = 1  // steps
	secretSize = 20 // bytes, as RFC 4226 advises
	maxIssuer  = 32 // characters: a QR code of a longer URL is too fine for a phone's camera
)

// Setup is what an authenticator is given, once.
type Setup struct {
	Secret secret.Redacted // base32
	URL    secret.Redacted // the same as an otpauth URL
	QRCode secret.Redacted // the URL as a picture: a PNG in a data URL
}

// New draws a secret.
func New() secret.Redacted {
	raw := make([]byte, secretSize)
	_, _ = rand.Read(raw) // which never fails
	return secret.Redact(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
}

// NewSetup is what an authenticator reads of a secret; the issuer and the account are shown in it.
func NewSetup(issuer, account string, shared secret.Redacted) (Setup, error) {
	link := URL(issuer, account, shared)
	picture, err := qrCode(link.Reveal())
	return Setup{shared, link, secret.Redact(picture)}, err
}

// URL is what an authenticator reads: whose code it is, and the secret.
func URL(issuer, account string, shared secret.Redacted) secret.Redacted {
	if long := []rune(issuer); len(long) > maxIssuer {
		issuer = string(long[:maxIssuer])
	}
	query := url.Values{"secret": {shared.Reveal()}, "issuer": {issuer}}
	return secret.Redact("otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(account) + "?" + strings.ReplaceAll(query.Encode(), "+", "%20"))
}

// StepOf returns the step whose code this is; 0 when it is none's near now, or of a step that is
// not after last, the step of the last code that was accepted.
func StepOf(shared, code secret.Redacted, last int64, now time.Time) int64 {
	at := now.Unix() / int64(Step/time.Second)
	for step := at - skew; step <= at+skew; step++ {
		if step > last && hotp.Validate(code.Reveal(), uint64(step), shared.Reveal()) {
			return step
		}
	}
	return 0
}
