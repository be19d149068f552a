package tenant

import (
	"slices"

	"ajo/internal/errs"
)

// Role is what a member may do. Which endpoint needs which one is said in the table of routes
// (package api).
type Role string

// The roles. Finance and Developer may do all that Viewer may, and the owner everything.
const (
	Owner     Role = "owner"     // members, business KYC, keys that move money
	Finance   Role = "finance"   // decisions about customers and money
	Developer Role = "developer" // API keys, webhooks
	Viewer    Role = "viewer"    // reads, and changes nothing but what is the member's own
)

// Roles are all there are. The API document and the schema name them too.
var Roles = []Role{Owner, Finance, Developer, Viewer}

// Allows refuses a member without the role, with a text that names it.
func (m Member) Allows(need Role) error {
	if m.Role == Owner || m.Role == need || need == Viewer {
		return nil
	}
	return errs.New(errs.Forbidden, "this needs the role "+string(need)+"; yours is "+string(m.Role))
}

// ErrRole refuses a role that an owner cannot give.
var ErrRole = errs.New(errs.Invalid, "role must be one of finance, developer, viewer")

// readRole checks a role that an owner gives. The ownership is handed over instead.
func readRole(name string) (Role, error) {
	r := Role(name)
	if r == Owner || !slices.Contains(Roles, r) {
		return "", ErrRole
	}
	return r, nil
}

// movesMoney are the scopes of keys that only the owner makes. To release a hold is one of them: it
// lets money go that a member has held, and ends a refund that an account's policy has ordered.
var movesMoney = []Scope{AccountsTransfer, HoldsWrite, PayoutsCreate}

// MovesMoney reports whether the key moves money, so that only the owner makes it.
func (n NewKey) MovesMoney() bool {
	return slices.ContainsFunc(movesMoney, func(s Scope) bool { return slices.Contains(n.Scopes, string(s)) })
}

// MovesMoney reports whether the key moves money, so that only the owner rotates it.
func (k KeyRecord) MovesMoney() bool {
	return slices.ContainsFunc(movesMoney, func(s Scope) bool { return slices.Contains(k.Scopes, s) })
}

// mayMake refuses a key that moves money to all but the owner. A developer who could make one would
// have the right to pay out.
func (m Member) mayMake(k KeyRecord) error {
	for _, s := range movesMoney {
		if slices.Contains(k.Scopes, s) && m.Role != Owner {
			return errs.New(errs.Forbidden, "a key with the scope "+string(s)+" needs the role "+string(Owner)+"; yours is "+string(m.Role))
		}
	}
	return nil
}
