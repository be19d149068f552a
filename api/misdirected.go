package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/payment"
)

// misdirected is GET /auth/misdirected: all tenants' events that matched no account; null when
// there are none.
func (e *edge) misdirected(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	events, info, err := e.Payments.Misdirected(c.UserContext(), r)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		events = nil
	}
	return c.JSON(struct {
		Events     []payment.EventRecord `json:"events"`
		Pagination page.Info             `json:"pagination"`
	}{events, info})
}
