package api

import (
	"bytes"
	"context"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/payment"
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
		e.expedite(c.UserContext(), r.Transfer)
	}
	return c.JSON(struct{}{})
}

// expedite lets a transfer be asked about, because the bank has said something about it. What it
// said decides nothing; where this fails it costs time only, as the transfer has its own schedule.
func (e *edge) expedite(ctx context.Context, merchantTxRef string) {
	if _, err := e.Transfers.Expedite(ctx, merchantTxRef); err != nil {
		e.Log.WarnContext(ctx, "a transfer was not expedited", "transfer", merchantTxRef, "err", err)
	}
}
