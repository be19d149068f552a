package tenant

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/webhook"
)

// errURLMissing refuses an empty webhook URL; the other refusals are those of [safehttp.CheckURL].
var errURLMissing = errs.New(errs.Invalid, "url is required")

// SetWebhookURL sets the URL of the tenant's deliveries, and returns it. With the first URL the
// signing secret is created, so that no event is sent unsigned. Session or API key. The URL must
// follow the service's rules for callbacks; the address that a name resolves to is checked at each
// connection. An endpoint's is refused, as each event would come there twice. The owner gets an
// e-mail when it changes. (Specification, POST /auth/webhook-url.)
func (s *Service) SetWebhookURL(ctx context.Context, id uuid.UUID, raw string, by audit.By) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", errURLMissing
	}
	if err := safehttp.CheckURL("url", raw, s.Callbacks); err != nil {
		return "", err
	}
	var email, was string
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		if _, err := ensureSecret(ctx, tx, s.Box, now, t, &by); err != nil {
			return err
		}
		if email, was = t.Email, t.WebhookURL; was == raw {
			return nil
		}
		var there bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM webhook_endpoints WHERE tenant_id = $1 AND url = $2 AND removed_at IS NULL)`, id, raw).Scan(&there); err != nil {
			return err
		}
		if there {
			return errEndpointURL
		}
		if _, err := tx.Exec(ctx, `UPDATE tenants SET webhook_url = $2, updated_at = $3 WHERE id = $1`, id, raw, now); err != nil {
			return err
		}
		change := audit.Change{Before: urlShown{safehttp.Shown(was)}, After: urlShown{safehttp.Shown(raw)}}
		return audit.Write(ctx, tx, now, by.Entry("webhook.url", target(id), change).Of(id))
	})
	if err == nil && was != raw {
		s.mails.send(webhookEmail(email, safehttp.Shown(raw), by))
	}
	return raw, err
}

// WebhookSecret returns the tenant's signing secret, 64 hex digits, and creates it if there is
// none. Session or API key. (Specification, POST /auth/webhook-secret.)
func (s *Service) WebhookSecret(ctx context.Context, id uuid.UUID, by audit.By) (secret.Redacted, error) {
	var out secret.Redacted
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		sealed, err := ensureSecret(ctx, tx, s.Box, now, t, &by)
		if err != nil {
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
	t, err := lockTenant(ctx, tx, id, forChange)
	if err == nil {
		_, err = ensureSecret(ctx, tx, box, now, t, nil)
	}
	return err
}

// ensureSecret is EnsureWebhookSecret for a tenant whose row is locked, with a line in the audit
// log unless by is nil. It returns the secret, sealed.
func ensureSecret(ctx context.Context, tx pg.Tx, box *secret.Box, now time.Time, t locked, by *audit.By) ([]byte, error) {
	if t.secret != nil {
		return t.secret, nil
	}
	sealed := box.Seal(webhookSecretPlace(t.ID), []byte(secret.NewSigningSecret().Reveal()))
	_, err := tx.Exec(ctx, `UPDATE tenants SET webhook_secret = $2, updated_at = $3 WHERE id = $1`, t.ID, sealed, now)
	if err == nil && by != nil {
		err = audit.Write(ctx, tx, now, by.Entry("webhook.secret", target(t.ID), nil).Of(t.ID))
	}
	return sealed, err
}

func webhookSecretPlace(id uuid.UUID) secret.Place {
	return secret.Place{Table: "tenants", Column: "webhook_secret", Row: id.String()}
}

// MailFailing mails the tenant that an endpoint of its has been failing.
func (s *Service) MailFailing(f webhook.FailingEndpoint) { s.mails.send(failingEmail(f)) }

// MailPaused mails the tenant that what waits for an endpoint which it has paused is given up soon.
func (s *Service) MailPaused(e webhook.PausedEndpoint) { s.mails.send(pausedEmail(e)) }
