package api

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/ledger"
)

// member returns the By of a session's member, as acting does; nil for an API key.
func (e *edge) member(c *fiber.Ctx) *audit.By {
	if caller(c).Key.ID != uuid.Nil {
		return nil
	}
	by := e.acting(c)
	return &by
}

// placeHold is POST /v1/accounts/:accountRef/holds and POST /auth/accounts/:accountRef/holds,
// additions.
func (e *edge) placeHold(c *fiber.Ctx) error {
	in := readBody(c)
	amount, err := amountOf(in)
	if err != nil {
		return err
	}
	n := account.NewHold{Amount: amount, Reason: in.text("reason"), Until: in.time("until"), By: e.member(c), Standing: e.standing(c)}
	if err := in.err(); err != nil {
		return err
	}
	key, done, err := e.keyOf(c, c.Request().Body())
	if err != nil || done {
		return err
	}
	r, err := e.Accounts.PlaceHold(c.UserContext(), caller(c).ID, pathParam(c, accountRef), n, key)
	return e.answerOnce(c, key, r, err)
}

// listHolds is GET /v1/accounts/:accountRef/holds and GET /auth/accounts/:accountRef/holds.
func (e *edge) listHolds(c *fiber.Ctx) error {
	return answerPage(c, "holds", func(r page.Request) ([]ledger.Hold, page.Info, error) {
		return e.Accounts.Holds(c.UserContext(), caller(c).ID, pathParam(c, accountRef), ledger.HoldStatus(c.Query("status")), r)
	})
}

// listRecalls is GET /auth/accounts/:accountRef/recalls, an addition: what recalls hold.
func (e *edge) listRecalls(c *fiber.Ctx) error {
	a, err := e.Accounts.Get(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	if err != nil {
		return err
	}
	return answerPage(c, "recalls", func(r page.Request) ([]payment.HeldRecall, page.Info, error) {
		return e.Payments.HeldRecalls(c.UserContext(), a.TenantID, a.ID, r)
	})
}

// getHold is GET /v1/holds/:id.
func (e *edge) getHold(c *fiber.Ctx) error {
	h, err := e.Accounts.Hold(c.UserContext(), caller(c).ID, pathID(c))
	return answer(c, h, err)
}

// releaseHold is POST /v1/holds/:id/release and POST /auth/holds/:id/release. It reads no body.
func (e *edge) releaseHold(c *fiber.Ctx) error {
	key, done, err := e.keyOf(c, c.Request().Body())
	if err != nil || done {
		return err
	}
	r, err := e.Accounts.ReleaseHold(c.UserContext(), caller(c).ID, pathID(c), e.acting(c), key)
	return e.answerOnce(c, key, r, err)
}
