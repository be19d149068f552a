package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/webhook"
)

// deadLetters is GET /v1/webhooks/dead-letters: the tenant's deliveries whose attempts are
// exhausted.
func (e *edge) deadLetters(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	letters, info, err := e.Webhooks.DeadLetters(c.UserContext(), caller(c).ID, r)
	if err != nil {
		return err
	}
	if letters == nil {
		letters = []webhook.DeadLetter{}
	}
	return c.JSON(struct {
		DeadLetters []webhook.DeadLetter `json:"deadLetters"`
		Pagination  page.Info            `json:"pagination"`
	}{letters, info})
}
