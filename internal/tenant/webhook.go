package tenant

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// ErrURLMissing refuses an empty webhook URL; the other refusals are those of [safehttp.CheckURL].
var ErrURLMissing = errs.New(errs.Invalid, "url is required")

// SetWebhookURL sets the URL of the tenant's deliveries, and returns it. With the first URL the
// signing secret is created, so that no event is sent unsigned. Session or API key. The URL must
// follow the service's rules for callbacks; the address that a name resolves to is checked at each
// connection. (Specification, POST /auth/webhook-url.)
func (s *Service) SetWebhookURL(ctx context.Context, id uuid.UUID, raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", ErrURLMissing
	}
	if err := safehttp.CheckURL("url", raw, s.Callbacks); err != nil {
		return "", err
	}
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if err := EnsureWebhookSecret(ctx, tx, s.Box, now, id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE tenants SET webhook_url = $2, updated_at = $3 WHERE id = $1`, id, raw, now)
		return err
	})
	return raw, err
}

// WebhookSecret returns the tenant's signing secret, 64 hex digits, and creates it if there is
// none. Session or API key. (Specification, POST /auth/webhook-secret.)
func (s *Service) WebhookSecret(ctx context.Context, id uuid.UUID) (secret.Redacted, error) {
	var out secret.Redacted
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := EnsureWebhookSecret(ctx, tx, s.Box, s.Clock.Now(), id); err != nil {
			return err
		}
		var sealed []byte
		if err := tx.QueryRow(ctx, `SELECT webhook_secret FROM tenants WHERE id = $1`, id).Scan(&sealed); err != nil {
			return err
		}
		plain, err := s.Box.Open(webhookSecretPlace(id), sealed)
		out = secret.Redact(string(plain))
		return err
	})
	return out, err
}

// EnsureWebhookSecret creates the tenant's signing secret unless it has one. It runs in the
// transaction that gives the tenant, or an account of it, a URL for events. Concurrent calls create
// one: the row is locked, in the mode that does not block inserts of rows that refer to the tenant.
func EnsureWebhookSecret(ctx context.Context, tx pg.Tx, box *secret.Box, now time.Time, id uuid.UUID) error {
	var there bool
	err := tx.QueryRow(ctx, `SELECT webhook_secret IS NOT NULL FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, id).Scan(&there)
	if err != nil || there {
		return err
	}
	sealed := box.Seal(webhookSecretPlace(id), []byte(secret.NewSigningSecret().Reveal()))
	_, err = tx.Exec(ctx, `UPDATE tenants SET webhook_secret = $2, updated_at = $3 WHERE id = $1`, id, sealed, now)
	return err
}

func webhookSecretPlace(id uuid.UUID) secret.Place {
	return secret.Place{Table: "tenants", Column: "webhook_secret", Row: id.String()}
}
