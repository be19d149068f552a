package transfer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/work"
	"ajo/ledger"
)

// Record is a transfer as operators see it.
type Record struct {
	ID            uuid.UUID // also the TransactionGroupID of its entries
	TenantID      uuid.UUID
	TenantName    string
	AccountID     uuid.UUID
	AccountRef    string
	MerchantTxRef string
	Status        Status
	Amount        money.Amount
	Currency      string
	BankCode      string
	AccountNumber string // of the destination; empty, as BankCode: not known
	AccountName   string // its holder, as the bank named it; empty before the first submission
	Narration     string
	AttemptCount  int // submissions
	SubmittedAt   *time.Time
	AskCount      int // questions since the last submission
	UnknownCount  int // those of them that the bank answered with "not known"
	LastError     string
	NextAttemptAt *time.Time
	LeasedUntil   *time.Time
	CreatedAt     time.Time
	UpdatedAt     time.Time
	ProviderFee   *money.Amount // by the bank's record; nil while it has not said
	VAT           *money.Amount // in addition to it, as is StampDuty; nil if the record does not name it
	StampDuty     *money.Amount
	FeeByTenant   bool          // the tenant bears these
	ReservedFee   *money.Amount // the expected fee, until a record names it; nil: none
	// what its account was debited for them; less than what was booked if it had no more
	TenantFee, TenantTaxes *money.Amount

	// when an answer of the bank first showed that it has the reference
	AcknowledgedAt *time.Time
	EndedBy        string        // what the end rests on: bank, silence, books or operator
	FailureReason  string        // as shown to its tenant
	Difference     string        // how the bank's record differs from the books
	DiffersSince   *time.Time    // nil although there is a difference: a person has dealt with it
	PaidAmount     *money.Amount // what left, if that is another sum than was ordered
	RefundOf       *uuid.UUID    // the entry of the payment that it refunds

	ApprovalsNeeded int        // of its tenant's members
	ApprovedAt      *time.Time // when it had all approvals; nil: it has not, or needs none
}

const selectRecord = `
	SELECT t.id, t.tenant_id, coalesce(n.name, ''), t.account_id, coalesce(a.account_ref, 'suspense'), t.merchant_tx_ref, t.status, t.amount, t.currency, ` + shownBankCode + `, ` + shownAccountNumber + `,
		t.account_name, t.narration, t.attempt_count, t.submitted_at, t.ask_count, t.unknown_count,
		coalesce(nullif(w.last_error, ''), t.last_error), w.due_at, w.leased_until,
		t.created_at, t.updated_at, t.provider_fee, t.provider_vat, t.provider_stamp_duty,
		t.fee_by_tenant, t.reserved_fee, t.tenant_fee, t.tenant_taxes,
		t.acknowledged_at, t.ended_by, t.failure_reason, t.difference, t.differs_since, t.paid_amount, t.refund_of, t.approvals_needed, t.approved_at
	FROM `

const (
	joinRecord = ` LEFT JOIN accounts a ON a.id = t.account_id LEFT JOIN tenants n ON n.id = t.tenant_id
		LEFT JOIN work w ON w.kind = 'settle' AND w.id = t.id`
	recordQuery = selectRecord + `transfers t` + joinRecord
	recordsSQL  = `
		WHERE t.id < @before AND t.id >= @floor AND (@tenant::uuid IS NULL OR t.tenant_id = @tenant) AND (@status = '' OR t.status = @status)
			AND (@status NOT IN ('failed', 'refunded') OR t.unpaid) AND (NOT @differing OR t.differs_since IS NOT NULL)
		ORDER BY t.id DESC LIMIT @limit`
)

// RecordFilter narrows a list of all tenants' transfers; empty fields do not.
type RecordFilter struct {
	TenantID  uuid.UUID
	Status    Status
	Differing bool // only those with a difference that nobody has dealt with
}

// Records returns a page of all tenants' transfers, newest first. For operators. [ErrStatus], or
// [page.ErrCursor].
func (s *Service) Records(ctx context.Context, f RecordFilter, r page.Request) ([]Record, page.Info, error) {
	if !Transitions.Knows(f.Status) {
		return nil, page.Info{}, ErrStatus
	}
	list := pg.List[Record]{Name: page.TransferRecords, ID: func(t Record) uuid.UUID { return t.ID }, Row: pgx.RowToStructByPos[Record]}
	args := pgx.NamedArgs{"tenant": uuid.NullUUID{UUID: f.TenantID, Valid: f.TenantID != uuid.Nil}, "status": string(f.Status), "differing": f.Differing}
	scan := `transfers WHERE true`
	if f.Status == Pending || f.Status == Processing {
		return list.Filtered(ctx, s.Pool, r, workScan, selectRecord+openSQL+joinRecord+recordsSQL, args)
	}
	switch {
	case f.Differing:
		scan = `transfers WHERE differs_since IS NOT NULL`
	case f.TenantID != uuid.Nil:
		scan = `transfers WHERE tenant_id = @tenant`
		if f.Status == Failed || f.Status == Refunded {
			scan += ` AND unpaid`
		}
	}
	return list.Filtered(ctx, s.Pool, r, scan, recordQuery+recordsSQL, args)
}

// Detail is a transfer with its entries and what is to come.
type Detail struct {
	Record
	NextStep string
	Entries  []ledger.Entry // the debits, and their reversals where they have one
}

// Show returns a transfer of any tenant, for operators, or [ErrNotFound].
func (s *Service) Show(ctx context.Context, merchantTxRef string) (Detail, error) {
	t, err := readRecord(ctx, s.Pool, merchantTxRef)
	if err != nil {
		return Detail{}, err
	}
	d := Detail{Record: t, NextStep: t.nextStep(s.Clock.Now())}
	d.Entries, err = pg.Collect(ctx, s.Pool, pgx.RowToStructByNameLax[ledger.Entry], `
		SELECT id, direction, amount, fee, currency, status, narration, provider_txn_ref, transaction_group_id, transfer_ref, reversal_of, created_at, kind
		FROM ledger_entries WHERE transfer_ref = $1 AND account_id = $2 ORDER BY seq`, t.MerchantTxRef, t.AccountID)
	return d, err
}

func readRecord(ctx context.Context, q pg.Querier, merchantTxRef string) (Record, error) {
	return pg.One(ctx, q, pgx.RowToStructByPos[Record], ErrNotFound, recordQuery+` WHERE t.merchant_tx_ref = $1`, merchantTxRef)
}

// Over reports whether there is nothing left to ask the bank, because it was never asked to pay.
func (t *Record) Over() bool { return t.Status == Failed && t.AttemptCount == 0 }

func (t *Record) awaiting() bool {
	return t.Status == Pending && t.ApprovalsNeeded > 0 && t.ApprovedAt == nil
}

// nextStep says in words what will be done about the transfer, and when.
func (t *Record) nextStep(now time.Time) string {
	what := map[Status]string{
		Pending:    "wait for confirmed cover, name the holder, and submit",
		Processing: "ask the bank by reference",
		Success:    "ask the bank once more, in case it gave the money back",
		Failed:     "ask the bank once more, in case it paid after all",
		Refunded:   "ask the bank once more, in case it paid after all",
	}[t.Status]
	if t.awaiting() {
		what = "wait for the approval of its tenant's members, and fail without"
	}
	switch {
	case t.LeasedUntil != nil && t.LeasedUntil.After(now):
		return what + ": leased by a worker until " + stamp(*t.LeasedUntil) + ", longer while it works"
	case t.NextAttemptAt == nil:
		return "none: it has ended"
	case !t.NextAttemptAt.After(now):
		return what + ": due"
	}
	return what + ": due at " + stamp(*t.NextAttemptAt)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Poll makes the transfer's next step due now. It decides nothing: the step asks the bank, and
// since it comes before its scheduled time, it does not count towards an end. For operators.
// [ErrNotFound]; [ErrOver] when nothing is left to ask ([Record.Over]).
func (s *Service) Poll(ctx context.Context, merchantTxRef string, by audit.By) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		_, made, err := lock(ctx, tx, now, merchantTxRef)
		if err != nil {
			return err
		}
		t, err := readRecord(ctx, tx, merchantTxRef)
		switch {
		case err != nil:
			return err
		case t.Over():
			return ErrOver
		case made:
			t.NextAttemptAt = nil
		}
		if err := makeDue(ctx, tx, now, work.Item{Kind: work.Settle, ID: t.ID, TenantID: t.TenantID, DueAt: now}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("transfers.poll", "transfer:"+merchantTxRef, struct {
			Status        Status
			AttemptCount  int
			NextAttemptAt *time.Time // as it stood
			LastError     string
		}{t.Status, t.AttemptCount, t.NextAttemptAt, t.LastError}))
	})
}
