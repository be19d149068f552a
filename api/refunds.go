package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/transfer"
)

// refund is POST /v1/entries/:id/refund and POST /auth/payments/:id/refund, additions; in the
// second, a member gives the password or a code. Without an amount, or with null, everything that
// is left of the payment is refunded.
func (e *edge) refund(c *fiber.Ctx) error {
	in := readBody(c)
	asked, err := e.prove(c, in)
	if err != nil {
		return err
	}
	amount := ""
	if _, given := in.value("amount"); given {
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
	key, done, err := e.keyOf(c, asked)
	if err != nil || done {
		return err
	}
	s, err := e.Transfers.Refund(c.UserContext(), caller(c).ID, pathID(c), amount, e.maker(c), key)
	return e.answerOnce(c, key, s.Result, err)
}
