// Package transfer owns settlements: payouts to bank accounts, from the request to their end.
//
// What always holds: a transfer and its provisional debit are one commit; each submission is
// counted and committed before the bank is called, always under the same merchantTxRef; an unclear
// answer is never taken for a failure: the bank is asked until the answer is clear; the end of a
// transfer and the move of its debit are one commit; money that the bank has not confirmed as
// received is not paid out. Only questions at their scheduled times count towards an end; asking
// more often changes nothing. (Specification, "Transfer (settlement)"; decisions, "Settlement".)
//
// Which struct is which row of transfers:
//
//	[Transfer]   for its tenant
//	[Record]     for operators, with the bank's charges as its record names them
//	claimed      to be worked on
//	newTransfer  to be inserted (in acceptance)
//
// Package reconcile reads what it compares with the bank's list, transferRow, by itself.
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
	// it ends unpaid; outcome.go has the reasons
	EventReject Event = "reject"
	EventRefund Event = "refund" // the bank gave it back
	EventRebook Event = "rebook" // an operator books what the bank has really paid, as a new debit
)

// Transitions is the transfer's state machine. success → refunded is an addition: a bank may return
// what it has paid, and a transfer that still said success would be wrong. So are the transitions
// back to success: only an operator makes them, for a payout that the bank made after all, or with
// another sum ([Service.Resolve]).
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
	ErrNarration     = errs.New(errs.Invalid, "narration must be at most 140 characters, without control characters")
	ErrLookup        = errs.New(errs.NotFound, "destination account not found")
	ErrBank          = errs.New(errs.Upstream, "provider error: the bank did not answer")
	ErrOtherHolder   = errs.New(errs.Upstream, "provider error: the bank named the holder of another account")
	ErrUnchecked     = errs.New(errs.Upstream, "provider error: the destination account could not be checked")
	ErrUnknownBank   = errs.New(errs.NotFound, "bank not found")
	ErrOver          = errs.New(errs.Unprocessable, "transfer has ended")
)

// MaxAttempts is the largest number of submissions (specification, "Limits").
const MaxAttempts = 5

// Transfer is a settlement as its tenant sees it; its JSON form is the status endpoint's.
type Transfer struct {
	ID            uuid.UUID    `json:"-"`
	MerchantTxRef string       `json:"merchantTxRef"`
	Status        Status       `json:"status"`
	Amount        money.Amount `json:"amount"`
	Currency      string       `json:"currency"`
	AccountRef    string       `json:"accountRef"`
	AccountID     uuid.UUID    `json:"accountId"`
	BankCode      string       `json:"bankCode"` // empty, as AccountNumber: not known (adopt.go)
	AccountNumber string       `json:"accountNumber"`
	AttemptCount  int          `json:"attemptCount"`
	CreatedAt     time.Time    `json:"createdAt"`
	UpdatedAt     time.Time    `json:"updatedAt"`
	// An addition: the fee that the bank has charged for the payout; nil until its record names it,
	// and where nothing was paid, unless the bank has kept it.
	ProviderFee *money.Amount `json:"providerFee"`
	// what it has charged in addition, likewise; nil if its record does not name it
	VAT       *money.Amount `json:"vat"`
	StampDuty *money.Amount `json:"stampDuty"`
	// Additions: why it failed or was refunded, in words without the bank's own; the destination's
	// holder and bank, as far as they have been named; and what left, if an operator found that it
	// was another sum than was ordered.
	FailureReason *string       `json:"failureReason"`
	AccountName   *string       `json:"accountName"`
	BankName      *string       `json:"bankName"`
	Narration     string        `json:"narration"`
	PaidAmount    *money.Amount `json:"paidAmount"`
	// An addition: the entry of the payment that it refunds
	RefundOf *uuid.UUID `json:"refundOf"`
	// An addition: "approval" while it lacks approvals (approve.go); nil otherwise
	Awaiting *string `json:"awaiting"`
	// An addition: the bank's record differs, and nobody has dealt with that yet
	Differs bool `json:"differs"`
	// nil: the transfer was made by its adoption, long after the order; CreatedAt is the adoption's
	OrderedAt *time.Time `json:"-"`
}

// chargesTaken is, as SQL, that the bank takes the charges that its record names: of a payout that
// was not made it has only what it kept, which the books then have (toBook).
const chargesTaken = `(t.status NOT IN ('failed', 'refunded') OR coalesce(t.booked_fee, 0) + coalesce(t.booked_taxes, 0) > 0)`

const columns = `t.id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.currency, a.account_ref, ` + shownBankCode + `, ` + shownAccountNumber + `,
	t.attempt_count, t.created_at, t.updated_at,
	CASE WHEN ` + chargesTaken + ` THEN t.provider_fee END, CASE WHEN ` + chargesTaken + ` THEN t.provider_vat END, CASE WHEN ` + chargesTaken + ` THEN t.provider_stamp_duty END,
	nullif(t.failure_reason, ''), nullif(t.account_name, ''), nullif(t.bank_name, ''), t.narration, t.paid_amount, t.refund_of,
	CASE WHEN ` + awaitsApproval + ` THEN 'approval' END, t.differs_since IS NOT NULL,
	CASE WHEN NOT (t.adopted AND t.created_at = t.submitted_at) THEN t.created_at END`

func (t *Transfer) fields() []any {
	return []any{
		&t.ID, &t.AccountID, &t.MerchantTxRef, &t.Status, &t.Amount, &t.Currency, &t.AccountRef, &t.BankCode, &t.AccountNumber,
		&t.AttemptCount, &t.CreatedAt, &t.UpdatedAt, &t.ProviderFee, &t.VAT, &t.StampDuty,
		&t.FailureReason, &t.AccountName, &t.BankName, &t.Narration, &t.PaidAmount, &t.RefundOf, &t.Awaiting, &t.Differs, &t.OrderedAt,
	}
}

// Options are what a Service needs.
type Options struct {
	Pool  *pg.Pool
	Bank  provider.Bank
	Clock clock.Clock
	Log   *slog.Logger
	// Banks are the banks that a settlement may name; nil: any bank.
	Banks *BankList
	// Delays are the gaps between the steps of a transfer that waits: for cover, for the bank, for
	// an answer. The last repeats.
	Delays []time.Duration
	// Rechecks are the gaps between the questions about a transfer that has ended: a bank may
	// return what it paid, and its event may never come. Empty, but not nil: none is asked.
	Rechecks []time.Duration
	// Lease is how long a transfer that is submitted or asked about stays leased after its worker's
	// last sign of life: it is renewed while the call runs. (The lookup before a first submission
	// goes without: two may make it.) Safety does not depend on it: a worker that is late submits
	// and records nothing. Zero: [work.Term].
	Lease time.Duration
	// Fees are the published fees of the bank, which are reserved for payouts whose fee the tenant
	// bears. Without them, nothing is reserved.
	Fees fee.Tiers
	// RecipientRate is how many payouts a minute the bank takes to one account: more wait for their
	// turn, and are not submitted before. Zero or less: any number.
	RecipientRate int
	// OpenRecall opens a recall of the payment that the bank's record says was taken back, or
	// reports that the books count what the record leaves of it. nil: the refund of such a payment
	// just waits.
	OpenRecall func(ctx context.Context, record provider.Transaction) (stands bool, err error)
	// Provisional allows payouts of credits that the bank has not confirmed.
	Provisional bool
	// Hooks asks tenants' own systems for approvals, and Box opens the secrets that sign the
	// questions. Without them, only members can approve.
	Hooks *safehttp.Client
	Box   *secret.Box
	// Test marks the questions as those of test mode.
	Test bool
}

// Larger batches than about a hundred gain nothing. Settlements are requested on many accounts at
// once, and a second writer keeps a lone one from waiting for a batch of others; a worker's steps
// form larger batches with one writer.
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
		panic("transfer: Options.Rechecks is missing")
	}
	o.Lease = cmp.Or(o.Lease, work.Term)
	s := &Service{Options: o}
	s.accepts = pg.NewBatcher(o.Pool, pg.BatchOptions[*request]{Name: "transfer/accept", Max: batchSize, Writers: acceptWriters, Writes: "transfers"}, s.acceptAll)
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
