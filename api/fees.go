package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/fee"
	"ajo/internal/money"
)

// errFeeQuery refuses a query with both parameters, or with neither.
var errFeeQuery = errs.New(errs.Invalid, "exactly one of amount and net is required")

// calculateFee is GET /v1/fees/calculate, in both forms: ?amount= and ?net=. An addition: the
// platform's charges, if the tenant has a price.
func (e *edge) calculateFee(c *fiber.Ctx) error {
	amount, net := c.Query("amount") != "", c.Query("net") != "" // without a value it is absent
	if amount == net {
		return errFeeQuery
	}
	name := "amount"
	if net {
		name = "net"
	}
	q, err := e.Fees.For(c.Query(name))
	if err != nil {
		return err
	}
	platform, err := e.Prices.Quote(c.UserContext(), caller(c).ID, q)
	if err != nil {
		return err
	}
	if net {
		return c.JSON(struct {
			Net      money.Amount  `json:"net"`
			Fee      money.Amount  `json:"fee"`
			Gross    money.Amount  `json:"gross"`
			Platform *fee.Platform `json:"platform_fees,omitempty"`
		}{q.Receive, q.Fee, q.Send, platform})
	}
	return c.JSON(struct {
		ReceiveAmount money.Amount  `json:"receive_amount"`
		ProviderFee   money.Amount  `json:"provider_fee"`
		SendAmount    money.Amount  `json:"send_amount"`
		Platform      *fee.Platform `json:"platform_fees,omitempty"`
	}{q.Receive, q.Fee, q.Send, platform})
}
