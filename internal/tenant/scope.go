package tenant

import (
	"fmt"
	"slices"

	"ajo/internal/errs"
)

// Scope is what an API key may be used for. Which endpoint needs which one is said in the table of
// routes (package api).
type Scope string

// The scopes. A key with scopes of its own has none of those that are added later; the main key has
// them all.
const (
	AccountsRead       Scope = "accounts:read"     // accounts, their history, balances
	AccountsWrite      Scope = "accounts:write"    // open, change and expire accounts
	AccountsTransfer   Scope = "accounts:transfer" // move money between the tenant's own accounts
	BeneficiariesRead  Scope = "beneficiaries:read"
	BeneficiariesWrite Scope = "beneficiaries:write" // save, rename and remove
	CustomersRead      Scope = "customers:read"
	CustomersWrite     Scope = "customers:write" // rename, submit KYC
	HoldsRead          Scope = "holds:read"
	HoldsWrite         Scope = "holds:write"    // place and release
	PaymentsRead       Scope = "payments:read"  // payments, statements
	PayoutsCreate      Scope = "payouts:create" // settle, refund: money leaves
	PayoutsRead        Scope = "payouts:read"   // payouts, and the name behind an account number
	WebhooksRead       Scope = "webhooks:read"  // the event log, dead letters, endpoints
	WebhooksWrite      Scope = "webhooks:write" // endpoints, their URLs and secrets; send an event again
)

// Scopes are all there are, in the order in which they are shown. The API document, docs/guide.md
// and the dashboard (keys.js) name them too.
var Scopes = []Scope{
	AccountsRead, AccountsWrite, AccountsTransfer, BeneficiariesRead, BeneficiariesWrite, CustomersRead, CustomersWrite, HoldsRead, HoldsWrite,
	PaymentsRead, PayoutsCreate, PayoutsRead, WebhooksRead, WebhooksWrite,
}

// Refusals of a list of scopes.
var errScopes = errs.New(errs.Invalid, "scopes must name at least one scope")

// readScopes checks the scopes of a new key; one that is named twice counts once.
func readScopes(names []string) ([]Scope, error) {
	var out []Scope
	for _, s := range Scopes {
		if slices.Contains(names, string(s)) {
			out = append(out, s)
		}
	}
	for i, n := range names {
		if !slices.Contains(Scopes, Scope(n)) {
			return nil, errs.New(errs.Invalid, fmt.Sprintf("scopes[%d] is not a scope", i))
		}
	}
	if len(out) == 0 {
		return nil, errScopes
	}
	return out, nil
}
