package webhook

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/secret"
	"ajo/internal/signature"
)

// sealedSecrets are a tenant's signing secrets as the row has them.
type sealedSecrets struct {
	current       []byte
	previous      []byte
	previousUntil *time.Time
}

// open returns the secrets that sign at the time now: the current one first, then the one before it
// while that is valid. A secret that does not open is an error: a tenant that has a secret is never
// sent an unsigned delivery.
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

// sign adds the signature headers for a sending at the time now; without a secret it adds none.
func sign(h http.Header, secrets []secret.Redacted, message uuid.UUID, now time.Time, body []byte) {
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = s.Reveal()
	}
	signature.Sign(h, texts, message.String(), now, body)
}
