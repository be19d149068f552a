package tenant

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/fsm"
	"ajo/internal/pg"
)

// KYCStatus is the state of a tenant's business KYC.
type KYCStatus string

// The states of the specification. Nothing leads to KYCPendingReview: a valid submission is
// verified at once, and transitions into it are "not shown" (docs/decisions.md, "Customers and
// KYC").
const (
	KYCUnverified    KYCStatus = "unverified"
	KYCPendingReview KYCStatus = "pending_review"
	KYCVerified      KYCStatus = "verified"
)

// KYCEvent is a cause for a change of a tenant's business KYC.
type KYCEvent string

// KYCSubmit is POST /auth/business-kyc with a valid body.
const KYCSubmit KYCEvent = "submit"

// KYCTransitions is the state machine of business KYC (specification, "Tenant business KYC
// status").
var KYCTransitions = fsm.New("Tenant business KYC",
	fsm.Row[KYCStatus, KYCEvent]{From: KYCUnverified, Event: KYCSubmit, To: KYCVerified},
)

// businessTypes are the kinds of business in the specification.
var businessTypes = []string{"sole_proprietor", "registered_business", "ngo", "other"}

const maxCAC = 64 // characters

// Refusals of a business KYC.
var (
	errBusinessTypeMissing = errs.New(errs.Invalid, "businessType is required")
	errBusinessType        = errs.New(errs.Invalid, "businessType must be one of "+strings.Join(businessTypes, ", "))
	errCACNumber           = errs.New(errs.Invalid, "cacNumber must be at most 64 characters, without control characters")
	errKYCVerified         = errs.New(errs.Unprocessable, "business kyc is already verified")
	errKYCPending          = errs.New(errs.Unprocessable, "business kyc is pending review")
)

// BusinessKYC is the answer of POST /auth/business-kyc.
type BusinessKYC struct {
	KYCStatus    KYCStatus `json:"kycStatus"`
	BusinessType string    `json:"businessType"`
}

// BusinessKYC records the kind of the tenant's business and sets its KYC to verified. cacNumber may
// be empty. Session only. [errBusinessType], [errCACNumber]; [errKYCVerified] the second time.
func (s *Service) BusinessKYC(ctx context.Context, id uuid.UUID, businessType, cacNumber string, by audit.By) (BusinessKYC, error) {
	cacNumber = strings.TrimSpace(cacNumber)
	switch {
	case businessType == "":
		return BusinessKYC{}, errBusinessTypeMissing
	case !slices.Contains(businessTypes, businessType):
		return BusinessKYC{}, errBusinessType
	case !errs.Plain(cacNumber, maxCAC):
		return BusinessKYC{}, errCACNumber
	}
	out := BusinessKYC{BusinessType: businessType}
	err := s.locking(ctx, id, func(tx pg.Tx, now time.Time, t locked) error {
		from := t.KYCStatus
		to, ok := KYCTransitions.Next(from, KYCSubmit)
		if !ok {
			return refuseKYC(from)
		}
		out.KYCStatus = to
		_, err := tx.Exec(ctx, `
			UPDATE tenants SET kyc_status = $2, business_type = $3, cac_number = nullif($4, ''), updated_at = $5
			WHERE id = $1 AND kyc_status = ANY($6)`, id, to, businessType, cacNumber, now, KYCTransitions.From(KYCSubmit))
		if err != nil {
			return err
		}
		change := audit.Change{Before: kycShown{KYCStatus: from}, After: kycShown{to, businessType, cacNumber}}
		return audit.Write(ctx, tx, now, by.Entry("tenant.kyc", target(id), change).Of(id))
	})
	return out, err
}

// kycShown is what the audit log keeps of a business KYC.
type kycShown struct {
	KYCStatus    KYCStatus `json:"kycStatus"`
	BusinessType string    `json:"businessType,omitempty"`
	CACNumber    string    `json:"cacNumber,omitempty"`
}

func refuseKYC(from KYCStatus) error {
	if from == KYCPendingReview {
		return errKYCPending
	}
	return errKYCVerified
}
