package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
)

// listEvents is GET /v1/events, an addition: the log of the tenant's events, oldest first. Unlike a
// list, it also has a cursor at its end, since there will be more events.
func (e *edge) listEvents(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.Max)
	if err != nil {
		return err
	}
	l, err := e.Webhooks.Log(c.UserContext(), caller(c).ID, r)
	l.Events = notNull(l.Events)
	return answer(c, l, err)
}
