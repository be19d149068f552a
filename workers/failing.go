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
	// mailedFor is how long it is not mailed again about the same URL.
	mailedFor = 24 * time.Hour
)

// mailFailing mails the tenants whose endpoints have been failing for an hour. Who has been mailed
// stands in Redis: of all workers one mails, and if Redis loses it, a second mail on a day is all
// that comes of it.
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
