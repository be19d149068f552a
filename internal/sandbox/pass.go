// Package sandbox is what test mode has of its own: the pass by which the live API says who sends a
// request that it forwards, and the simulated bank with its faults.
//
// The sandbox (`ajo sandbox`) is a process with a database of its own, so nothing here knows of
// live rows. What always holds: without a valid pass the sandbox answers nothing; a pass is for one
// request, that of its method, address and body, and for a minute; a payment reaches only an
// account of the simulated bank.
package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/secret"
)

// The headers of test mode.
const (
	// ModeHeader with the value ModeTest asks for test mode, with a session; the sandbox's answers
	// and webhooks have it too.
	ModeHeader = "X-Ajo-Mode"
	ModeTest   = "test"
	// PassHeader carries the pass from the live API to the sandbox.
	PassHeader = "X-Ajo-Test-Pass"
)

// passLife is how long a pass is good. It allows for two machines whose clocks differ.
const passLife = time.Minute

// ErrPass refuses a request without a valid pass.
var ErrPass = errs.New(errs.Unauthorized, "the sandbox is reached through the live API")

// Pass is what the live API says of a request that it forwards.
type Pass struct {
	From netip.Addr `json:"from"` // the client's address
	// Caller is the member whose session was checked; nil: the request has a test key, which the
	// sandbox looks up.
	Caller *Caller `json:"caller,omitempty"`
}

// Caller is a member of a tenant, as the live API knows both.
type Caller struct {
	TenantID    uuid.UUID `json:"tenantId"`
	TenantName  string    `json:"tenantName"`
	TenantEmail string    `json:"tenantEmail"`
	MemberID    uuid.UUID `json:"memberId"`
	Name        string    `json:"name"`
	Email       string    `json:"email"`
	Role        string    `json:"role"`
}

// Request is what a pass is for.
type Request struct {
	Method string
	URI    string // path and query, as they stand in the request
	Body   []byte
}

// signed is what the signature covers.
type signed struct {
	Pass
	Method  string    `json:"method"`
	URI     string    `json:"uri"`
	Body    []byte    `json:"body"` // SHA-256
	Expires time.Time `json:"expires"`
}

// Passes writes and reads passes with a secret that the live API and the sandbox share.
type Passes struct {
	secret secret.Redacted
	clock  clock.Clock
}

// NewPasses returns what writes and reads them.
func NewPasses(s secret.Redacted, c clock.Clock) *Passes { return &Passes{s, c} }

// Write returns the pass of a request, as the value of [PassHeader].
func (p *Passes) Write(pass Pass, r Request) (string, error) {
	body := sha256.Sum256(r.Body)
	text, err := json.Marshal(signed{pass, r.Method, r.URI, body[:], p.clock.Now().Add(passLife)})
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(text)
	return payload + "." + base64.RawURLEncoding.EncodeToString(p.mac(payload)), nil
}

// Read returns what the pass says of the request that it came with. [ErrPass] when it is missing,
// forged, expired or another request's.
func (p *Passes) Read(header string, r Request) (Pass, error) {
	payload, sign, _ := strings.Cut(header, ".")
	mac, err := base64.RawURLEncoding.Strict().DecodeString(sign)
	if err != nil || !hmac.Equal(mac, p.mac(payload)) {
		return Pass{}, ErrPass
	}
	var s signed
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &s) != nil {
		return Pass{}, ErrPass
	}
	body := sha256.Sum256(r.Body)
	now := p.clock.Now()
	if s.Method != r.Method || s.URI != r.URI || !hmac.Equal(s.Body, body[:]) || !now.Before(s.Expires) || s.Expires.After(now.Add(2*passLife)) {
		return Pass{}, ErrPass
	}
	return s.Pass, nil
}

// mac signs a payload. The text before it keeps the secret's other uses, if it ever has any, apart.
func (p *Passes) mac(payload string) []byte {
	m := hmac.New(sha256.New, []byte(p.secret.Reveal()))
	_, _ = m.Write([]byte("ajo test pass\n" + payload))
	return m.Sum(nil)
}
