package api

import (
	"bytes"

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
	r, err := e.Payments.Receive(c.UserContext(), payment.InboundRequest{
		Body: bytes.Clone(raw), Signature: c.Get(e.SignatureHeader), Timestamp: c.Get(e.TimestampHeader),
	})
	if err != nil {
		return err
	}
	if r.Category == payment.CategorySigInvalid {
		dropTrace(c)
	}
	return c.JSON(struct{}{})
}
