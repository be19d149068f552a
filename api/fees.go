package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/money"
)

// errFeeQuery refuses a query with both parameters, or with neither.
var errFeeQuery = errs.New(errs.Invalid, "exactly one of amount and net is required")

// calculateFee is GET /v1/fees/calculate, in both forms: ?amount= and ?net=.
func (e *edge) calculateFee(c *fiber.Ctx) error {
	args := c.Request().URI().QueryArgs()
	amount, net := args.Has("amount"), args.Has("net")
	if amount == net {
		return errFeeQuery
	}
	if net {
		q, err := e.Fees.For(c.Query("net"))
		if err != nil {
			return err
		}
		return c.JSON(struct {
			Net   money.Amount `json:"net"`
			Fee   money.Amount `json:"fee"`
			Gross money.Amount `json:"gross"`
		}{q.Receive, q.Fee, q.Send})
	}
	q, err := e.Fees.For(c.Query("amount"))
	return answer(c, struct {
		ReceiveAmount money.Amount `json:"receive_amount"`
		ProviderFee   money.Amount `json:"provider_fee"`
		SendAmount    money.Amount `json:"send_amount"`
	}{q.Receive, q.Fee, q.Send}, err)
}
