package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/secret"
)

// Headers of a signed delivery: the specification's, and the three of Standard Webhooks.
const (
	headerSignature         = "X-Service-Signature"
	headerStandardID        = "webhook-id"
	headerStandardTime      = "webhook-timestamp"
	headerStandardSignature = "webhook-signature"
)

// sealedSecrets are a tenant's signing secrets as the row has them.
type sealedSecrets struct {
	current       []byte
	previous      []byte
	previousUntil *time.Time
}

// open returns the secrets that sign at the time now: the current one first, then the one before it while that is valid.
// A secret that does not open is an error: a tenant that has a secret is never sent an unsigned delivery.
func (z sealedSecrets) open(box *secret.Box, tenant uuid.UUID, now time.Time) ([]secret.Redacted, error) {
	var out []secret.Redacted
	add := func(column string, sealed []byte) error {
		plain, err := box.Open(secret.Place{Table: "tenants", Column: column, Row: tenant.String()}, sealed)
		if err != nil {
			return fmt.Errorf("%s of tenant %s: %w", column, tenant, err)
		}
		out = append(out, secret.Redact(string(plain)))
		return nil
	}
	if z.current != nil {
		if err := add("webhook_secret", z.current); err != nil {
			return nil, err
		}
	}
	if z.previous != nil && z.previousUntil != nil && now.Before(*z.previousUntil) {
		if err := add("webhook_secret_previous", z.previous); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sign adds the signature headers for a sending at the time now; without a secret it adds none. During a rotation each
// header has a signature by each secret, the new one first: "t=…,v1=<new>,v1=<old>" and "v1,<new> v1,<old>".
func sign(h http.Header, secrets []secret.Redacted, message uuid.UUID, now time.Time, body []byte) {
	if len(secrets) == 0 {
		return
	}
	t := strconv.FormatInt(now.Unix(), 10)
	spec, standard := []string{"t=" + t}, []string{}
	for _, s := range secrets {
		spec = append(spec, "v1="+hex.EncodeToString(digest([]byte(s.Reveal()), t, ".", string(body))))
		standard = append(standard, "v1,"+base64.StdEncoding.EncodeToString(
			digest(standardKey(s), message.String(), ".", t, ".", string(body))))
	}
	h.Set(headerSignature, strings.Join(spec, ","))
	h.Set(headerStandardID, message.String())
	h.Set(headerStandardTime, t)
	h.Set(headerStandardSignature, strings.Join(standard, " "))
}

// standardKey is the key of the Standard Webhooks signature: the base64 decoding of the secret's text. That is what the
// Standard Webhooks libraries make of the text that they are given, with or without "whsec_" before it, so the tenant
// gives them the same 64 characters as are used here (any such text is base64 too). The specification's own signature
// is keyed with the text's bytes as they are.
func standardKey(s secret.Redacted) []byte {
	key, err := base64.StdEncoding.DecodeString(s.Reveal())
	if err != nil {
		return []byte(s.Reveal())
	}
	return key
}

func digest(key []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = m.Write([]byte(p))
	}
	return m.Sum(nil)
}
