package api

import (
	"bytes"
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/payment"
	"ajo/tasks"
)

// providerWebhook is POST /webhooks/provider. It answers 200 to every event that could be stored,
// forged and repeated ones too, and 503 when the event is not on disk, so that the bank sends it
// again. It passes on the raw bytes, which the signature covers. It checks neither media type nor
// content coding; what is not JSON has no valid signature.
func (e *edge) providerWebhook(c *fiber.Ctx) error {
	raw := c.Request().Body()
	if len(raw) > maxBody {
		return errTooLarge
	}
	r, err := e.Payments.Receive(c.UserContext(), payment.Delivery{
		Body: bytes.Clone(raw), Signature: c.Get(e.SignatureHeader), Timestamp: c.Get(e.TimestampHeader),
	})
	if err != nil {
		return err
	}
	if r.Category == payment.CategorySigInvalid {
		dropTrace(c)
	}
	if r.Transfer != "" {
		e.wake(c.UserContext(), r.Transfer)
	}
	return c.JSON(struct{}{})
}

// wake lets a transfer be asked about, because the bank has said something about it. What it said
// decides nothing; a wake that fails costs time only, as the transfer has its own schedule.
func (e *edge) wake(ctx context.Context, merchantTxRef string) {
	id, ok, err := e.Transfers.Wake(ctx, merchantTxRef)
	if err != nil {
		e.Log.WarnContext(ctx, "a transfer was not woken", "transfer", merchantTxRef, "err", err)
	}
	if ok {
		e.Enqueuer.Alone(ctx, tasks.Settle, time.Now(), id)
	}
}
