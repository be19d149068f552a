package account

import (
	"cmp"
	"slices"

	"ajo/internal/errs"
	"ajo/internal/money"
)

// Action is what becomes of a payment.
type Action string

// The actions.
const (
	Accept Action = "accept"
	Hold   Action = "hold"   // posted and held, until the tenant releases it
	Refund Action = "refund" // posted and held, and paid back once it is confirmed
)

// Policy is what becomes of payments to an account; an empty action is as without a policy: they
// are accepted, and late ones are misdirected.
type Policy struct {
	Exact Action `json:"exact,omitempty"` // of exactly the expected amount
	Under Action `json:"under,omitempty"`
	Over  Action `json:"over,omitempty"`
	Late  Action `json:"late,omitempty"` // made after the account's end
}

// check refuses what is no action.
func (p *Policy) check() error {
	if p == nil {
		return nil
	}
	for _, row := range []struct {
		name   string
		action Action
	}{{"exact", p.Exact}, {"under", p.Under}, {"over", p.Over}, {"late", p.Late}} {
		switch row.action {
		case "", Accept, Hold, Refund:
		default:
			return errs.New(errs.Invalid, "policy."+row.name+" must be accept, hold or refund")
		}
	}
	return nil
}

// Refunds reports whether any payment would be refunded.
func (p *Policy) Refunds() bool {
	return p != nil && slices.Contains([]Action{p.Exact, p.Under, p.Over, p.Late}, Refund)
}

// orNone is the policy, or nil if it says nothing.
func (p *Policy) orNone() *Policy {
	if p == nil || *p == (Policy{}) {
		return nil
	}
	return p
}

// Decide is what the account's policy says of a payment of a gross amount, and why; late: it was
// made after the account's end.
func (t *Target) Decide(amount money.Amount, late bool) (action Action, why string) {
	p := t.Policy
	if p == nil {
		return Accept, ""
	}
	switch {
	case late:
		action, why = p.Late, "late: made after the account's end"
	case t.ExpectedAmount == nil:
		return Accept, ""
	default:
		expected := "NGN " + amount.String() + " of NGN " + t.ExpectedAmount.String() + " expected"
		switch amount.Cmp(*t.ExpectedAmount) {
		case -1:
			action, why = p.Under, "under: "+expected
		case 1:
			action, why = p.Over, "over: "+expected
		default:
			action, why = p.Exact, "exact: "+expected
		}
	}
	return cmp.Or(action, Accept), why
}
