package api

import "github.com/gofiber/fiber/v2"

// overview is GET /auth/overview, an addition: the first page of the dashboard.
func (e *edge) overview(c *fiber.Ctx) error {
	o, err := e.Accounts.Overview(c.UserContext(), caller(c).ID)
	return answer(c, o, err)
}
