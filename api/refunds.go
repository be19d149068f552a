package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/idempotency"
	"ajo/internal/transfer"
)

// refundEntry is POST /v1/entries/:id/refund, an addition. Without an amount, or with null,
// everything that is left of the payment is refunded.
func (e *edge) refundEntry(c *fiber.Ctx) error {
	return e.refundFor(c, readBody(c), c.Request().Body())
}

// refundPayment is POST /auth/payments/:id/refund, an addition: refundEntry, for a member who gives
// the password or a code.
func (e *edge) refundPayment(c *fiber.Ctx) error {
	in := readBody(c)
	if err := e.prove(c, in); err != nil {
		return err
	}
	return e.refundFor(c, in, in.without("password", "code"))
}

// refundFor refunds a payment for the maker. asked is compared with that of a repeat.
func (e *edge) refundFor(c *fiber.Ctx, in *body, asked []byte) error {
	amount := ""
	if _, given := in.value("amount"); given {
		var err error
		if amount, err = amountOf(in); err != nil {
			return err
		}
		if amount == "" {
			return transfer.ErrAmount
		}
	}
	if err := in.err(); err != nil {
		return err
	}
	return e.onceOf(c, asked, func(key idempotency.Request) (idempotency.Answer, bool, error) {
		s, err := e.Transfers.Refund(c.UserContext(), caller(c).ID, pathID(c), amount, e.maker(c), key)
		return s.Answer, s.Replayed, err
	})
}
