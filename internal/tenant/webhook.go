package tenant

import (
	"context"
	"net/netip"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// Refusals of a webhook URL; the ones about its form are safehttp's.
var (
	ErrURLMissing = errs.New(errs.Invalid, "url is required")
	ErrURLPrivate = errs.New(errs.Invalid, "url must not point to a private address")
)

// SetWebhookURL sets where the tenant's deliveries go, and returns the URL. Session or API key. In production it must be
// https, and not a private address in so many digits; what a name resolves to is checked when it is connected to.
// (Specification, POST /auth/webhook-url.)
func (s *Service) SetWebhookURL(ctx context.Context, id uuid.UUID, raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", ErrURLMissing
	}
	if err := safehttp.CheckURL("url", raw, s.Production); err != nil {
		return "", err
	}
	if s.Production && isPrivate(raw) {
		return "", ErrURLPrivate
	}
	_, err := s.Pool.Exec(ctx, `UPDATE tenants SET webhook_url = $2, updated_at = $3 WHERE id = $1`, id, raw, s.Clock.Now())
	return raw, err
}

// isPrivate tells whether the URL's host is plainly this machine or a private address.
func isPrivate(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (!ip.Unmap().IsGlobalUnicast() || ip.Unmap().IsPrivate())
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
