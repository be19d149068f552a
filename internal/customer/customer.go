// Package customer owns the customers: the tenant's own clients, one for each externalRef, and
// their KYC.
//
// What always holds: (tenant, externalRef) names one customer; kyc_status moves along
// [KYCTransitions], and tier 2 comes with approved and goes with it; one NIN approves one customer
// of a tenant, unless an operator has decided otherwise; BVN and NIN are kept sealed, and only
// their last four digits are ever shown. (Specification, "Customer", "Customer KYC status";
// decisions, "Onboarding, sessions, keys".)
package customer

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/identity"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// Status says whether a customer is served. Only the command line changes it.
type Status string

// The statuses. A suspended customer gets no new account and may not submit KYC; what it has stays
// open, and its money moves.
const (
	Active    Status = "active"
	Suspended Status = "suspended"
)

// Refusals; those of KYC stand beside it.
var (
	ErrNotFound     = errs.New(errs.NotFound, "customer not found")
	ErrSuspended    = errs.New(errs.Forbidden, "customer is suspended")
	ErrNameMissing  = errs.New(errs.Invalid, "name is required")
	errNameTooLong  = errs.New(errs.Invalid, "name must be at most 200 characters")
	errNameControls = errs.New(errs.Invalid, "name must not contain control characters")
)

// Customer is one client of a tenant; its JSON form is the wire's.
type Customer struct {
	ID          uuid.UUID
	TenantID    uuid.UUID
	ExternalRef string
	Name        string
	BVNLast4    *string
	NINLast4    *string
	KYCTier     int
	KYCStatus   KYCStatus
	Status      Status
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Options are what a Service needs.
type Options struct {
	Pool     *pg.Pool
	Box      *secret.Box // seals the NIN
	Clock    clock.Clock
	Identity identity.Checker // nil: every submission goes to pending_review
	Log      *slog.Logger     // says when a NIN check gave no answer
	// CheckTimeout ends a NIN check; the submission then goes to pending_review. Zero: 10 s.
	CheckTimeout time.Duration
	Production   bool // only an operator's session may decide on a submission
}

// Service has the use cases of customers.
type Service struct {
	Options
	slice int // tierSlice
}

// New returns the use cases.
func New(o Options) *Service {
	if o.CheckTimeout <= 0 {
		o.CheckTimeout = defaultCheckTimeout
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Service{o, tierSlice}
}

// columns are a customer's, in the order of fields.
const columns = `c.id, c.tenant_id, c.external_ref, c.name, c.bvn_last4, c.nin_last4, c.kyc_tier, c.kyc_status, c.status, c.created_at, c.updated_at`

func (c *Customer) fields() []any {
	return []any{
		&c.ID, &c.TenantID, &c.ExternalRef, &c.Name, &c.BVNLast4, &c.NINLast4, &c.KYCTier, &c.KYCStatus, &c.Status, &c.CreatedAt, &c.UpdatedAt,
	}
}
