package api

import (
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// The length of a search text, and how many rows of each list an answer has.
const (
	minSought  = 2 // characters
	shownFound = 10
)

var errSought = errs.New(errs.Invalid, "q must be valid UTF-8 without NUL, 2 to 100 characters")

// findings are the answer of GET /auth/search, by list.
type findings struct {
	Accounts  []account.Listed    `json:"accounts"`
	Customers []customer.Customer `json:"customers"`
	Payments  []ledger.Payment    `json:"payments"`
	Transfers []transfer.Transfer `json:"transfers"`
	More      []string            `json:"more"` // the lists that may have others that match
}

// search is GET /auth/search, an addition: the tenant's rows that match a text or a sum.
func (e *edge) search(c *fiber.Ctx) error {
	text := strings.TrimSpace(c.Query("q"))
	if n := utf8.RuneCountInString(text); !storable(text) || n < minSought || n > maxSearch {
		return errSought
	}
	ctx, id, sum := c.UserContext(), caller(c).ID, sumIn(text)
	f := findings{More: []string{}}
	var err error
	note := func(list string, more bool) {
		if more {
			f.More = append(f.More, list)
		}
	}
	var more bool
	if f.Accounts, more, err = e.Accounts.Search(ctx, id, text, shownFound); err != nil {
		return err
	}
	note("accounts", more)
	if f.Customers, more, err = e.Customers.Search(ctx, id, text, shownFound); err != nil {
		return err
	}
	note("customers", more)
	if f.Payments, more, err = e.Payments.Search(ctx, id, text, sum, shownFound); err != nil {
		return err
	}
	note("payments", more)
	if f.Transfers, more, err = e.Transfers.Search(ctx, id, text, sum, shownFound); err != nil {
		return err
	}
	note("transfers", more)
	f.Accounts, f.Customers, f.Payments, f.Transfers = notNull(f.Accounts), notNull(f.Customers), notNull(f.Payments), notNull(f.Transfers)
	return c.JSON(f)
}

// sumIn parses a sum as people write it, such as ₦12,000 or 12000.50; nil: the text is not one.
func sumIn(text string) *money.Amount {
	text = strings.NewReplacer("₦", "", ",", "", " ", "").Replace(text)
	sum, err := money.Parse(text)
	if err != nil || !sum.IsPositive() {
		return nil
	}
	return &sum
}
