package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/transfer"
	"ajo/ledger"
)

var errDays = errs.New(errs.Invalid, "days must be 7, 30, 90 or 365")

// overview is GET /auth/overview, an addition: the first page of the dashboard.
func (e *edge) overview(c *fiber.Ctx) error {
	days := ledger.OverviewDays
	switch c.Query("days") {
	case "", "30":
	case "7":
		days = 7
	case "90":
		days = 90
	case "365":
		days = 365
	default:
		return errDays
	}
	var o struct {
		account.Overview
		AwaitingApproval transfer.Awaiting `json:"awaitingApproval"`
	}
	var err error
	if o.Overview, err = e.Accounts.Overview(c.UserContext(), caller(c).ID, days); err == nil {
		o.AwaitingApproval, err = e.Transfers.AwaitingApproval(c.UserContext(), caller(c).ID)
	}
	return answer(c, o, err)
}
