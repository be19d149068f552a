package tenant

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// ErrURLMissing refuses a webhook URL that is empty; the other refusals are [safehttp.CheckURL]'s.
var ErrURLMissing = errs.New(errs.Invalid, "url is required")

// SetWebhookURL sets where the tenant's deliveries go, and returns the URL. Session or API key. It must keep
// to the service's rules for callbacks; what a name resolves to is checked when it is connected to. (Specification, POST /auth/webhook-url.)
func (s *Service) SetWebhookURL(ctx context.Context, id uuid.UUID, raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", ErrURLMissing
	}
	if err := safehttp.CheckURL("url", raw, s.Callbacks); err != nil {
		return "", err
	}
	_, err := s.Pool.Exec(ctx, `UPDATE tenants SET webhook_url = $2, updated_at = $3 WHERE id = $1`, id, raw, s.Clock.Now())
	return raw, err
}

// WebhookSecret returns the tenant's signing secret, 64 hex digits, and makes it on the first call. Calls at once get one
// secret: the row is locked. Session or API key. (Specification, POST /auth/webhook-secret.)
func (s *Service) WebhookSecret(ctx context.Context, id uuid.UUID) (secret.Redacted, error) {
	place := secret.Place{Table: "tenants", Column: "webhook_secret", Row: id.String()}
	var out secret.Redacted
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		var sealed []byte
		if err := tx.QueryRow(ctx, `SELECT webhook_secret FROM tenants WHERE id = $1 FOR UPDATE`, id).Scan(&sealed); err != nil {
			return err
		}
		if sealed != nil {
			plain, err := s.Box.Open(place, sealed)
			out = secret.Redact(string(plain))
			return err
		}
		out = secret.NewSigningSecret()
		_, err := tx.Exec(ctx, `UPDATE tenants SET webhook_secret = $2, updated_at = $3 WHERE id = $1`,
			id, s.Box.Seal(place, []byte(out.Reveal())), s.Clock.Now())
		return err
	})
	return out, err
}
