// Package account owns the virtual accounts and their history.
//
// What always holds: an account's row is committed before the bank is called, so no number is ever
// orphaned; a dedicated reference has one account; status moves along [Transitions], and each move
// has one history entry. (Specification, "Account (virtual account)", "Account status"; decisions,
// "Accounts".)
package account

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
)

// Status is an account's status.
type Status string

// The statuses. Provisioning is internal: the bank has not answered yet, and no endpoint shows the
// account.
const (
	Provisioning Status = "provisioning"
	Active       Status = "active"
	Expired      Status = "expired"
)

// Type says how long an account stays open; it is fixed at provisioning.
type Type string

// The types of the specification.
const (
	Dedicated Type = "dedicated" // stays open
	OneTime   Type = "onetime"   // ends on the exact amount or at its deadline
)

// Event is what moves an account.
type Event string

// The events.
const (
	EventRequest  Event = "request"  // the row is written
	EventProvide  Event = "provide"  // the bank has given a number
	EventExpire   Event = "expire"   // the tenant asked
	EventPaid     Event = "paid"     // a one-time account received exactly its amount
	EventDeadline Event = "deadline" // a one-time account's deadline came
)

// Transitions is the account's state machine; expired is its only end.
var Transitions = fsm.New("Account",
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventRequest, To: Provisioning},
	fsm.Row[Status, Event]{From: Provisioning, Event: EventProvide, To: Active},
	fsm.Row[Status, Event]{From: Active, Event: EventExpire, To: Expired},
	fsm.Row[Status, Event]{From: Active, Event: EventPaid, To: Expired},
	fsm.Row[Status, Event]{From: Active, Event: EventDeadline, To: Expired},
)

// Refusals.
var (
	ErrNotFound    = errs.New(errs.NotFound, "account not found")
	ErrNotLinked   = errs.New(errs.NotFound, "no account linked to this customer")
	ErrExists      = errs.New(errs.Conflict, "account with this reference already exists")
	ErrNotActive   = errs.New(errs.Unprocessable, "account is not active")
	ErrProvider    = errs.New(errs.Upstream, "provider error: failed to provision virtual account")
	ErrBusy        = errs.New(errs.Conflict, "an account with this reference is being provisioned; try again")
	ErrFrozen      = errs.New(errs.Conflict, "account is frozen")
	ErrAmount      = errs.New(errs.Invalid, "invalid amount")
	ErrBusinessKYC = errs.New(errs.Forbidden, "business kyc is required")
)

// Account is a virtual account; its JSON form is the wire's.
type Account struct {
	ID                uuid.UUID
	TenantID          uuid.UUID
	CustomerID        uuid.UUID
	AccountRef        string // the tenant's externalRef; never changes
	Provider          string
	BankAccountNumber string // NUBAN, 10 digits
	BankAccountName   string
	BankName          string
	Currency          string
	Status            Status
	Type              Type
	CallbackURL       *string
	ExpectedAmount    *Number
	ExpiresAt         *time.Time
	// an addition: what becomes of payments that are not as expected; not shown where there is none
	Policy    *Policy `json:",omitempty"`
	Split     *Split  `json:",omitempty"` // an addition, as the policy: how its payments are shared out
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Number is a sum that the wire keeps as a JSON number (ExpectedAmount only).
type Number struct{ money.Amount }

// MarshalJSON writes the sum as a JSON number with two decimals.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n.Amount.String()), nil }

// HistoryEntry is one change of an account's status; its JSON form is the wire's.
type HistoryEntry struct {
	ID               uuid.UUID
	VirtualAccountID uuid.UUID
	FromStatus       *Status // null for the first entry
	ToStatus         Status
	Reason           string
	CreatedAt        time.Time
}

// parseAmount reads a sum above zero that is to be moved or held, or [ErrAmount].
func parseAmount(s string) (money.Amount, error) {
	amount, err := money.Parse(s)
	if err != nil || !amount.IsPositive() {
		return amount, ErrAmount
	}
	return amount, nil
}

// Options are what a Service needs.
type Options struct {
	Pool       *pg.Pool
	Bank       provider.Bank
	Box        *secret.Box // seals the BVN
	Clock      clock.Clock
	Callbacks  safehttp.Rules // of the accounts' own callback URLs
	Production bool           // business KYC is required
	// Provisional lets settlements take what the bank has not confirmed, as transfer.Options says.
	Provisional bool
	// EnsureSecret makes the tenant's signing secret unless it has one, in the transaction that
	// gives an account an address for events. Nil: it is made elsewhere.
	EnsureSecret func(ctx context.Context, tx pg.Tx, tenantID uuid.UUID) error
}

// Service has the use cases of accounts.
type Service struct {
	Options
	waiters *waiters
}

// New returns the use cases.
func New(o Options) *Service {
	if o.EnsureSecret == nil {
		o.EnsureSecret = func(context.Context, pg.Tx, uuid.UUID) error { return nil }
	}
	return &Service{o, &waiters{turns: map[waitedFor]*waitTurn{}}}
}

// columns are an account's, in the order of fields.
const columns = `a.id, a.tenant_id, a.customer_id, a.account_ref, a.provider, coalesce(a.bank_account_number, ''), a.bank_account_name,
	a.bank_name, a.currency, a.status, a.type, a.callback_url, a.expected_amount, a.expires_at, a.policy, a.split, a.created_at, a.updated_at`

func (a *Account) fields() []any {
	return []any{
		&a.ID, &a.TenantID, &a.CustomerID, &a.AccountRef, &a.Provider, &a.BankAccountNumber, &a.BankAccountName,
		&a.BankName, &a.Currency, &a.Status, &a.Type, &a.CallbackURL, &a.ExpectedAmount, &a.ExpiresAt, &a.Policy, &a.Split, &a.CreatedAt, &a.UpdatedAt,
	}
}
