package api

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/customer"
	"ajo/internal/page"
	"ajo/ratelimit"
)

// listCustomers is GET /v1/customers and GET /auth/customers. Its search and KYC status filters are
// an addition.
func (e *edge) listCustomers(c *fiber.Ctx) error {
	search, err := searchText(c)
	if err != nil {
		return err
	}
	f := customer.Filter{Search: search, KYCStatus: customer.KYCStatus(c.Query("kycStatus"))}
	return answerPage(c, "customers", func(r page.Request) ([]customer.Customer, page.Info, error) {
		return e.Customers.List(c.UserContext(), caller(c).ID, f, r)
	})
}

// getCustomer is GET /v1/customers/:id and GET /auth/customers/:id.
func (e *edge) getCustomer(c *fiber.Ctx) error {
	out, err := e.Customers.Get(c.UserContext(), caller(c).ID, pathID(c))
	return answer(c, out, err)
}

// renameCustomer is PATCH /v1/customers/:id.
func (e *edge) renameCustomer(c *fiber.Ctx) error {
	in := readBody(c)
	name := in.text("name")
	if err := in.err(); err != nil {
		return err
	}
	out, err := e.Customers.Rename(c.UserContext(), caller(c).ID, pathID(c), name, e.standing(c))
	return answer(c, out, err)
}

// customerAccount is GET /v1/customers/:id/account.
func (e *edge) customerAccount(c *fiber.Ctx) error {
	a, err := e.Accounts.OfCustomer(c.UserContext(), caller(c).ID, pathID(c))
	return answer(c, a, err)
}

// How many NINs are checked at once, how long a submission waits for its turn, so that enough of
// its time is left for the check, and when one that had none may try again, in seconds.
const (
	checksAtOnce = 16
	checkWait    = 5 * time.Second
	checkRetry   = 2
)

// submitKYC is POST /v1/customers/:id/kyc and POST /auth/customers/:id/kyc, the second is an
// addition.
func (e *edge) submitKYC(c *fiber.Ctx) error {
	in := readBody(c)
	nin := in.digits("nin")
	if err := in.err(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(c.UserContext(), checkWait)
	defer cancel()
	leave, err := e.nins.enter(waiting, caller(c).ID)
	if err != nil {
		return e.limit(c, ratelimit.Result{Limit: int64(e.nins.each), Reset: checkRetry})
	}
	defer leave()
	by := customer.Submitter{By: e.member(c), Standing: e.standing(c)}
	out, err := e.Customers.SubmitNIN(c.UserContext(), caller(c).ID, pathID(c), nin, by)
	return answer(c, out, err)
}

// approveKYC is POST /auth/customers/:id/kyc/approve.
func (e *edge) approveKYC(c *fiber.Ctx) error { return e.decideKYC(c, customer.KYCApprove) }

// rejectKYC is POST /auth/customers/:id/kyc/reject.
func (e *edge) rejectKYC(c *fiber.Ctx) error { return e.decideKYC(c, customer.KYCReject) }

func (e *edge) decideKYC(c *fiber.Ctx, event customer.KYCEvent) error {
	t := caller(c)
	seen, _, err := queryTime(c, "updatedAt")
	if err != nil {
		return err
	}
	by := customer.Reviewer{TenantID: t.ID, Operator: t.Operator, Seen: seen, By: e.acting(c)}
	out, err := e.Customers.Decide(c.UserContext(), by, pathID(c), event)
	return answer(c, out, err)
}
