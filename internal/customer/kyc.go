package customer

import (
	"context"
	"log/slog"
	"regexp"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/fsm"
	"ajo/internal/identity"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// defaultCheckTimeout is what a NIN check may take; well below a request's deadline, so that its
// outcome can be recorded.
const defaultCheckTimeout = 10 * time.Second

// KYCStatus is the state of a customer's KYC.
type KYCStatus string

// The states of the specification.
const (
	KYCNone          KYCStatus = "none"
	KYCPendingReview KYCStatus = "pending_review"
	KYCApproved      KYCStatus = "approved"
	KYCRejected      KYCStatus = "rejected"
)

// KYCEvent is what moves a customer's KYC.
type KYCEvent string

// The events. The first three are the outcomes of a submission; of the others all but the renaming
// are a person's word.
const (
	// the NIN is that of a person of this name, and has approved no other customer
	KYCMatch   KYCEvent = "match"
	KYCDoubt   KYCEvent = "doubt"   // it is somebody else's, or the service gave no answer
	KYCNoSuch  KYCEvent = "no_such" // there is certainly no such NIN
	KYCApprove KYCEvent = "approve"
	KYCReject  KYCEvent = "reject"
	KYCRename  KYCEvent = "rename" // the name that was approved is not the customer's any more
	KYCRevoke  KYCEvent = "revoke" // an operator takes the approval back
)

// KYCTransitions is the state machine of a customer's KYC (specification, "Customer KYC status";
// decisions, "NIN checks").
var KYCTransitions = fsm.New("Customer KYC",
	fsm.Row[KYCStatus, KYCEvent]{From: KYCNone, Event: KYCMatch, To: KYCApproved},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCNone, Event: KYCDoubt, To: KYCPendingReview},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCNone, Event: KYCNoSuch, To: KYCRejected},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCRejected, Event: KYCMatch, To: KYCApproved},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCRejected, Event: KYCDoubt, To: KYCPendingReview},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCRejected, Event: KYCNoSuch, To: KYCRejected},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCPendingReview, Event: KYCApprove, To: KYCApproved},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCPendingReview, Event: KYCReject, To: KYCRejected},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCApproved, Event: KYCRename, To: KYCNone},
	fsm.Row[KYCStatus, KYCEvent]{From: KYCApproved, Event: KYCRevoke, To: KYCNone},
)

// Refusals of KYC.
var (
	errNIN        = errs.New(errs.Invalid, "nin must be exactly 11 digits")
	ErrTier       = errs.New(errs.Invalid, "customer is already at tier 2 or above")
	ErrPending    = errs.New(errs.Invalid, "kyc submission already pending review")
	ErrNotPending = errs.New(errs.Unprocessable, "customer kyc is not pending review")
	errOperator   = errs.New(errs.Forbidden, "operator session required")
)

var ninForm = regexp.MustCompile(`^[0-9]{11}$`)

// Submission is the answer of POST /v1/customers/:id/kyc; its JSON form is the wire's.
type Submission struct {
	ID        uuid.UUID
	KYCTier   int
	KYCStatus KYCStatus
	NINLast4  *string
}

// Submitter is who submits a NIN. The zero value is an API key that nobody can revoke.
type Submitter struct {
	By       *audit.By // the member; nil: an API key, whose submissions are not in the audit log
	Standing audit.Standing
}

// SubmitNIN checks a NIN with the identity service and records what came of it: approved and tier
// 2, rejected when there is no such NIN, and pending_review for everything uncertain.
//
// The service is asked with no transaction open, and nothing is written before: a crash meanwhile
// leaves the customer as it was. The outcome is recorded only if the customer may still submit, so
// of several at once each one is refused, or takes effect after the other; and only if the
// submitter's credential still stands. [errNIN], [ErrNotFound], [ErrTier], [ErrPending],
// [ErrSuspended], in this order.
func (s *Service) SubmitNIN(ctx context.Context, tenantID, id uuid.UUID, nin secret.Redacted, by Submitter) (Submission, error) {
	if !ninForm.MatchString(nin.Reveal()) {
		return Submission{}, errNIN
	}
	c, err := s.Get(ctx, tenantID, id)
	if err == nil {
		err = c.maySubmit()
	}
	if err != nil {
		return Submission{}, err
	}
	if c, err = s.recordOutcome(ctx, c, nin, s.check(ctx, c, nin), by); err != nil {
		return Submission{}, err
	}
	return Submission{ID: c.ID, KYCTier: c.KYCTier, KYCStatus: c.KYCStatus, NINLast4: c.NINLast4}, nil
}

// maySubmit refuses a submission that the customer's state does not allow.
func (c *Customer) maySubmit() error {
	switch {
	case c.KYCTier >= 2 || c.KYCStatus == KYCApproved:
		return ErrTier
	case c.KYCStatus == KYCPendingReview:
		return ErrPending
	case c.Status != Active:
		return ErrSuspended
	}
	return nil
}

// check asks the identity service, once. An unanswered call means nothing: the service only reads.
func (s *Service) check(ctx context.Context, c Customer, nin secret.Redacted) KYCEvent {
	if s.Identity == nil {
		return KYCDoubt
	}
	ctx, cancel := context.WithTimeout(ctx, s.CheckTimeout)
	defer cancel()
	failpoint.At("customer/before-check")
	result, err := s.Identity.CheckNIN(ctx, nin.Reveal(), c.Name)
	failpoint.At("customer/after-check")
	switch {
	case err != nil:
		s.Log.LogAttrs(ctx, slog.LevelWarn, "a NIN check gave no answer; the submission waits for review",
			slog.String("customer_id", c.ID.String()), slog.Any("err", err))
		return KYCDoubt
	case result == identity.Match:
		return KYCMatch
	case result == identity.NoSuch:
		return KYCNoSuch
	default:
		return KYCDoubt
	}
}

// recordOutcome writes the outcome of a submission by the customer as it was when checked, with the
// NIN.
func (s *Service) recordOutcome(ctx context.Context, checked Customer, nin secret.Redacted, outcome KYCEvent, by Submitter) (c Customer, err error) {
	err = besideOthers(func() error {
		c, err = s.recordOnce(ctx, checked, nin, outcome, by)
		return err
	})
	return c, err
}

// besideOthers runs a transaction that may approve a customer. A NIN that is approving another
// customer of the tenant at the same moment is found by the schema; the second time it is seen.
func besideOthers(do func() error) (err error) {
	for range 2 {
		if err = do(); !pg.IsUnique(err, "customers_nin_once") {
			break
		}
	}
	return err
}

func (s *Service) recordOnce(ctx context.Context, checked Customer, nin secret.Redacted, outcome KYCEvent, by Submitter) (c Customer, err error) {
	sealed := s.Box.Seal(secret.Place{Table: "customers", Column: "nin", Row: checked.ID.String()}, []byte(nin.Reveal()))
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if c, err = lock(ctx, tx, checked.TenantID, checked.ID); err != nil {
			return err
		}
		if err := by.Standing.Check(ctx, tx); err != nil { // the check, and the wait for the lock, may have taken a while
			return err
		}
		if err := c.maySubmit(); err != nil {
			return err
		}
		hash, err := s.ninHash(ctx, tx, nin)
		if err != nil {
			return err
		}
		taken, err := ninTaken(ctx, tx, c, hash)
		if err != nil {
			return err
		}
		event := outcome
		// the name that agreed may not be the customer's any more
		if event == KYCMatch && (taken || c.Name != checked.Name) {
			event = KYCDoubt
		}
		_, err = tx.Exec(ctx, `UPDATE customers SET nin = $2, nin_last4 = $3, nin_hash = $4, nin_shared = false WHERE id = $1`, c.ID, sealed, last4(nin), hash)
		if err != nil {
			return err
		}
		c, err = s.move(ctx, tx, c, event)
		if err == nil && by.By != nil {
			err = audit.Write(ctx, tx, s.Clock.Now(), by.By.Entry("kyc.submit", target(c.ID), decided{c.Name, c.NINLast4, c.KYCTier}).Of(c.TenantID))
		}
		failpoint.At("customer/before-record-commit")
		return err
	})
	if err == nil {
		failpoint.At("customer/after-record-commit")
	}
	return c, err
}

// lock reads a tenant's customer and locks its row until the transaction ends.
func lock(ctx context.Context, tx pg.Tx, tenantID, id uuid.UUID) (Customer, error) {
	var c Customer
	err := tx.QueryRow(ctx, `SELECT `+columns+` FROM customers c WHERE c.tenant_id = $1 AND c.id = $2 FOR NO KEY UPDATE`, tenantID, id).
		Scan(c.fields()...)
	return c, pg.OrNone(err, ErrNotFound)
}

// lockAny is lock for operators: any tenant's customer.
func lockAny(ctx context.Context, tx pg.Tx, id uuid.UUID) (Customer, error) {
	var c Customer
	err := tx.QueryRow(ctx, `SELECT `+columns+` FROM customers c WHERE c.id = $1 FOR NO KEY UPDATE`, id).Scan(c.fields()...)
	return c, pg.OrNone(err, ErrNotFound)
}

// move is the one function that moves a customer's KYC. [ErrNotPending] when its state does not
// allow the event. The caller has locked the row.
func (s *Service) move(ctx context.Context, tx pg.Tx, c Customer, event KYCEvent) (Customer, error) {
	to, ok := KYCTransitions.Next(c.KYCStatus, event)
	if !ok {
		return c, ErrNotPending
	}
	err := tx.QueryRow(ctx, `
		UPDATE customers c SET kyc_status = $2, kyc_tier = CASE WHEN $2 = 'approved' THEN greatest(c.kyc_tier, 2) ELSE 1 END, updated_at = $3
		WHERE c.id = $1 AND c.kyc_status = $4 RETURNING `+columns, c.ID, to, s.Clock.Now(), c.KYCStatus).Scan(c.fields()...)
	if err == nil {
		err = s.applyTier(ctx, tx, c)
	}
	return c, err
}
