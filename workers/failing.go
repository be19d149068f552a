package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"ajo/internal/webhook"
)

const (
	// failingLong is how long an endpoint has been failing when its tenant is mailed.
	failingLong = time.Hour
	// mailedFor is how long the tenant gets no other e-mail about the same URL.
	mailedFor = 24 * time.Hour
)

// mailFailing mails the tenants whose endpoints have been failing for an hour. Redis has who was
// mailed, so that only one of all workers mails; if Redis loses that, the only consequence is a
// second e-mail on one day.
func (w *Workers) mailFailing(ctx context.Context) {
	if w.Tenants == nil {
		return
	}
	failing, err := w.Webhooks.Failing(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.Warn("failing endpoints were not looked for; the next purge tries again", slog.Any("err", err))
		}
		return
	}
	for _, f := range failing {
		if f.Email == "" || w.Clock.Now().Sub(f.Since) < failingLong {
			continue
		}
		if first, err := w.Redis.SetNX(ctx, mailedKey(f), 1, mailedFor).Result(); err == nil && first {
			w.Tenants.MailFailing(f)
		}
	}
}

func mailedKey(f webhook.FailingEndpoint) string {
	of := sha256.Sum256([]byte(f.CallbackURL))
	return "ajo:mailed:" + f.TenantID.String() + ":" + hex.EncodeToString(of[:16])
}
