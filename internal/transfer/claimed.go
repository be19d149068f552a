package transfer

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/fee"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/work"
	"ajo/ledger"
)

// claimed is a due transfer that this worker has claimed. Its result is recorded only while the
// claim stands. The tagged fields are those of submitSQL.
type claimed struct {
	work.Claim
	ID            uuid.UUID `pg:"id"`
	TenantID      uuid.UUID
	AccountID     uuid.UUID
	Ref           string
	Status        Status
	Amount        money.Amount
	BankCode      string
	AccountNumber string
	AccountName   string `pg:"holder"`
	ExpectedName  string // the holder that the settlement names, as foldName writes it; empty: any
	Narration     string
	SenderName    string
	Attempts      int
	// when the schedule of its status began: at acceptance or approval, at the last submission, at
	// the end
	Since        time.Time
	CreatedAt    time.Time
	Asks         int  // questions since then that were at their scheduled times
	Unknown      int  // those of them that the bank answered with "not known"
	Early        bool // this claim is before its scheduled time: somebody has expedited the transfer
	Traceparent  string
	Listened     bool // the tenant chose more events than received payments, or listens
	Acknowledged bool // an answer of the bank has shown that it has the reference
	// the sum of its debit: the amount, unless an operator has booked another
	Paid       money.Amount
	Difference string    // how the bank's record was last seen to differ from the books
	Differs    bool      // the difference waits for a person
	DebitGroup uuid.UUID // the transaction group of its debit
	// of the account, at that time; after another one it is no longer certain that the transfer is
	// covered
	Recalls int64 `pg:"recalls"`
	covered bool  // pending, and confirmed money covers all debits of its account
	// nothing may be submitted now; this is when to check again; nil: it may
	frozen     *time.Time
	known      bankCharges // from the records of earlier steps
	booked     booked
	tenantPart tenantPart
	// the platform's charges; nothing once they were given back
	platform fee.Charge
	// from the record of this step
	plan    *chargePlan
	learned learned
	// the question of this step does not count: it had no turn at the bank, or it was about a
	// transfer that has ended, and was not answered
	unanswered bool
	// a person has found the transfer paid, and the bank does not find it
	unfound bool
	// of a refund: the payer, whom the bank must name as the holder; nil: it is not a refund
	refundName *string
	payment    paymentState // of a refund
	refundOf   *uuid.UUID   // of a refund: the payment's entry
	byPolicy   bool         // the account's policy made it
	itemMade   bool         // a person has locked it, and created its item for that
	// it lacks approvals: nothing is submitted
	awaiting bool
	hook     string // while awaiting: the hook to ask for an approval; empty: none, or it has answered
	byHand   bool   // a person has ended it
}

func (st *claimed) id() uuid.UUID { return st.ID }

// ended reports whether the transfer has an outcome.
func (st *claimed) ended() bool { return st.Status != Pending && st.Status != Processing }

// item is the transfer's next step.
func (st *claimed) item(due time.Time) work.Item {
	return work.Item{Kind: work.Settle, ID: st.ID, TenantID: st.TenantID, DueAt: due, Traceparent: st.Traceparent}
}

// claimedSQL reads transfers. A pending one counts as covered if the confirmed money of its account
// covers all debits of the account ([ledger.Available]), which is read once for each account;
// otherwise [Service.cover] decides. (For the forms of the conditions see package pg, plans.go.)
var claimedSQL = `
	WITH has AS MATERIALIZED (
		SELECT b.account_id, ` + ledger.Available("$3", "$2") + ` >= 0 AS covers FROM ledger_balances b WHERE b.account_id = ANY(ARRAY(
			SELECT p.account_id FROM transfers p WHERE p.id = ANY($1) AND CASE p.status WHEN 'pending' THEN true ELSE false END)))
	SELECT t.id, t.tenant_id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.bank_code, t.account_number, t.account_name, t.expected_name, t.narration, coalesce(n.name, 'Ajo'),
		t.attempt_count, CASE t.status WHEN 'pending' THEN coalesce(t.approved_at, t.created_at) WHEN 'processing' THEN t.submitted_at ELSE t.updated_at END, t.created_at,
		t.ask_count, t.unknown_count, t.traceparent, coalesce(cardinality(n.webhook_events) > 0 OR n.webhook_endpoints > 0 OR n.event_log, false) OR coalesce(n.listening_until > $2, false),
		t.acknowledged_at IS NOT NULL, coalesce(t.paid_amount, t.amount), t.difference, t.differs_since IS NOT NULL, coalesce(t.debit_group, t.id),
		coalesce(b.recall_count, 0), t.provider_fee, t.provider_vat, t.provider_stamp_duty,
		coalesce(t.booked_fee, 0), coalesce(t.booked_taxes, 0), t.booking_count,
		t.fee_by_tenant, coalesce(t.reserved_fee, 0), coalesce(t.tenant_fee, 0), coalesce(t.tenant_taxes, 0),
		coalesce(t.platform_fee, 0), coalesce(t.platform_vat, 0), t.refund_name, ` + paymentOf + `, t.refund_of, t.by_policy,
		t.status = 'pending' AND (SELECT h.covers FROM has h WHERE h.account_id = t.account_id),
		` + frozenUntil + `, ` + awaitsApproval + `, ` + hookToAsk + `, t.ended_by = 'operator'
	FROM transfers t LEFT JOIN tenants n ON n.id = t.tenant_id LEFT JOIN ledger_balances b ON b.account_id = t.account_id
	WHERE t.id = ANY($1)`

// read reads transfers. It takes no lock.
func (s *Service) read(ctx context.Context, tx pg.Tx, now time.Time, ids ...uuid.UUID) ([]*claimed, error) {
	return pg.Collect(ctx, tx, func(r pgx.CollectableRow) (*claimed, error) {
		var c claimed
		err := r.Scan(&c.ID, &c.TenantID, &c.AccountID, &c.Ref, &c.Status, &c.Amount, &c.BankCode, &c.AccountNumber, &c.AccountName, &c.ExpectedName, &c.Narration, &c.SenderName,
			&c.Attempts, &c.Since, &c.CreatedAt, &c.Asks, &c.Unknown, &c.Traceparent, &c.Listened,
			&c.Acknowledged, &c.Paid, &c.Difference, &c.Differs, &c.DebitGroup, &c.Recalls,
			&c.known.Fee, &c.known.VAT, &c.known.StampDuty, &c.booked.fee, &c.booked.taxes, &c.booked.count,
			&c.tenantPart.byTenant, &c.tenantPart.reserved, &c.tenantPart.fee, &c.tenantPart.taxes, &c.platform.Fee, &c.platform.VAT, &c.refundName, &c.payment, &c.refundOf, &c.byPolicy, &c.covered, &c.frozen, &c.awaiting, &c.hook, &c.byHand)
		c.Early = now.Before(s.countsFrom(&c))
		return &c, err
	}, claimedSQL, ids, now, s.Provisional, now.Add(frozenRecheck))
}
