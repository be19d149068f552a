package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"ajo/internal/webhook"
)

const (
	// failingLong is how long an endpoint has been failing when its tenant is mailed.
	failingLong = time.Hour
	// mailedFor is how long the tenant gets no other e-mail about the same URL.
	mailedFor = 24 * time.Hour
	// failingMails and failingMailsOfOne are how many such e-mails one purge sends, and how many to
	// one tenant, whose URLs may have an order each. The mailer drops what is too much for it.
	failingMails, failingMailsOfOne = 100, 20
)

// mailFailing mails the tenants whose endpoints have been failing for an hour. Redis has who was
// mailed, so that only one of all workers mails; if Redis loses that, the only consequence is a
// second e-mail on one day. Who is not mailed because there are too many is mailed by a later
// purge.
func (w *Workers) mailFailing(ctx context.Context) error {
	if w.Tenants == nil {
		return nil
	}
	failing, err := w.Webhooks.Failing(ctx)
	if err != nil {
		return err
	}
	mails, of := 0, map[uuid.UUID]int{}
	for _, f := range failing {
		if f.Email == "" || w.Clock.Now().Sub(f.Since) < failingLong || mails == failingMails || of[f.TenantID] == failingMailsOfOne {
			continue
		}
		if first, err := w.Redis.SetNX(ctx, mailedKey(f), 1, mailedFor).Result(); err == nil && first {
			w.Tenants.MailFailing(f)
			mails++
			of[f.TenantID]++
		}
	}
	return nil
}

func mailedKey(f webhook.FailingEndpoint) string {
	of := sha256.Sum256([]byte(f.CallbackURL))
	return "ajo:mailed:" + f.TenantID.String() + ":" + hex.EncodeToString(of[:16])
}
