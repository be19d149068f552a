package api

import (
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/webhook"
)

// deadLetters is GET /v1/webhooks/dead-letters: the tenant's deliveries whose attempts are
// exhausted; and before when they may be in the archive.
func (e *edge) deadLetters(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	list, info, err := e.Webhooks.DeadLetters(c.UserContext(), caller(c).ID, r)
	if err != nil {
		return err
	}
	archived, err := e.Webhooks.ArchivedBefore(c.UserContext())
	return answer(c, struct {
		DeadLetters    []webhook.DeadLetter `json:"deadLetters"`
		ArchivedBefore *time.Time           `json:"archivedBefore"` // an addition
		Pagination     page.Info            `json:"pagination"`
	}{notNull(list), archived, info}, err)
}
