package api

import (
	"bytes"
	"context"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/statement"
	"ajo/ledger"
)

var errSums = errs.New(errs.Invalid, "sums must be true or false")

// paymentFilter reads the query's filter of payments, and the account that it names.
func paymentFilter(c *fiber.Ctx) (f ledger.PaymentFilter, ref string, err error) {
	if ref = c.Query("accountRef"); !storable(ref) {
		return f, ref, account.ErrNotFound
	}
	if f.From, f.To, err = queryRange(c); err != nil {
		return f, ref, err
	}
	if f.Search, err = searchText(c); err != nil {
		return f, ref, err
	}
	f.Status = ledger.Status(c.Query("status"))
	f.Amount, err = queryAmount(c)
	return f, ref, err
}

// listPayments is GET /v1/payments and GET /auth/payments, an addition: by filter, in an order, and
// with the sums of all pages on request.
func (e *edge) listPayments(c *fiber.Ctx) error {
	f, ref, err := paymentFilter(c)
	if err != nil {
		return err
	}
	sort, err := sortedBy(c, "created", "amount")
	if err != nil {
		return err
	}
	var sums *ledger.PaymentSums
	switch c.Query("sums") {
	case "", "false":
	case "true":
		sums = new(ledger.PaymentSums)
	default:
		return errSums
	}
	r, err := pageRequest(c, page.DefaultList)
	if err != nil {
		return err
	}
	r.Sort = sort
	var list []ledger.Payment
	var info page.Info
	if sums == nil {
		list, info, err = e.Payments.List(c.UserContext(), caller(c).ID, ref, f, r)
	} else {
		list, info, *sums, err = e.Payments.ListSummed(c.UserContext(), caller(c).ID, ref, f, r)
	}
	return answer(c, struct {
		Payments   []ledger.Payment    `json:"payments"`
		Sums       *ledger.PaymentSums `json:"sums,omitempty"`
		Pagination page.Info           `json:"pagination"`
	}{notNull(list), sums, info}, err)
}

// getPayment is GET /v1/payments/:id and GET /auth/payments/:id, an addition: a payment and its
// timeline.
func (e *edge) getPayment(c *fiber.Ctx) error {
	t, err := e.Payments.Timeline(c.UserContext(), caller(c).ID, pathID(c))
	return answer(c, t, err)
}

// paymentsCSV is GET /auth/payments.csv, an addition: all payments that match the filter.
func (e *edge) paymentsCSV(c *fiber.Ctx) error {
	f, ref, err := paymentFilter(c)
	if err != nil {
		return err
	}
	return e.sendFile(c, "text/csv; charset=utf-8", "csv", f.To, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		return "payments", statement.PaymentsCSV(b, func(each func(ledger.Payment) error) error {
			return e.Payments.Each(ctx, caller(c).ID, ref, f, maxCSVLines, each)
		})
	})
}
