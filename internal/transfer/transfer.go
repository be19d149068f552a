// Package transfer owns settlements: payouts to bank accounts, from the request to their end.
//
// What always holds: a transfer and its provisional debit are one commit; each submission is
// counted and committed before the bank is called, always under the same merchantTxRef; an answer
// that is not clear is never taken for a failure: the bank is asked until it is; the end of a
// transfer and the move of its debit are one commit; money that the bank has not confirmed as
// received is not paid out. Only questions at their scheduled times count towards an end; asking
// more often changes nothing. (Specification, "Transfer (settlement)"; decisions,
// "Settlement".)
package transfer

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/fee"
	"ajo/internal/fsm"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/work"
)

// Status is a transfer's status, as on the wire.
type Status string

// The statuses of the specification's primary table.
const (
	Pending    Status = "pending"    // queued, not yet submitted
	Processing Status = "processing" // submitted, or about to be: the outcome is the bank's to say
	Success    Status = "success"
	Failed     Status = "failed"
	Refunded   Status = "refunded" // accepted by the bank, then given back
)

// Event is what moves a transfer.
type Event string

// The events.
const (
	EventAccept Event = "accept" // the settle request stands
	EventSubmit Event = "submit" // a submission is about to be made
	EventPaid   Event = "paid"   // the bank says success
	// a definite no, or the fifth attempt that definitely did not happen
	EventReject Event = "reject"
	EventRefund Event = "refund" // the bank gave it back
	EventRebook Event = "rebook" // an operator books by a new debit what the bank has really paid
)

// Transitions is the transfer's state machine. success → refunded is an addition: a bank may give
// back what it had paid, and a transfer that still said success would be wrong. So are the ways
// back to success: only an operator takes them, for what the bank paid after all, or with another
// sum ([Service.Resolve]).
var Transitions = fsm.New("Transfer",
	fsm.Row[Status, Event]{From: fsm.Start, Event: EventAccept, To: Pending},
	fsm.Row[Status, Event]{From: Pending, Event: EventSubmit, To: Processing},
	fsm.Row[Status, Event]{From: Pending, Event: EventReject, To: Failed},
	fsm.Row[Status, Event]{From: Processing, Event: EventSubmit, To: Processing},
	fsm.Row[Status, Event]{From: Processing, Event: EventPaid, To: Success},
	fsm.Row[Status, Event]{From: Processing, Event: EventReject, To: Failed},
	fsm.Row[Status, Event]{From: Processing, Event: EventRefund, To: Refunded},
	fsm.Row[Status, Event]{From: Success, Event: EventRefund, To: Refunded},
	fsm.Row[Status, Event]{From: Processing, Event: EventRebook, To: Success},
	fsm.Row[Status, Event]{From: Success, Event: EventRebook, To: Success},
	fsm.Row[Status, Event]{From: Failed, Event: EventRebook, To: Success},
	fsm.Row[Status, Event]{From: Refunded, Event: EventRebook, To: Success},
)

// Refusals.
var (
	ErrNotFound      = errs.New(errs.NotFound, "transfer not found")
	ErrAmount        = errs.New(errs.Invalid, "invalid amount")
	ErrBankCode      = errs.New(errs.Invalid, "bankCode must be 3 to 6 digits")
	ErrAccountNumber = errs.New(errs.Invalid, "accountNumber must be exactly 10 digits")
	ErrNameMismatch  = errs.New(errs.Invalid, "account name mismatch")
	ErrNarration     = errs.New(errs.Invalid, "narration must be at most 140 characters")
	ErrLookup        = errs.New(errs.NotFound, "destination account not found")
	ErrBank          = errs.New(errs.Upstream, "provider error: the bank did not answer")
	ErrUnknownBank   = errs.New(errs.NotFound, "bank not found")
	ErrOver          = errs.New(errs.Unprocessable, "transfer has ended")
)

// MaxAttempts is how many submissions are made at most (specification, "Limits").
const MaxAttempts = 5

// Transfer is a settlement; its JSON form is the status endpoint's, and its columns are those of a
// new row.
type Transfer struct {
	ID            uuid.UUID    `json:"-" pg:"id"`
	TenantID      uuid.UUID    `json:"-" pg:"tenant_id"`
	AccountID     uuid.UUID    `json:"-" pg:"account_id"`
	MerchantTxRef string       `json:"merchantTxRef" pg:"merchant_tx_ref"`
	Status        Status       `json:"status" pg:"status"`
	Amount        money.Amount `json:"amount" pg:"amount,numeric"`
	Currency      string       `json:"currency"`
	AccountRef    string       `json:"accountRef"`
	BankCode      string       `json:"bankCode" pg:"bank_code"`
	AccountNumber string       `json:"accountNumber" pg:"account_number"`
	AttemptCount  int          `json:"attemptCount"`
	CreatedAt     time.Time    `json:"createdAt" pg:"created_at"`
	UpdatedAt     time.Time    `json:"updatedAt" pg:"updated_at"`
	Traceparent   string       `json:"-" pg:"traceparent"`
	Counted       bool         `json:"-" pg:"counted"` // in the day's sums of the limits (package limit)
	// the tenant bears what the bank takes; ReservedFee is what that is expected to be
	FeeByTenant bool          `json:"-" pg:"fee_by_tenant"`
	ReservedFee *money.Amount `json:"-" pg:"reserved_fee,numeric"`
	// what the platform takes, by the price that held at acceptance; nil: nothing
	PlatformFee *money.Amount `json:"-" pg:"platform_fee,numeric"`
	PlatformVAT *money.Amount `json:"-" pg:"platform_vat,numeric"`

	// An addition: the fee that the bank takes for the payout, outside the balance; nil while its
	// record has not said.
	ProviderFee *money.Amount `json:"providerFee"`
	// what it takes beside that fee; nil where its record does not name it
	VAT       *money.Amount `json:"vat"`
	StampDuty *money.Amount `json:"stampDuty"`
	// Additions: why it failed or was refunded, in words without the bank's own; the destination's
	// holder and bank, as far as they have been named; and what left, where an operator found that
	// it was another sum than was ordered.
	FailureReason *string       `json:"failureReason"`
	AccountName   *string       `json:"accountName"`
	BankName      *string       `json:"bankName" pg:"bank_name"`
	Narration     string        `json:"narration" pg:"narration"`
	PaidAmount    *money.Amount `json:"paidAmount"`
	// An addition: the entry of the payment that it pays back to its sender, and that sender's name
	RefundOf   *uuid.UUID `json:"refundOf" pg:"refund_of"`
	RefundName *string    `json:"-" pg:"refund_name"`
	ByPolicy   bool       `json:"-" pg:"by_policy"`
	// An addition: "approval" while it needs approvals that it has not got (approve.go); nil
	// otherwise
	Awaiting        *string    `json:"awaiting"`
	ApprovalsNeeded int        `json:"-" pg:"approvals_needed"`
	MadeBy          *uuid.UUID `json:"-" pg:"made_by"` // the member who asked for it; nil: an API key
	ApprovalHook    *string    `json:"-" pg:"approval_hook"`
	Differs         bool       `json:"-"` // the bank's record says otherwise, and nobody has dealt with that yet
}

const columns = `t.id, t.tenant_id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.currency, a.account_ref, t.bank_code, t.account_number,
	t.attempt_count, t.created_at, t.updated_at, t.provider_fee, t.provider_vat, t.provider_stamp_duty,
	nullif(t.failure_reason, ''), nullif(t.account_name, ''), nullif(t.bank_name, ''), t.narration, t.paid_amount, t.refund_of,
	CASE WHEN ` + awaitsApproval + ` THEN 'approval' END, t.differs_since IS NOT NULL`

func (t *Transfer) fields() []any {
	return []any{
		&t.ID, &t.TenantID, &t.AccountID, &t.MerchantTxRef, &t.Status, &t.Amount, &t.Currency, &t.AccountRef, &t.BankCode, &t.AccountNumber,
		&t.AttemptCount, &t.CreatedAt, &t.UpdatedAt, &t.ProviderFee, &t.VAT, &t.StampDuty,
		&t.FailureReason, &t.AccountName, &t.BankName, &t.Narration, &t.PaidAmount, &t.RefundOf, &t.Awaiting, &t.Differs,
	}
}

// Options are what a Service needs.
type Options struct {
	Pool  *pg.Pool
	Bank  provider.Bank
	Clock clock.Clock
	Log   *slog.Logger
	// Banks are the banks that a settlement may name; nil: any.
	Banks *BankList
	// Delays are the gaps between the steps of a transfer that waits: for cover, for the bank, for
	// an answer. The last repeats.
	Delays []time.Duration
	// Rechecks are the gaps between the questions about a transfer that has ended: a bank may give
	// back what it paid, and its event may never come. Nil: [DefaultRechecks].
	Rechecks []time.Duration
	// Lease is how long a transfer that is submitted or asked about stays leased after its worker's
	// last sign of life: it is renewed while the call runs. (The lookup before a first submission
	// goes without: two may make it.) It is no safety limit: whoever is late submits and records
	// nothing. Zero: [work.Term].
	Lease time.Duration
	// Fees are the published fees of the bank: what is reserved for a payout whose fee the tenant
	// bears. Without them nothing is.
	Fees fee.Tiers
	// OpenRecall has the bank asked whether it took back the payment of a transaction, which its
	// record says. nil: the refund of such a payment just waits.
	OpenRecall func(ctx context.Context, providerTxnRef string) error
	// Provisional lets credits leave that the bank has not confirmed.
	Provisional bool
	// Hooks asks tenants' own systems for approvals, and Box opens the secrets that such questions
	// are signed with. Without them nobody but members is asked.
	Hooks *safehttp.Client
	Box   *secret.Box
}

// DefaultDelays ask soon, then ever less often, but never stop. The third question comes 17 seconds
// after a submission, the seventh after more than eight minutes: a fresh transfer may not be found
// at once, and the interbank leg takes minutes.
var DefaultDelays = []time.Duration{
	2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 45 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

// DefaultRechecks ask three times about a transfer that has ended.
var DefaultRechecks = []time.Duration{15 * time.Minute, 2 * time.Hour, 24 * time.Hour}

// Batches stop gaining at about a hundred. Settlements are asked for on many accounts at once, and
// a second writer keeps a lone one from waiting for a batch of others; a worker's steps make larger
// batches with one.
const (
	acceptWriters = 2
	batchSize     = 100
)

// Service has the use cases of settlements. Close it when its callers have stopped.
type Service struct {
	Options
	accepts   *pg.Batcher[*request, batch.Outcome[Settled]]
	claims    *pg.Batcher[uuid.UUID, claimResult]
	submits   *pg.Batcher[*claimed, submitted]
	postpones *pg.Batcher[postponement, bool]
	ends      *pg.Batcher[ending, bool]
	holders   holders
}

// New starts the use cases.
func New(o Options) *Service {
	if o.Rechecks == nil {
		o.Rechecks = DefaultRechecks
	}
	o.Lease = cmp.Or(o.Lease, work.Term)
	s := &Service{Options: o}
	s.accepts = pg.NewBatcher(o.Pool, pg.BatchOptions[*request]{Name: "transfer/accept", Max: batchSize, Writers: acceptWriters}, s.acceptAll)
	s.claims = pg.NewBatcher(o.Pool, pg.BatchOptions[uuid.UUID]{Name: "transfer/claim", Max: batchSize, Order: pg.CompareIDs}, s.claimAll)
	s.submits = pg.NewBatcher(o.Pool, pg.BatchOptions[*claimed]{Name: "transfer/submit", Max: batchSize, Order: pg.ByID((*claimed).id)}, s.submitAll)
	s.postpones = pg.NewBatcher(o.Pool, pg.BatchOptions[postponement]{Name: "transfer/postpone", Max: batchSize, Order: pg.ByID(postponement.id)}, s.postponeAll)
	s.ends = pg.NewBatcher(o.Pool, pg.BatchOptions[ending]{Name: "transfer/end", Max: batchSize, Order: pg.ByID(ending.id)}, s.endAll)
	return s
}

// Close finishes what was begun and stops the writers.
func (s *Service) Close() {
	s.accepts.Close()
	s.claims.Close()
	s.submits.Close()
	s.postpones.Close()
	s.ends.Close()
}
