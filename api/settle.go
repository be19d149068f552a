package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/transfer"
)

// errAmountNumber refuses an amount that was sent as a JSON number, since it may have lost digits
// in the client.
var errAmountNumber = errs.New(errs.Unprocessable, "amount must be a decimal string, not a number")

// amountOf is the amount of a settlement as text. Any value that is not a string, null too, becomes
// "", which the use case refuses as a bad amount.
func amountOf(in *body) (string, error) {
	switch {
	case in.isNumber("amount"):
		return "", errAmountNumber
	case !in.isText("amount"):
		return "", nil
	}
	return in.text("amount"), nil
}

// maker returns who asks for a transfer: the member of a session, or nobody for an API key. A
// transfer's line in the audit log is written behind its locks, and refused as in acting.
func (e *edge) maker(c *fiber.Ctx) transfer.Maker {
	return transfer.Maker{Member: caller(c).Member.ID, By: e.acting(c), Standing: e.standing(c)}
}

// settle is POST /v1/accounts/:accountRef/settle and POST /auth/accounts/:accountRef/settle; the
// second is an addition, for a member, who gives the password or a code.
func (e *edge) settle(c *fiber.Ctx) error {
	in := readBody(c)
	asked, err := e.prove(c, in)
	if err != nil {
		return err
	}
	amount, err := amountOf(in)
	if err != nil {
		return err
	}
	o := transfer.Order{
		Amount: amount, BankCode: in.text("bankCode"), AccountNumber: in.text("accountNumber"),
		AccountName: in.optional("accountName"), Beneficiary: in.text("beneficiary"), Narration: in.text("narration"), Maker: e.maker(c),
	}
	if err := in.err(); err != nil {
		return err
	}
	key, done, err := e.keyOf(c, asked)
	if err != nil || done {
		return err
	}
	s, err := e.Transfers.Settle(c.UserContext(), caller(c).ID, pathParam(c, accountRef), o, key)
	return e.answerOnce(c, key, s.Result, e.turnedAway(c, err))
}

// bookTransfer is POST /v1/accounts/:accountRef/transfer.
func (e *edge) bookTransfer(c *fiber.Ctx) error {
	in := readBody(c)
	amount, err := amountOf(in)
	if err != nil {
		return err
	}
	o := account.BookOrder{ToAccountRef: in.text("toAccountRef"), Amount: amount, Narration: in.text("narration"), Standing: e.standing(c)}
	if err := in.err(); err != nil {
		return err
	}
	key, done, err := e.keyOf(c, c.Request().Body())
	if err != nil || done {
		return err
	}
	r, err := e.Accounts.Transfer(c.UserContext(), caller(c).ID, pathParam(c, accountRef), o, key)
	return e.answerOnce(c, key, r, err)
}
