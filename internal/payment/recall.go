package payment

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// Refusals of what an operator asks for.
var (
	ErrNotRecallable = errs.New(errs.Unprocessable, "the payment is not in the balance: there is nothing to take back")
	ErrNoRecall      = errs.New(errs.Unprocessable, "no recall of this payment is open")
)

// The events by which the bank says that it has taken a payment back, or that the payment failed.
// For a posted payment, either opens a recall.
const (
	typeReversal = "payment_reversal"
	typeFailed   = "payment_failed"
)

// RecallSource says who claims that the bank has taken a payment back.
type RecallSource string

// The sources of recalls. None of them is believed: the bank is asked by the transaction's id.
const (
	RecallByEvent RecallSource = "event" // a payment_reversal or payment_failed
	// the bank's list, or its record, says reversed, refunded or failed
	RecallByReconciliation RecallSource = "reconciliation"
	RecallByOperator       RecallSource = "operator"
)

const (
	// keptAfter is how many answers of "success" end the hold. The first may come before the bank's
	// own record has caught up with its event.
	keptAfter = 2
	// The record may lag for longer than that, so the bank is asked again. Each wait is as long as
	// the time since the hold ended, but at least watchLeast and at most watchMost. Success after
	// watchFor is believed.
	watchLeast = 10 * time.Minute
	watchMost  = 24 * time.Hour
	watchFor   = 14 * 24 * time.Hour
	// A recall that the bank's record contradicted can be opened again, except by an operator, only
	// after reopenGap, doubled for each time that it was opened, up to reopenMost. So nobody can
	// hold money, or make us ask the bank, for ever.
	reopenGap  = 10 * time.Minute
	reopenMost = 24 * time.Hour
)

var (
	whyRecalled   = "the bank may have taken it back, and is being asked"
	whyStillThere = "the bank is said to have taken it back, but its record says success: the bank is asked once more"
	whyWatched    = "the bank is said to have taken it back, but its record says success: nothing is held, and the bank is asked for two more weeks"
)

// recallState is what a check knows about the unfinished recall of its payment; its zero value
// means that there is none.
type recallState struct {
	Recall      RecallStatus // open or watched
	ClosedAt    *time.Time   // of a watched one: when its hold ended
	Held        money.Amount
	Successes   int
	EntryStatus ledger.Status
}

func (r *recallState) recalled() bool { return r.Recall != "" }

// watch returns when the bank is next asked about a recall that is watched since the given time.
func watch(since, now time.Time) time.Time {
	return now.Add(min(max(now.Sub(since), watchLeast), watchMost))
}

// judgeRecall turns the bank's answer about a payment that is no longer provisional into a finding.
// Only its record decides. If the record says that the bank gave the payment back, or never had it,
// the entry is reversed, whatever became of the fee; success in two answers ends the hold, and
// success for two more weeks ends the recall. "Not found", no answer, "in progress" or another sum
// decides nothing, however long that takes; a record that no longer says success of the same sum
// holds the sum again ([holdAgain]).
func (s *Service) judgeRecall(f *finding, t provider.Transaction, err error) *finding {
	c, now := f.check, s.Clock.Now()
	watched := c.Recall == RecallWatched
	if watched {
		f.next = watch(*c.ClosedAt, now)
	}
	takenBack := t.Status == provider.Refunded || t.Status == provider.Failed
	differs := ""
	if err == nil {
		record := t
		if takenBack {
			record.Fee = c.Fee
		}
		differs = c.Differs(record)
	}
	switch {
	case c.EntryStatus == ledger.Reversed: // by somebody else
		f.kept, f.Why = true, "it was reversed"
	case err != nil:
		f.Why = "asked whether the bank took it back: " + err.Error()
	case differs != "":
		f.again = watched
		f.Why = fmt.Sprintf("asked whether the bank took it back: it says %s, but its record differs: %s", t.Status, differs)
	case c.EntryStatus == ledger.NeedsReview:
		f.Why = fmt.Sprintf("the bank is said to have taken it back; its record says %s; a person must decide the review", t.Status)
	case takenBack:
		f.event, f.Why = ledger.EventRecall, fmt.Sprintf("the bank says %s, after it had confirmed the payment", t.Status)
	case t.Status != provider.Success:
		f.again, f.Why = watched, errUnderWay.Error()
	case watched && now.Sub(*c.ClosedAt) >= watchFor:
		f.kept, f.Why = true, ""
	case watched:
		f.Why = whyWatched
	case c.Successes+1 >= keptAfter:
		f.watched, f.Why, f.next = true, whyWatched, watch(now, now)
	default:
		f.success, f.Why, f.next = true, whyStillThere, now.Add(s.confirmDelay(0))
	}
	if f.again {
		f.next = now.Add(s.confirmDelay(0))
	}
	return f
}

// reversalStored is, as SQL, the condition that an event of the bank is stored which says that it
// took back the payment of an event e.
const reversalStored = `EXISTS (SELECT FROM event_keys k WHERE k.transaction = ANY(ARRAY[event_key(nullif(e.provider_txn_ref, ''))]) AND k.event_type = '` + typeReversal + `')`

// The payments of transactions are locked in the order of their ids, after their items, and those
// that are posted are then read with their recalls. A transaction that posts one at that moment is
// waited for, since it has not seen the event that is stored here (postedSQL).
const (
	paymentsSQL   = `SELECT e.id FROM ` + eventsOf + ` WHERE e.status <> 'ignored' ORDER BY e.id`
	lockEventsSQL = `SELECT e.id FROM ` + eventsNamed + ` ORDER BY e.id FOR NO KEY UPDATE OF e`
	recallsSQL    = `
	SELECT e.id, e.provider_txn_ref, e.tenant_id, e.account_id, e.traceparent, coalesce(r.status, ''), coalesce(r.opened_count, 0), r.closed_at
	FROM ` + eventsNamed + ` LEFT JOIN recalls r ON r.event_id = ANY(ARRAY[e.id]) WHERE e.status = 'processed' ORDER BY e.id`
	// lockPaymentsSQL locks those that are posted.
	lockPaymentsSQL = `SELECT e.id FROM ` + eventsOf + ` WHERE e.status = 'processed' ORDER BY e.id FOR NO KEY UPDATE OF e`
)

type recallable struct {
	EventID             uuid.UUID
	TxnRef              string
	TenantID, AccountID uuid.UUID
	Traceparent         string
	Status              RecallStatus
	Opened              int
	ClosedAt            *time.Time
}

// mayOpen reports whether a recall of the payment may be opened now: not while one is open, not
// after the bank took the payment back, and not soon after its record contradicted the last recall.
func (r *recallable) mayOpen(source RecallSource, now time.Time) bool {
	switch r.Status {
	case "":
		return true
	case RecallKept, RecallWatched:
		gap := min(reopenGap<<min(r.Opened, 10), reopenMost)
		return source == RecallByOperator || !now.Before(r.ClosedAt.Add(gap))
	}
	return false
}

// OpenRecall records a claim that the bank has taken back the payment of a transaction. From now on
// its sum pays out no settlement (one that is accepted waits), and the bank is asked by the
// transaction's id until its record settles the question. It returns the payment's event, or
// uuid.Nil if there is nothing to do: no such payment is in the books, it is reversed already, a
// recall is open, or the bank's record contradicted one a short time ago.
func (s *Service) OpenRecall(ctx context.Context, providerTxnRef string, source RecallSource) (uuid.UUID, error) {
	var opened map[string]uuid.UUID
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) (err error) {
		opened, err = s.openRecalls(ctx, tx, source, []string{providerTxnRef})
		return err
	})
	if err != nil {
		return uuid.Nil, err
	}
	return opened[providerTxnRef], nil
}

// openRecalls is [Service.OpenRecall] for many payments, within a transaction. It locks their rows
// together. A claim about a payment that is held back as a repeat is one about the payment that it
// may repeat. It returns the payments' events by transaction.
func (s *Service) openRecalls(ctx context.Context, tx pg.Tx, source RecallSource, txnRefs []string) (map[string]uuid.UUID, error) {
	now := s.Clock.Now()
	alike, err := alikeOf(ctx, tx, txnRefs)
	if err != nil {
		return nil, err
	}
	known, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], paymentsSQL, slices.AppendSeq(slices.Clone(txnRefs), maps.Values(alike)))
	if err != nil || len(known) == 0 {
		return nil, err
	}
	known = slices.Compact(known) // of several claims about one payment
	for _, kind := range []work.Kind{work.Ingest, work.Confirm} {
		if err := work.Lock(ctx, tx, kind, known...); err != nil {
			return nil, err
		}
	}
	locked, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], lockEventsSQL, known)
	if err != nil {
		return nil, err
	}
	found, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[recallable], recallsSQL, locked)
	if err != nil {
		return nil, err
	}
	byID := map[uuid.UUID]recallable{}
	var ids []uuid.UUID
	for _, r := range found {
		if r.mayOpen(source, now) {
			byID[r.EventID], ids = r, append(ids, r.EventID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	held, err := ledger.HoldRecalled(ctx, tx, now, ids)
	if err != nil {
		return nil, err
	}
	var opened []uuid.UUID
	for _, id := range ids {
		h, r := held[id], byID[id]
		if h.Status == "" || h.Status == ledger.Reversed {
			continue
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at) VALUES ($1, $2, $3, $4, 'open', $5, $6)
			ON CONFLICT (event_id) DO UPDATE SET status = 'open', source = excluded.source, held = excluded.held, successes = 0,
				opened_count = recalls.opened_count + 1, opened_at = excluded.opened_at, closed_at = NULL, opened_before = recalls.opened_before || recalls.opened_at,
				kept_before = CASE recalls.status WHEN 'kept' THEN recalls.kept_before || recalls.closed_at ELSE recalls.kept_before END`,
			id, r.TenantID, r.AccountID, source, h.Amount, now); err != nil {
			return nil, err
		}
		opened = append(opened, id)
		s.Log.WarnContext(ctx, "the bank may have taken a payment back: the bank is asked, and the sum covers no settlement meanwhile", slog.String("alert", "recall_opened"),
			slog.String("event", id.String()), slog.String("account", r.AccountID.String()), slog.String("source", string(source)))
	}
	if _, err := tx.Exec(ctx, `UPDATE inbound_events e SET last_error = $2 FROM unnest($1::uuid[]) AS m (event) WHERE e.id = ANY(ARRAY[m.event])`, opened, whyRecalled); err != nil {
		return nil, err
	}
	// this ends every claim: an answer from before the recall does not count
	items := make([]work.Item, len(opened))
	for i, id := range opened {
		items[i] = work.Item{Kind: work.Confirm, ID: id, TenantID: byID[id].TenantID, DueAt: now, Traceparent: byID[id].Traceparent}
	}
	byRef := make(map[string]uuid.UUID, len(opened))
	for _, id := range opened {
		byRef[byID[id].TxnRef] = id
	}
	for held, like := range alike {
		if id, is := byRef[like]; is {
			byRef[held] = id
		}
	}
	return byRef, work.Schedule(ctx, tx, items...)
}

// openPosted opens the recalls of payments that are posted now and whose payment_reversal is
// already stored, because it came first or while they waited. Replacements that an operator posts
// are exempt: a person has decided.
func (s *Service) openPosted(ctx context.Context, tx pg.Tx, events []*posting) error {
	var refs []string
	for _, e := range events {
		if e.takenBack && e.Source != sourceReplacement {
			refs = append(refs, e.TxnRef)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	_, err := s.openRecalls(ctx, tx, RecallByEvent, refs)
	return err
}

// openStored opens the recalls that stored events report, in the same transaction, so that a stored
// payment_reversal always holds the sum, even of a payment that is posted later
// ([Service.openPosted]). A further reversal of the same transaction, stored as a repeat, may
// report that the bank took the payment back again later: it reopens the recall if mayOpen allows
// that. A payment that is stored and posted while this transaction commits (which may take long, if
// it waits for a standby) sees no reversal and is not seen here. So the reversal gets an item of
// work of its own, which looks again after the commit ([Service.openLate]). A payment_failed needs
// no second look: it says nothing about a payment that succeeds later, and the bank is asked before
// that is confirmed.
func (s *Service) openStored(ctx context.Context, tx pg.Tx, events []*inbound, isNew map[uuid.UUID]bool) error {
	var refs []string
	var reversals []*inbound
	for _, e := range events {
		if e.recalled = uuid.Nil; e.Authentic && (e.Type == typeReversal || e.Type == typeFailed) {
			refs, reversals = append(refs, e.TxnRef), append(reversals, e)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	slices.Sort(refs)
	opened, err := s.openRecalls(ctx, tx, RecallByEvent, slices.Compact(refs))
	if err != nil {
		return err
	}
	var later []work.Item
	for _, e := range reversals {
		if e.recalled = opened[e.TxnRef]; e.recalled != uuid.Nil {
			delete(opened, e.TxnRef) // a repeat in the same batch opens nothing
			continue
		}
		if isNew[e.ID] && e.Type == typeReversal {
			later = append(later, work.Item{Kind: work.Confirm, ID: e.ID, DueAt: s.Clock.Now(), Traceparent: e.Traceparent})
		}
	}
	return work.Schedule(ctx, tx, later...)
}

// addReversals adds checks for the claims that are payment_reversals.
func addReversals(ctx context.Context, q pg.Querier, found []*check, claims map[uuid.UUID]work.Claim) ([]*check, error) {
	others := maps.Clone(claims)
	for _, c := range found {
		delete(others, c.ID)
	}
	reversals, err := pg.Collect(ctx, q, func(r pgx.CollectableRow) (*check, error) {
		c := check{reversal: true}
		return &c, r.Scan(&c.ID, &c.TxnRef)
	}, `SELECT e.id, e.provider_txn_ref FROM `+eventsNamed+` WHERE e.event_type = '`+typeReversal+`'`, slices.Collect(maps.Keys(others)))
	return append(found, reversals...), err
}

// openLate opens the recall of a payment that was posted while its payment_reversal was stored.
func (s *Service) openLate(ctx context.Context, c *check) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		held, err := work.Finish(ctx, tx, work.Confirm, []work.Outcome{{Claim: c.claim}})
		if err == nil && held[0] {
			_, err = s.openRecalls(ctx, tx, RecallByEvent, []string{c.TxnRef})
		}
		return err
	})
}

// closeRecalls records what the findings say about open recalls, and ends their holds. It runs
// after the findings' moves: a recall whose entry somebody else has moved stays open, and the bank
// is asked again.
func (s *Service) closeRecalls(ctx context.Context, tx pg.Tx, findings []*finding, moved []ledger.Moved) error {
	release := map[uuid.UUID]money.Amount{}
	var parts []uuid.UUID // payments that were split, or may have been when they were posted before
	var again []*finding
	i := 0
	for _, f := range findings {
		var m ledger.Moved
		if f.event != "" {
			m = moved[i]
			i++
		}
		if !f.recalled() {
			continue
		}
		var to RecallStatus
		at := s.Clock.Now()
		switch {
		case m.Err != nil:
			return fmt.Errorf("payment: the entry of event %s was moved without its event's lock: %w", f.ID, m.Err)
		case f.kept:
			to = RecallKept
			if f.ClosedAt != nil { // it was watched: its hold ended then
				at = *f.ClosedAt
			}
		case f.watched:
			to = RecallWatched
		case f.again:
			again = append(again, f)
			continue
		case f.event == ledger.EventRecall || f.event == ledger.EventReverse:
			to = RecallReversed
		case f.event == ledger.EventHold: // it has left the balance, so nothing is held
			if _, err := tx.Exec(ctx, `UPDATE recalls SET held = 0 WHERE event_id = $1 AND status = 'open'`, f.ID); err != nil {
				return err
			}
			release[f.AccountID] = release[f.AccountID].Add(f.Held)
			continue
		case f.success:
			if _, err := tx.Exec(ctx, `UPDATE recalls SET successes = successes + 1 WHERE event_id = $1 AND status = 'open'`, f.ID); err != nil {
				return err
			}
			continue
		default:
			continue
		}
		was, err := endRecall(ctx, tx, f.ID, to, at)
		if err != nil {
			return err
		}
		f.counts = was.Unpublished && to != RecallReversed && f.EntryStatus == ledger.Confirmed
		parts = append(parts, f.ID)
		release[f.AccountID] = release[f.AccountID].Add(was.Held)
	}
	if len(parts) > 0 {
		if err := ledger.ReleaseParts(ctx, tx, s.Clock.Now(), parts); err != nil {
			return err
		}
	}
	if len(release) > 0 {
		if err := ledger.ReleaseRecalled(ctx, tx, release); err != nil {
			return err
		}
	}
	return holdAgain(ctx, tx, s.Clock.Now(), again)
}

// ended is what a recall was until it ended.
type ended struct {
	Held        money.Amount // for the caller to release
	Unpublished bool         // payment.confirmed waits for the end
}

// endRecall closes an unfinished recall as of a time. The next reconciliation compares what is kept
// with the bank's record if it is closed as of now: so is what a person keeps, even if its hold
// ended days ago. [ErrNoRecall].
func endRecall(ctx context.Context, tx pg.Tx, eventID uuid.UUID, to RecallStatus, at time.Time) (ended, error) {
	return pg.One(ctx, tx, pgx.RowToStructByPos[ended], ErrNoRecall, `
		UPDATE recalls r SET status = $2, held = 0, unpublished = false, closed_at = $3
		FROM (SELECT event_id, held, unpublished FROM recalls WHERE event_id = $1) was
		WHERE r.event_id = was.event_id AND r.status`+ledger.RecallStands+` RETURNING was.held, was.unpublished`, eventID, to, at)
}
