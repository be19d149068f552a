package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/page"
	"ajo/tasks"
)

// accountRef is the parameter of the paths below.
const accountRef = "accountRef"

// provisionAccount is POST /v1/accounts.
func (e *edge) provisionAccount(c *fiber.Ctx) error {
	in, err := readBody(c)
	if err != nil {
		return err
	}
	n := account.NewAccount{
		ExternalRef: in.text("externalRef"), Name: in.text("name"), BVN: in.secret("bvn"), CallbackURL: in.optional("callbackUrl"),
		ExpectedAmount: in.amount("expectedAmount"), ExpiresAt: in.time("expiresAt"), Mode: in.text("mode"),
	}
	if err := in.err(); err != nil {
		return err
	}
	a, err := e.Accounts.Provision(c.UserContext(), caller(c).ID, n)
	if err != nil {
		return err
	}
	if a.ExpiresAt != nil {
		e.Enqueuer.At(c.UserContext(), tasks.Expire, *a.ExpiresAt, a.ID)
	}
	return c.Status(http.StatusCreated).JSON(a)
}

// listAccounts is GET /v1/accounts.
func (e *edge) listAccounts(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	list, info, err := e.Accounts.List(c.UserContext(), caller(c).ID, r)
	if err != nil {
		return err
	}
	if list == nil {
		list = []account.Account{}
	}
	return c.JSON(struct {
		Accounts   []account.Account `json:"accounts"`
		Pagination page.Info         `json:"pagination"`
	}{list, info})
}

// getAccount is GET /v1/accounts/:accountRef.
func (e *edge) getAccount(c *fiber.Ctx) error {
	a, err := e.Accounts.Get(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	if err != nil {
		return err
	}
	return c.JSON(a)
}

// balance is GET /v1/accounts/:accountRef/balance.
func (e *edge) balance(c *fiber.Ctx) error {
	b, err := e.Accounts.Balance(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	if err != nil {
		return err
	}
	return c.JSON(b)
}

// history is GET /v1/accounts/:accountRef/history; the list is null when nothing is recorded.
func (e *edge) history(c *fiber.Ctx) error {
	list, err := e.Accounts.History(c.UserContext(), caller(c).ID, pathParam(c, accountRef))
	if err != nil {
		return err
	}
	if len(list) == 0 {
		list = nil
	}
	return c.JSON(struct {
		History []account.HistoryEntry `json:"history"`
	}{list})
}

// statement is GET /v1/accounts/:accountRef/statement.
func (e *edge) statement(c *fiber.Ctx) error {
	r, err := pageRequest(c, page.DefaultStatement)
	if err != nil {
		return err
	}
	s, err := e.Accounts.Statement(c.UserContext(), caller(c).ID, pathParam(c, accountRef), r)
	if err != nil {
		return err
	}
	return c.JSON(s)
}
