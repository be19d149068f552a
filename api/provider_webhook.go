package api

import (
	"bytes"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/payment"
	"ajo/tasks"
)

// providerWebhook is POST /webhooks/provider. It answers 200 to whatever could be stored, forged and repeated events too,
// and 503 when the event is on no disk, so that the bank sends it again. The raw bytes are handed on: the signature is
// over what was sent. Neither a media type nor an encoding is asked for; what is not JSON has no valid signature.
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
	if r.ToPost() {
		e.Enqueuer.Now(c.UserContext(), tasks.Ingest, r.ID)
	}
	return c.JSON(struct{}{})
}
