package payment

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/ledger"
)

// ErrNotFound is the answer for a payment that the tenant does not have.
var ErrNotFound = errs.New(errs.NotFound, "payment not found")

// List returns a page of the tenant's payments, newest first unless asked otherwise; of one account
// where ref names it. A bad cursor is [page.ErrCursor], an unknown account account.ErrNotFound;
// ledger.ErrStatus, [page.ErrSort].
func (s *Service) List(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.PaymentFilter, r page.Request) ([]ledger.Payment, page.Info, error) {
	q := pg.Reader(ctx, s.Pool)
	if err := named(ctx, q, tenantID, ref, &f); err != nil {
		return nil, page.Info{}, err
	}
	return ledger.Payments(ctx, q, tenantID, f, r)
}

// ListSummed is List, and the sums of what it lists on all its pages, as of one moment: therefore
// no replica reads it.
func (s *Service) ListSummed(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.PaymentFilter, r page.Request) (list []ledger.Payment, info page.Info, sums ledger.PaymentSums, err error) {
	err = pg.Snapshot(ctx, s.Pool, func(tx pg.Tx) error {
		if err := named(ctx, tx, tenantID, ref, &f); err != nil {
			return err
		}
		if list, info, err = ledger.Payments(ctx, tx, tenantID, f, r); err != nil {
			return err
		}
		sums, err = ledger.SumPayments(ctx, tx, tenantID, f)
		return err
	})
	return list, info, sums, err
}

// Each reads all payments that List lists, in its order; if there are more than limit, it returns a
// refusal that says so. Of a period that is over they are all there: [ledger.AwaitEnd].
func (s *Service) Each(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.PaymentFilter, limit int, each func(ledger.Payment) error) error {
	if err := ledger.AwaitEnd(ctx, s.Pool, f.To); err != nil {
		return err
	}
	q := pg.Reader(ctx, s.Pool)
	if err := named(ctx, q, tenantID, ref, &f); err != nil {
		return err
	}
	return ledger.EachPayment(ctx, q, tenantID, f, limit, each)
}

func named(ctx context.Context, q pg.Querier, tenantID uuid.UUID, ref string, f *ledger.PaymentFilter) error {
	if ref == "" {
		return nil
	}
	a, err := account.Find(ctx, q, tenantID, ref)
	f.AccountID = a.ID
	return err
}

// Step is what happened to a payment at one time.
type Step struct {
	At   time.Time `json:"at"`
	Step StepName  `json:"step"`
	// the id to quote: the bank's transaction id, the entry, the delivery, the transfer's
	// reference; empty: there is none
	Reference string        `json:"reference"`
	Outcome   string        `json:"outcome"` // how it ended, or its status; empty: it is done
	Amount    *money.Amount `json:"amount"`  // of a refund
}

// StepName says what a [Step] is.
type StepName string

// The steps.
const (
	StepPaid         StepName = "paid"          // by the bank's clock
	StepReceived     StepName = "received"      // its event was stored
	StepPosted       StepName = "posted"        // it is in the ledger
	StepPublished    StepName = "published"     // an event for the tenant; the outcome is its type and, if it is sent, its status
	StepAttempted    StepName = "attempted"     // a delivery of it was tried; the outcome is the answer
	StepConfirmed    StepName = "confirmed"     // found in the bank's own records, or by a person
	StepRecalled     StepName = "recalled"      // the bank may have taken it back; while it is asked, the outcome is open or watched
	StepRecallClosed StepName = "recall_closed" // the outcome is reversed or kept
	StepReversed     StepName = "reversed"      // it left the balance for good
	StepRefunded     StepName = "refunded"      // a refund was ordered; the outcome is the transfer's status
)

// StepNames are all steps, in the order in which they come.
var StepNames = []StepName{StepPaid, StepReceived, StepPosted, StepPublished, StepAttempted, StepConfirmed, StepRecalled, StepRecallClosed, StepReversed, StepRefunded}

// Timeline is a payment and all that happened to it, in the order of time.
type Timeline struct {
	ledger.Payment
	RequestID string `json:"requestId"` // the bank's id of its event; empty where none came, or it is archived
	Timeline  []Step `json:"timeline"`
	// what a limit or the account's policy holds of it; nil: nothing
	Held *ledger.Hold `json:"held"`
	// older deliveries may be in the archive: the timeline lacks their steps; nil: it has all
	ArchivedBefore *time.Time `json:"archivedBefore"`
	// what was refunded of it, and what is being refunded, including refunds that the timeline has
	// no room for
	Refunded      money.Amount `json:"refunded"`
	BeingRefunded money.Amount `json:"beingRefunded"`
	// what the account's split has passed on of it, as in [ledger.PassedOn]
	PassedOn money.Amount `json:"passedOn"`
}

// Recalled reports whether the bank is asked whether it took the payment back.
func (t *Timeline) Recalled() bool {
	return slices.ContainsFunc(t.Timeline, func(s Step) bool { return s.Step == StepRecalled && s.Outcome != "" })
}

// maxSteps bounds each kind of step of which a timeline may have many.
const maxSteps = 100

// stepsSQL reads the steps of the payment of a group ($1), a tenant ($2) and an entry ($3), each
// kind by an index and at most $4 of it. A delivery has the time of what it reports, which for a
// received payment is before the posting ($5) that created it.
var stepsSQL = `
	(SELECT occurred_at, 'paid', session_id, '', NULL::numeric FROM inbound_events WHERE id = $1 AND occurred_at IS NOT NULL)
	UNION ALL (SELECT received_at, 'received', provider_txn_ref, source, NULL FROM inbound_events WHERE id = $1)
	UNION ALL (SELECT greatest(created_at, $5), 'published', id::text, event_type || CASE callback_url WHEN '' THEN '' ELSE ' ' || status END, NULL FROM deliveries WHERE transaction_group_id = $1 AND tenant_id = $2)
	UNION ALL (SELECT delivered_at - duration_ms * interval '1 millisecond', 'attempted', id::text, 'HTTP ' || status_code, NULL
		FROM deliveries WHERE transaction_group_id = $1 AND tenant_id = $2 AND duration_ms IS NOT NULL)
	UNION ALL (SELECT a.started_at, 'attempted', d.id::text, a.error, NULL
		FROM (SELECT id FROM deliveries WHERE transaction_group_id = $1 AND tenant_id = $2) d
		CROSS JOIN LATERAL (SELECT * FROM delivery_attempts WHERE delivery_id = d.id ORDER BY attempt DESC LIMIT $4) a)
	UNION ALL (SELECT opened_at, 'recalled', '', CASE WHEN status` + ledger.RecallStands + ` THEN status ELSE '' END, NULL FROM recalls WHERE event_id = $1 AND tenant_id = $2)
	UNION ALL (SELECT unnest(opened_before) AS at, 'recalled', '', '', NULL FROM recalls WHERE event_id = $1 AND tenant_id = $2 ORDER BY at DESC LIMIT $4)
	UNION ALL (SELECT unnest(kept_before) AS at, 'recall_closed', '', 'kept', NULL FROM recalls WHERE event_id = $1 AND tenant_id = $2 ORDER BY at DESC LIMIT $4)
	UNION ALL (SELECT closed_at, 'recall_closed', '', status, NULL FROM recalls WHERE event_id = $1 AND tenant_id = $2 AND NOT status` + ledger.RecallStands + `)
	UNION ALL (SELECT created_at, 'reversed', id::text, '', NULL FROM ledger_entries WHERE reversal_of = $3)
	UNION ALL (SELECT created_at, 'refunded', merchant_tx_ref, status, coalesce(paid_amount, amount) ` + refundsOf("$3", "$2") + ` ORDER BY id DESC LIMIT $4)`

// refundsOf is, as SQL, the refunds of an entry's payment, with those of its other credits.
func refundsOf(entry, tenant string) string {
	return `FROM transfers WHERE refund_of = ANY((SELECT payment_entries(e) FROM ledger_entries e WHERE e.id = ` + entry + `)::uuid[]) AND tenant_id = ` + tenant
}

var refundedSQL = `
	SELECT coalesce(sum(coalesce(paid_amount, amount)) FILTER (WHERE status = 'success'), 0), coalesce(sum(coalesce(paid_amount, amount)) FILTER (WHERE status IN ('pending', 'processing')), 0)
	` + refundsOf("$1", "$2")

// Timeline returns a payment of the tenant, named by its entry's id or by its transactionGroupId,
// with what happened to it. [ErrNotFound].
func (s *Service) Timeline(ctx context.Context, tenantID, id uuid.UUID) (Timeline, error) {
	var t Timeline
	err := pg.Snapshot(ctx, s.Pool, func(tx pg.Tx) (err error) { // everything as of one moment
		if t.Payment, err = ledger.FindPayment(ctx, tx, tenantID, id, ErrNotFound); err != nil {
			return err
		}
		t.Timeline, err = pg.Collect(ctx, tx, func(row pgx.CollectableRow) (Step, error) {
			step, err := pgx.RowToStructByPos[Step](row)
			step.At = step.At.UTC()
			return step, err
		}, stepsSQL, t.TransactionGroupID, tenantID, t.ID, maxSteps, t.CreatedAt)
		if err != nil {
			return err
		}
		if t.Held, err = ledger.EntryHold(ctx, tx, s.Clock.Now(), tenantID, t.ID); err != nil {
			return err
		}
		if t.ArchivedBefore, err = partition.ArchivedBefore(ctx, tx, "deliveries"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, refundedSQL, t.ID, tenantID).Scan(&t.Refunded, &t.BeingRefunded); err != nil {
			return err
		}
		if t.PassedOn, err = ledger.PassedOn(ctx, tx, tenantID, t.ID); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT CASE WHEN source = 'webhook' THEN request_id ELSE '' END FROM inbound_events WHERE id = $1`, t.TransactionGroupID).Scan(&t.RequestID)
		return pg.OrNone(err, nil) // none: archived
	})
	if err == nil {
		err = t.archivedMeanwhile(ctx, s.Pool)
	}
	if err != nil {
		return Timeline{}, err
	}
	t.Timeline = append(t.Timeline, Step{At: t.CreatedAt, Step: StepPosted, Reference: t.ID.String()})
	if t.ConfirmedAt != nil {
		t.Timeline = append(t.Timeline, Step{At: *t.ConfirmedAt, Step: StepConfirmed, Reference: t.SessionID})
	}
	slices.SortStableFunc(t.Timeline, func(a, b Step) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(slices.Index(StepNames, a.Step), slices.Index(StepNames, b.Step)), cmp.Compare(a.Reference, b.Reference))
	})
	return t, nil
}

// archivedMeanwhile moves ArchivedBefore to what it is now. When a partition of deliveries is taken
// away after the snapshot has begun, its rows are gone for the snapshot too, but the snapshot still
// reads the archives as they were. A partition that is restored meanwhile moves nothing: the
// snapshot lacks its rows.
func (t *Timeline) archivedMeanwhile(ctx context.Context, q pg.Querier) error {
	now, err := partition.ArchivedBefore(ctx, q, "deliveries")
	if now != nil && (t.ArchivedBefore == nil || now.After(*t.ArchivedBefore)) {
		t.ArchivedBefore = now
	}
	return err
}
