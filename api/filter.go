package api

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/ledger"
)

const (
	maxSearch = 100 // characters
	maxTime   = 40  // characters, of which a time needs 35 down to the nanosecond
)

// Refusals of a filter; those of its values are in the packages of the lists.
var (
	errSearch       = errs.New(errs.Invalid, "search must be valid UTF-8 without NUL, at most 100 characters")
	errOrder        = errs.New(errs.Invalid, "order must be asc or desc")
	errAmountFilter = errs.New(errs.Invalid, "amount must be a decimal string above zero with at most two decimals")
	errRange        = errs.New(errs.Invalid, "to must not be before from")
)

// searchText is the query's search, without the spaces around it.
func searchText(c *fiber.Ctx) (string, error) {
	s := c.Query("search")
	if !storable(s) || utf8.RuneCountInString(s) > maxSearch {
		return "", errSearch
	}
	return strings.TrimSpace(s), nil
}

// sortKeys are the names of what lists can be ordered by.
var sortKeys = map[string]page.Key{"created": page.Created, "amount": page.Amount, "name": page.Name, "balance": page.Balance}

// sortedBy reads the query's sort, one of keys, and order; without them a list is newest first.
func sortedBy(c *fiber.Ctx, keys ...string) (s page.Sort, err error) {
	if by := c.Query("sort"); by != "" {
		if !slices.Contains(keys, by) {
			last := len(keys) - 1
			return s, errs.New(errs.Invalid, "sort must be "+strings.Join(keys[:last], ", ")+" or "+keys[last])
		}
		s.By = sortKeys[by]
	}
	s.Ascending, err = ascending(c)
	return s, err
}

// ascending reads the query's order.
func ascending(c *fiber.Ctx) (bool, error) {
	switch c.Query("order") {
	case "", "desc":
		return false, nil
	case "asc":
		return true, nil
	}
	return false, errOrder
}

// statementFilter reads the query's filter of a statement.
func statementFilter(c *fiber.Ctx) (ledger.Filter, error) {
	from, to, err := queryRange(c)
	if err != nil {
		return ledger.Filter{}, err
	}
	return ledger.Filter{From: from, To: to, Direction: ledger.Direction(c.Query("direction")), Status: ledger.Status(c.Query("status"))}, nil
}

// queryAmount reads the query's amount; nil when it is left out.
func queryAmount(c *fiber.Ctx) (*money.Amount, error) {
	s := c.Query("amount")
	if s == "" {
		return nil, nil
	}
	amount, err := money.Parse(s)
	if err != nil || !amount.IsPositive() {
		return nil, errAmountFilter
	}
	return &amount, nil
}

// queryRange reads the query's from and to; the zero time for one that is left out.
func queryRange(c *fiber.Ctx) (from, to time.Time, err error) {
	if from, _, err = queryTime(c, "from"); err != nil {
		return from, to, err
	}
	to, day, err := queryTime(c, "to")
	if err != nil {
		return from, to, err
	}
	if day {
		to = to.AddDate(0, 0, 1) // the day itself is included
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return from, to, errRange
	}
	return from, to, nil
}

// queryTime reads a parameter that is a day in Lagos, whose beginning it returns, or a time; the
// zero time when it is left out.
func queryTime(c *fiber.Ctx, name string) (at time.Time, day bool, err error) {
	s := c.Query(name)
	if s == "" {
		return time.Time{}, false, nil
	}
	if at, err = clock.ParseDay(s); err == nil {
		return at, true, nil
	}
	if at, err = time.Parse(time.RFC3339, s); err == nil && len(s) <= maxTime && timeForm.MatchString(s) && at.UTC().Year() > 0 && at.UTC().Year() <= 9999 {
		return at, false, nil
	}
	return time.Time{}, false, errs.New(errs.Invalid, name+" must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z")
}
