package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/page"
	"ajo/internal/transfer"
)

// saveBeneficiary is POST /v1/beneficiaries and POST /auth/beneficiaries, an addition: 201, or 200
// if the account is saved already.
func (e *edge) saveBeneficiary(c *fiber.Ctx) error {
	in := readBody(c)
	n := transfer.NewBeneficiary{BankCode: in.text("bankCode"), AccountNumber: in.text("accountNumber"), Label: in.text("label")}
	if err := in.err(); err != nil {
		return err
	}
	b, isNew, err := e.Transfers.SaveBeneficiary(c.UserContext(), caller(c).ID, n, e.maker(c))
	if err != nil {
		return e.turnedAway(c, err)
	}
	if isNew {
		c.Status(http.StatusCreated)
	}
	return c.JSON(b)
}

// listBeneficiaries is GET /v1/beneficiaries and GET /auth/beneficiaries.
func (e *edge) listBeneficiaries(c *fiber.Ctx) error {
	return answerPage(c, "beneficiaries", func(r page.Request) ([]transfer.Beneficiary, page.Info, error) {
		return e.Transfers.Beneficiaries(c.UserContext(), caller(c).ID, r)
	})
}

// getBeneficiary is GET /v1/beneficiaries/:id.
func (e *edge) getBeneficiary(c *fiber.Ctx) error {
	b, err := e.Transfers.Beneficiary(c.UserContext(), caller(c).ID, pathID(c))
	return answer(c, b, err)
}

// renameBeneficiary is PATCH /v1/beneficiaries/:id and PATCH /auth/beneficiaries/:id.
func (e *edge) renameBeneficiary(c *fiber.Ctx) error {
	in := readBody(c)
	label := in.optional("label")
	if err := in.err(); err != nil {
		return err
	}
	if label == nil {
		return transfer.ErrLabelMissing
	}
	b, err := e.Transfers.RenameBeneficiary(c.UserContext(), caller(c).ID, pathID(c), *label, e.acting(c))
	return answer(c, b, err)
}

// removeBeneficiary is DELETE /v1/beneficiaries/:id and DELETE /auth/beneficiaries/:id.
func (e *edge) removeBeneficiary(c *fiber.Ctx) error {
	b, err := e.Transfers.RemoveBeneficiary(c.UserContext(), caller(c).ID, pathID(c), e.acting(c))
	return answer(c, b, err)
}

// exemptBeneficiary is POST /auth/beneficiaries/:id/exempt. The owner gets an e-mail when the
// account needs no approval from now on, and shows again who is there before that.
func (e *edge) exemptBeneficiary(c *fiber.Ctx) error {
	in := readBody(c)
	exempt := in.flag("exempt")
	if err := in.err(); err != nil {
		return err
	}
	if exempt {
		if _, err := e.prove(c, in); err != nil {
			return err
		}
	}
	by := e.acting(c)
	b, changed, err := e.Transfers.ExemptBeneficiary(c.UserContext(), caller(c).ID, pathID(c), exempt, by)
	if changed && exempt {
		e.Tenants.MailExempted(caller(c), b.AccountNumber, b.BankName, by)
	}
	return answer(c, b, err)
}
