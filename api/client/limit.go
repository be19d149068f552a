package client

import "context"

// Limits are what the service's operators have set for the tenant, and what is used of it today.
type Limits struct {
	Day     string       `json:"day"` // in Lagos, as 2026-01-30
	Payouts PayoutLimits `json:"payouts"`
	Tiers   []TierLimits `json:"tiers"` // those that have limits
}

// TierLimits are the limits of what comes in to an account of a customer of a tier; nil: none. What
// is above one is in the balance, and held.
type TierLimits struct {
	Tier       int     `json:"tier"`
	MaxDeposit *string `json:"maxDeposit"` // of one payment, after the bank's fee
	MaxDay     *string `json:"maxDay"`     // of the account's payments of a day
	MaxBalance *string `json:"maxBalance"` // without what limits hold
}

// PayoutLimits are the limits of settlements; nil: none.
type PayoutLimits struct {
	MaxTransfer   *string `json:"maxTransfer"`   // of one settlement
	MaxAccountDay *string `json:"maxAccountDay"` // of an account's settlements of a day
	MaxTenantDay  *string `json:"maxTenantDay"`  // of all settlements of a day
	Today         string  `json:"today"`         // the settlements that count today
	Left          *string `json:"left"`          // of MaxTenantDay
}

// Limits reads the tenant's limits.
func (c *Client) Limits(ctx context.Context) (Limits, error) {
	return get[Limits](ctx, c, "/v1/limits")
}
