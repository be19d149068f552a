package webhook

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/signature"
)

// owner names the table of the rows that have secrets, and the columns.
type owner struct{ table, secret, previous string }

var (
	ofTenant   = owner{"tenants", "webhook_secret", "webhook_secret_previous"}
	ofEndpoint = owner{"webhook_endpoints", "secret", "secret_previous"}
)

// sealedSecrets are signing secrets as stored in the row.
type sealedSecrets struct {
	of            owner
	current       []byte
	previous      []byte
	previousUntil *time.Time
}

// open returns the secrets that sign at the time now: the current one first, then the previous one
// while that is valid. A secret that cannot be decrypted is an error: a tenant that has a secret is
// never sent an unsigned delivery.
func (z sealedSecrets) open(box *secret.Box, row uuid.UUID, now time.Time) ([]secret.Redacted, error) {
	var out []secret.Redacted
	add := func(column string, sealed []byte) error {
		plain, err := box.Open(secret.Place{Table: z.of.table, Column: column, Row: row.String()}, sealed)
		if err != nil {
			return fmt.Errorf("%s.%s of %s: %w", z.of.table, column, row, err)
		}
		out = append(out, secret.Redact(string(plain)))
		return nil
	}
	if z.current != nil {
		if err := add(z.of.secret, z.current); err != nil {
			return nil, err
		}
	}
	if z.previous != nil && z.previousUntil != nil && now.Before(*z.previousUntil) {
		if err := add(z.of.previous, z.previous); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Sign adds the signature headers for a sending at the time now; without a secret it adds none.
func Sign(h http.Header, secrets []secret.Redacted, message string, now time.Time, body []byte) {
	texts := make([]string, len(secrets))
	for i, s := range secrets {
		texts[i] = s.Reveal()
	}
	signature.Sign(h, texts, message, now, body)
}

// ReadSecrets returns the secrets that sign for a tenant at the time now, the current one first.
func ReadSecrets(ctx context.Context, q pg.Querier, box *secret.Box, tenant uuid.UUID, now time.Time) ([]secret.Redacted, error) {
	z := sealedSecrets{of: ofTenant}
	err := q.QueryRow(ctx, `SELECT webhook_secret, webhook_secret_previous, webhook_secret_previous_until FROM tenants WHERE id = $1`, tenant).
		Scan(&z.current, &z.previous, &z.previousUntil)
	if err != nil {
		return nil, err
	}
	return z.open(box, tenant, now)
}
