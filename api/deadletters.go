package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/webhook"
)

// deadLetters is GET /v1/webhooks/dead-letters: the tenant's deliveries whose attempts are
// exhausted.
func (e *edge) deadLetters(c *fiber.Ctx) error {
	return answerPage(c, "deadLetters", func(r page.Request) ([]webhook.DeadLetter, page.Info, error) {
		return e.Webhooks.DeadLetters(c.UserContext(), caller(c).ID, r)
	})
}
