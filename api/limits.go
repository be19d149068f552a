package api

import "github.com/gofiber/fiber/v2"

// limits is GET /v1/limits, an addition: the tenant's limits, and what is used of them today.
func (e *edge) limits(c *fiber.Ctx) error {
	standing, err := e.TenantLimits.Standing(c.UserContext(), caller(c).ID)
	return answer(c, standing, err)
}
