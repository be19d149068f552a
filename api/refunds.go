package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/idempotency"
	"ajo/internal/transfer"
)

// refundEntry is POST /v1/entries/:id/refund, an addition. Without an amount, or with null, all
// that is left of the payment goes back.
func (e *edge) refundEntry(c *fiber.Ctx) error {
	in := readBody(c)
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
	return e.once(c, func(key idempotency.Request) (idempotency.Answer, bool, error) {
		s, err := e.Transfers.Refund(c.UserContext(), caller(c).ID, pathID(c), amount, key)
		return s.Answer, s.Replayed, err
	})
}
