package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/transfer"
)

// overview is GET /auth/overview, an addition: the first page of the dashboard.
func (e *edge) overview(c *fiber.Ctx) error {
	var o struct {
		account.Overview
		AwaitingApproval transfer.Awaiting `json:"awaitingApproval"`
	}
	var err error
	if o.Overview, err = e.Accounts.Overview(c.UserContext(), caller(c).ID); err == nil {
		o.AwaitingApproval, err = e.Transfers.AwaitingApproval(c.UserContext(), caller(c).ID)
	}
	return answer(c, o, err)
}
