// Package fee calculates what a payer must send so that a tenant receives a given amount, and owns
// the prices: what the platform itself takes of payments and payouts (price.go).
//
// What always holds of prices: rows are never changed, and are committed before they start, so the
// time alone says which one holds; a tenant's own goes before the list's. (docs/decisions.md, "What
// the platform takes".)
//
// The tiers of the bank's fee are data, not code. The fee is the tier's of the sum that moves, not
// of the amount that arrives, so the answer is the smallest sum S with S − fee(S) = amount. What is
// posted is always the fee in the bank's event, whatever is calculated here. (Specification,
// "Fees", "Limits"; decisions, "Money".)
package fee

import (
	"errors"
	"fmt"
	"strings"

	"ajo/internal/errs"
	"ajo/internal/money"
)

// Refusals.
var (
	ErrAmount = errs.New(errs.Invalid, "invalid amount")
	errNone   = errs.New(errs.Invalid, "no payment leaves exactly this amount after the fee")
)

// Tier is the fee of all sums up to and including Upto, and above the tier before. The last tier
// has no end.
type Tier struct {
	Upto money.Amount // zero in the last tier
	Fee  money.Amount
}

// Tiers are in ascending order.
type Tiers []Tier

// UnmarshalText reads the setting: pairs of the highest sum of a tier and its fee, in ascending
// order, the last one "*".
func (ts *Tiers) UnmarshalText(b []byte) error {
	var out Tiers
	parts := strings.Split(string(b), ",")
	for i, part := range parts {
		upto, fee, ok := strings.Cut(strings.TrimSpace(part), "=")
		f, err := money.Parse(fee)
		if !ok || err != nil {
			return fmt.Errorf("%q is not a tier, as in 4999.99=10.00", part)
		}
		t := Tier{Fee: f}
		if last := i == len(parts)-1; last != (upto == "*") {
			return errors.New("the last tier, and only the last, is *")
		}
		if upto != "*" {
			if t.Upto, err = money.Parse(upto); err != nil {
				return fmt.Errorf("%q is not a tier, as in 4999.99=10.00", part)
			}
			if i > 0 && t.Upto.Cmp(out[i-1].Upto) <= 0 {
				return errors.New("the tiers must ascend")
			}
		}
		out = append(out, t)
	}
	*ts = out
	return nil
}

// Of returns the fee of a sum.
func (ts Tiers) Of(sum money.Amount) money.Amount {
	for _, t := range ts[:len(ts)-1] {
		if sum.Cmp(t.Upto) <= 0 {
			return t.Fee
		}
	}
	return ts[len(ts)-1].Fee
}

// Quote is what must be sent for an amount to arrive.
type Quote struct {
	Receive money.Amount
	Fee     money.Amount
	Send    money.Amount
}

// For returns the smallest sum that leaves amount (client text). Not an amount, or not above zero:
// [ErrAmount].
func (ts Tiers) For(amount string) (Quote, error) {
	a, err := money.Parse(amount)
	if err != nil || !a.IsPositive() {
		return Quote{}, ErrAmount
	}
	for _, t := range ts { // ascending, so the first sum that fits its own tier is the smallest
		if sum := a.Add(t.Fee); ts.Of(sum).Equal(t.Fee) {
			return Quote{Receive: a, Fee: t.Fee, Send: sum}, nil
		}
	}
	return Quote{}, errNone
}
