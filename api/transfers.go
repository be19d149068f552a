package api

import (
	"errors"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/page"
	"ajo/internal/provider"
	"ajo/internal/transfer"
	"ajo/ratelimit"
)

// The refusal for a tenant that has too many look-ups waiting, and of what had no turn at the bank.
const (
	lookupsWaiting = 30
	lookupRetry    = 2 // seconds
)

// getTransfer is GET /v1/transfers/:merchantTxRef and GET /auth/transfers/:merchantTxRef.
func (e *edge) getTransfer(c *fiber.Ctx) error {
	t, err := e.Transfers.Get(c.UserContext(), caller(c).ID, pathParam(c, "merchantTxRef"))
	return answer(c, t, err)
}

// listTransfers is GET /v1/transfers and GET /auth/transfers, an addition: filtered by account,
// status, amount and what they wait for, in an order.
func (e *edge) listTransfers(c *fiber.Ctx) error {
	if !storable(c.Query("accountRef")) {
		return account.ErrNotFound
	}
	search, err := searchText(c)
	if err != nil {
		return err
	}
	amount, err := queryAmount(c)
	if err != nil {
		return err
	}
	sort, err := sortedBy(c, "created", "amount")
	if err != nil {
		return err
	}
	f := transfer.Filter{AccountRef: c.Query("accountRef"), Status: transfer.Status(c.Query("status")), Awaiting: c.Query("awaiting"), Amount: amount, Search: search}
	return answerPage(c, "transfers", func(r page.Request) ([]transfer.Transfer, page.Info, error) {
		r.Sort = sort
		return e.Transfers.List(c.UserContext(), caller(c).ID, f, r)
	})
}

// listBanks is GET /v1/transfers/banks and GET /auth/transfers/banks.
func (e *edge) listBanks(c *fiber.Ctx) error {
	banks, err := e.Banks.Banks(c.UserContext())
	return answer(c, struct {
		Banks []provider.BankInfo `json:"banks"`
	}{banks}, err)
}

// lookup is POST /v1/transfers/lookup and POST /auth/transfers/lookup.
func (e *edge) lookup(c *fiber.Ctx) error {
	in := readBody(c)
	accountNumber, bankCode := in.text("accountNumber"), in.text("bankCode")
	if err := in.err(); err != nil {
		return err
	}
	h, err := e.Transfers.Lookup(c.UserContext(), bankCode, accountNumber)
	if err != nil {
		return e.turnedAway(c, err)
	}
	return c.JSON(h)
}

// turnedAway returns the refusal of a request that needed a call of the bank, or nil. If the limit
// of calls left no turn for it, it may be tried again.
func (e *edge) turnedAway(c *fiber.Ctx, err error) error {
	if errors.Is(err, provider.ErrBusy) {
		return e.limit(c, ratelimit.Result{Limit: lookupsWaiting, Reset: lookupRetry})
	}
	return err
}
