package account

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Split is how confirmed payments to an account are shared out among accounts of its tenant, in the
// form that package ledger reads.
type Split struct {
	Shares []Share `json:"shares"`
}

// Share is what another account gets: a percentage of what the payment brings, an amount, or all
// that the others leave.
type Share struct {
	AccountID  uuid.UUID     `json:"accountId"`
	AccountRef string        `json:"accountRef"`
	Percent    *money.Rate   `json:"percent,omitempty"`
	Amount     *money.Amount `json:"amount,omitempty"`
	Remainder  bool          `json:"remainder,omitempty"`
}

// NewShare is a share as it is asked for.
type NewShare struct {
	AccountRef string
	Percent    string // decimal, at most four decimals
	Amount     string // decimal naira
	Remainder  bool
}

// MaxShares bounds what a confirmation posts.
const MaxShares = 20

// resolveShares checks shares, and finds their accounts; of none it makes nil. Refusals name the
// share, from 0.
func resolveShares(ctx context.Context, tx pg.Tx, of *Account, shares []NewShare) (*Split, error) {
	if len(shares) == 0 {
		return nil, nil
	}
	if len(shares) > MaxShares {
		return nil, errs.New(errs.Invalid, fmt.Sprintf("split.shares must have at most %d shares", MaxShares))
	}
	out := &Split{Shares: make([]Share, len(shares))}
	taken := map[uuid.UUID]bool{of.ID: true}
	whole, remainder := money.Zero, false
	for i, n := range shares {
		refuse := func(field, why string) error {
			return errs.New(errs.Invalid, fmt.Sprintf("split.shares[%d].%s %s", i, field, why))
		}
		s := &out.Shares[i]
		given := 0
		if n.Percent != "" {
			r, err := money.ParseRate(n.Percent)
			if err != nil || !r.Of(money.Must("1000000.00")).IsPositive() {
				return nil, refuse("percent", "must be a decimal string above 0 and up to 100, with at most four decimals")
			}
			s.Percent, whole = &r, whole.Add(r.Of(money.Must("1000000.00")))
			given++
		}
		if n.Amount != "" {
			a, err := money.Parse(n.Amount)
			if err != nil || !a.IsPositive() {
				return nil, refuse("amount", "must be a decimal string above zero")
			}
			s.Amount = &a
			given++
		}
		if n.Remainder {
			if remainder {
				return nil, refuse("remainder", "must be true of one share alone")
			}
			s.Remainder, remainder = true, true
			given++
		}
		if given != 1 {
			return nil, refuse("percent", "amount or remainder: a share needs exactly one of them")
		}
		a, err := Find(ctx, tx, of.TenantID, strings.TrimSpace(n.AccountRef))
		switch {
		case errs.KindOf(err) == errs.NotFound:
			return nil, refuse("accountRef", "is no account of yours")
		case err != nil:
			return nil, err
		case taken[a.ID]:
			return nil, refuse("accountRef", "must be another account, in one share")
		case a.Status != Active:
			return nil, refuse("accountRef", "is not active")
		}
		taken[a.ID] = true
		s.AccountID, s.AccountRef = a.ID, a.AccountRef
	}
	if whole.Cmp(money.Must("1000000.00")) > 0 {
		return nil, errs.New(errs.Invalid, "split.shares: the percentages add up to more than 100")
	}
	return out, nil
}
