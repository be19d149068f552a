package customer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/pg"
)

// Reviewer is the session that decides on a submission.
type Reviewer struct {
	TenantID uuid.UUID
	Operator bool // the session's tenant is an operator's
	// the customer's UpdatedAt as it was looked at; zero: not said
	Seen time.Time
	By   audit.By
}

// decided is what the audit record keeps of a decision: the customer's row changes with the next
// submission.
type decided struct {
	Name     string  `json:"name"`
	NINLast4 *string `json:"ninLast4"`
	KYCTier  int     `json:"kycTier"` // after the decision
}

// Decide moves a submission that waits for review: [KYCApprove] to approved, and the customer to
// tier 2; [KYCReject] to rejected, and the customer may submit again. Session only. [errOperator]
// in production for a session that is no operator's; [ErrNotFound] for an unknown customer and,
// unless the session is an operator's, for another tenant's; [ErrChanged] if it is not the one any
// more that was looked at; [ErrNotPending]. (Specification, POST /auth/customers/:id/kyc/approve
// and reject.)
func (s *Service) Decide(ctx context.Context, by Reviewer, id uuid.UUID, event KYCEvent) (c Customer, err error) {
	if s.Production && !by.Operator {
		return c, errOperator
	}
	decideOnce := func(tx pg.Tx) (err error) {
		if by.Operator {
			c, err = lockAny(ctx, tx, id)
		} else {
			c, err = lock(ctx, tx, by.TenantID, id)
		}
		if err != nil {
			return err
		}
		if c.KYCStatus == KYCPendingReview && !by.Seen.IsZero() && !by.Seen.Equal(c.UpdatedAt) {
			return ErrChanged // perhaps another NIN, of the same last digits
		}
		if c, err = s.conclude(ctx, tx, c, event); err != nil {
			return err
		}
		who := by.By
		if c.TenantID != by.TenantID { // an operator's session, which the tenant is not shown
			who.Actor = "operator-" + who.Actor
		}
		return audit.Write(ctx, tx, s.Clock.Now(), who.Entry("kyc."+string(event), target(c.ID), decided{c.Name, c.NINLast4, c.KYCTier}).Of(c.TenantID))
	}
	err = besideOthers(func() error { return pg.InTx(ctx, s.Pool, decideOnce) })
	return c, err
}

// conclude moves a submission on a person's word. An approval of a NIN that has approved another
// customer of the tenant is marked as such: the schema allows one without the mark.
func (s *Service) conclude(ctx context.Context, tx pg.Tx, c Customer, event KYCEvent) (Customer, error) {
	if event == KYCApprove {
		_, err := tx.Exec(ctx, `
			UPDATE customers c SET nin_shared = EXISTS (SELECT FROM customers o
				WHERE o.tenant_id = c.tenant_id AND o.nin_hash = c.nin_hash AND o.id <> c.id AND o.kyc_status = 'approved')
			WHERE c.id = $1 AND c.kyc_status = 'pending_review'`, c.ID)
		if err != nil {
			return c, err
		}
	}
	return s.move(ctx, tx, c, event)
}
