package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

const (
	// pausedLong is how long an endpoint has been paused when its tenant is mailed: what waits is
	// given up a week later.
	pausedLong = webhook.PausedMost - 7*24*time.Hour
	// pausedMails is how many paused endpoints one purge looks at.
	pausedMails = 1000
)

// mailPaused mails the tenants that have paused an endpoint for 23 days, once for each pause, as
// [Workers.mailFailing] does.
func (w *Workers) mailPaused(ctx context.Context) error {
	if w.Tenants == nil {
		return nil
	}
	now := w.Clock.Now()
	paused, err := w.Webhooks.Paused(ctx, now.Add(-webhook.PausedMost), now.Add(-pausedLong), pausedMails)
	if err != nil {
		return err
	}
	mails := 0
	for _, e := range paused {
		if e.Email == "" || mails == failingMails {
			continue
		}
		key := fmt.Sprintf("ajo:mailed:paused:%s:%d", e.ID, e.Since.UnixMicro())
		if first, err := w.Redis.SetNX(ctx, key, 1, webhook.PausedMost-pausedLong+24*time.Hour).Result(); err == nil && first {
			w.Tenants.MailPaused(e)
			mails++
		}
	}
	return nil
}

func mailedKey(f webhook.FailingEndpoint) string {
	of := sha256.Sum256([]byte(f.CallbackURL))
	return "ajo:mailed:" + f.TenantID.String() + ":" + hex.EncodeToString(of[:16])
}
