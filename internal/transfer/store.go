package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/metrics"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/work"
)

// claimResult is a claimed transfer, or a wait ([retry]) if it is frozen, lacks cover or awaits
// approval. Both are nil if there is nothing to do: the transfer is not due, leased by another
// worker, or has ended here.
type claimResult struct {
	transfer *claimed
	wait     error
}

// claimAll claims the transfers that are due, puts off those that are frozen, lack cover or await
// approval, and ends those that will never get it, or refund a payment that the bank has taken
// back. It leases a transfer if its step asks the bank by reference, or asks a hook. It does not
// lease the other pending ones: their step only looks up the holder, which two workers may do at
// once; the first to record a result wins. A transfer that is covered when it is checked is still
// covered when it is submitted; see [Service.cover].
func (s *Service) claimAll(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]claimResult, error) {
	now := s.Clock.Now()
	claims, err := work.Due(ctx, tx, work.Settle, now, ids)
	if err != nil || len(claims) == 0 {
		return make([]claimResult, len(ids)), err
	}
	transfers, err := s.read(ctx, tx, now, slices.Collect(maps.Keys(claims))...)
	if err != nil {
		return nil, err
	}
	byID := map[uuid.UUID]claimResult{}
	var asked, short []*claimed
	var frozen, recalled, awaiting []postponement
	var gone []ending
	for _, st := range transfers {
		switch st.Claim = claims[st.ID]; {
		case st.Status != Pending:
			asked = append(asked, st)
		case st.awaiting && now.Before(st.approvalEnd()) && st.hook != "" && s.Hooks != nil:
			asked = append(asked, st)
		case st.awaiting && now.Before(st.approvalEnd()):
			awaiting = append(awaiting, st.waitUntil(new(st.approvalEnd()), errAwaitsApproval))
		case st.awaiting:
			gone = append(gone, s.ending(st, now, notApproved))
		case st.frozen != nil:
			frozen = append(frozen, st.waitUntil(st.frozen, errFrozen))
		case st.payment == paymentGone:
			gone = append(gone, s.ending(st, now, takenBack))
		case st.payment == paymentRecalled:
			recalled = append(recalled, s.postponement(st, now, false, errPaymentRecalled))
		case st.covered:
			byID[st.ID] = claimResult{transfer: st}
		default:
			short = append(short, st)
		}
	}
	if others := len(frozen) + len(recalled) + len(awaiting) + len(gone) + len(short); others > 0 && len(asked)+others > 1 {
		// the groups are written one after the other, while a lifted freeze makes items of all of
		// them due
		if err := work.Lock(ctx, tx, work.Settle, slices.Collect(maps.Keys(claims))...); err != nil {
			return nil, err
		}
	}
	if err := s.leaseAll(ctx, tx, now, asked, byID); err != nil {
		return nil, err
	}
	if err := s.putOff(ctx, tx, frozen, errFrozen, byID); err != nil {
		return nil, err
	}
	if err := s.putOff(ctx, tx, recalled, errPaymentRecalled, byID); err != nil {
		return nil, err
	}
	if err := s.putOff(ctx, tx, awaiting, errAwaitsApproval, byID); err != nil {
		return nil, err
	}
	uncovered, err := s.coverAll(ctx, tx, now, short, byID)
	if err != nil {
		return nil, err
	}
	if err := s.endClaimed(ctx, tx, append(gone, uncovered...)); err != nil {
		return nil, err
	}
	if err := s.lookAgain(ctx, tx, now, byID); err != nil {
		return nil, err
	}
	out := make([]claimResult, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
		delete(byID, id) // if an id was given twice, one caller gets the transfer
	}
	return out, nil
}

// leaseAll leases the items of transfers that no other worker has claimed meanwhile.
func (s *Service) leaseAll(ctx context.Context, tx pg.Tx, now time.Time, transfers []*claimed, byID map[uuid.UUID]claimResult) error {
	if len(transfers) == 0 {
		return nil
	}
	leased, err := work.Lease(ctx, tx, work.Settle, now.Add(s.Lease), claimsOf(transfers))
	for i, c := range leased {
		if c != nil {
			transfers[i].Claim = *c
			byID[c.ID] = claimResult{transfer: transfers[i]}
		}
	}
	return err
}

// coverAll decides about pending transfers of accounts whose confirmed money does not cover all of
// their debits, puts off those that lack cover, and returns the ends of those that will never have
// it.
func (s *Service) coverAll(ctx context.Context, tx pg.Tx, now time.Time, transfers []*claimed, byID map[uuid.UUID]claimResult) ([]ending, error) {
	v, err := s.cover(ctx, tx, now, transfers)
	if err != nil {
		return nil, err
	}
	for _, st := range v.covered {
		byID[st.ID] = claimResult{transfer: st}
	}
	return v.ends, s.putOff(ctx, tx, v.short, errCover, byID)
}

// endClaimed ends pending transfers without having asked the bank, all together, as their accounts'
// balances are locked.
func (s *Service) endClaimed(ctx context.Context, tx pg.Tx, ends []ending) error {
	held, err := s.endAll(ctx, tx, ends)
	tx.AfterCommit(func(context.Context) {
		for i, e := range ends {
			if held[i] && e.outcome == neverCovered {
				s.Log.Warn(e.why, slog.String("transfer", e.Ref))
			}
		}
	})
	return err
}

// putOff gives pending transfers back, and tells their callers when to retry.
func (s *Service) putOff(ctx context.Context, tx pg.Tx, items []postponement, why error, byID map[uuid.UUID]claimResult) error {
	held, err := s.postponeAll(ctx, tx, items)
	if err != nil {
		return err
	}
	for i, p := range items {
		if held[i] {
			byID[p.ID] = claimResult{wait: retry.At(*p.next, why)}
		}
	}
	return nil
}

// errGoesOn is why a transfer that was put off is due again at once.
var errGoesOn = errors.New("what it waited for came while it was put off")

// lookAgain makes transfers that were just put off due at once if what they wait for has come
// meanwhile. Their items are locked by now, and lifting a freeze or releasing money commits first
// and makes the account's pending transfers due afterwards. So either that commit is seen here, or
// the transfers become due after this transaction.
func (s *Service) lookAgain(ctx context.Context, tx pg.Tx, now time.Time, byID map[uuid.UUID]claimResult) error {
	var put []uuid.UUID
	for id, c := range byID {
		if c.wait != nil {
			put = append(put, id)
		}
	}
	if len(put) == 0 {
		return nil
	}
	again, err := s.read(ctx, tx, now, put...)
	if err != nil {
		return err
	}
	var short []*claimed
	var free []uuid.UUID
	for _, st := range again {
		switch {
		case st.frozen != nil || st.awaiting || st.payment == paymentRecalled:
		case st.payment == paymentGone:
			free = append(free, st.ID)
		default:
			short = append(short, st)
		}
	}
	v, err := s.cover(ctx, tx, now, short)
	if err != nil {
		return err
	}
	for _, st := range v.covered {
		free = append(free, st.ID)
	}
	if len(free) == 0 {
		return nil
	}
	for _, id := range free {
		byID[id] = claimResult{wait: retry.At(now, errGoesOn)}
	}
	_, err = work.Expedite(ctx, tx, work.Settle, now, free...)
	return err
}

func claimsOf(transfers []*claimed) []work.Claim {
	claims := make([]work.Claim, len(transfers))
	for i, st := range transfers {
		claims[i] = st.Claim
	}
	return claims
}

// submitted is the result of recording a submission.
type submitted struct {
	claim   *work.Claim // nil: nothing may be submitted
	refused error       // the claim stood, but it must not be submitted now
	at      time.Time   // of the submission, or when a refused one is due again
}

// submitSQL skips transfers that the bank has acknowledged since the claim, that are frozen, that
// lack an approval, or that are pending or refunds on an account that has had a recall since. It
// also checks a refund's payment once more, since a misdirected payment has no recall. For the
// forms of the conditions see package pg, plans.go.
var submitSQL = `UPDATE transfers t SET status = 'processing', attempt_count = attempt_count + 1, submitted_at = $2, ask_count = 0, unknown_count = 0,
		account_name = m.holder, last_error = '', updated_at = $2
	FROM ` + pg.Unnest[claimed](3, "m") + `
	WHERE t.id = m.id AND t.status = ANY($1) AND t.acknowledged_at IS NULL
		AND CASE WHEN t.status = 'pending' OR t.refund_of IS NOT NULL THEN m.recalls = (SELECT coalesce(r.recall_count, 0) FROM ledger_balances r WHERE r.account_id = t.account_id) ELSE true END
		AND ` + paymentOf + ` = ''
		AND ` + notStopped + `
		AND ` + approved + `
	RETURNING m.n`

// submitAll records many submissions, each under a lease.
func (s *Service) submitAll(ctx context.Context, tx pg.Tx, transfers []*claimed) ([]submitted, error) {
	now := s.Clock.Now()
	leased, err := work.Lease(ctx, tx, work.Settle, now.Add(s.Lease), claimsOf(transfers))
	if err != nil {
		return nil, err
	}
	out, err := s.takeTurns(ctx, tx, now, transfers, leased)
	if err != nil {
		return nil, err
	}
	var ours []*claimed
	var places []int
	for i, st := range transfers {
		if out[i].claim != nil {
			ours, places = append(ours, st), append(places, i)
		}
	}
	if len(ours) == 0 {
		return out, nil
	}
	made, err := pg.Done(ctx, tx, ours, submitSQL, Transitions.From(EventSubmit), now)
	if err != nil {
		return nil, err
	}
	var refused []work.Outcome
	for i, place := range places {
		if !made[i] {
			out[place] = submitted{refused: errRefused, at: now}
			refused = append(refused, work.Outcome{Claim: *leased[place], Next: &now})
		}
	}
	if len(refused) > 0 {
		_, err = work.Finish(ctx, tx, work.Settle, refused)
	}
	return out, err
}

// postponement gives a claimed transfer back until it is next due.
type postponement struct {
	*claimed
	next    *time.Time // nil: never again
	asks    int
	unknown int
	why     string
}

// waitUntil puts a claimed transfer off until a time that the schedule of its questions does not
// set. It counts as no question.
func (st *claimed) waitUntil(next *time.Time, why error) postponement {
	return postponement{claimed: st, next: next, asks: st.Asks, unknown: st.Unknown, why: why.Error()}
}

// ending is the end of a claimed transfer, or its later move away from success.
type ending struct {
	*claimed
	outcome
	next *time.Time // when the bank is asked again; nil: it is not
}

// to returns the new status; empty: there is no such transition.
func (e ending) to() Status {
	to, _ := Transitions.Next(e.Status, e.event)
	return to
}

// change is the result of a claim, as recordSQL stores it. A nil field leaves its column unchanged.
type change struct {
	ID      uuid.UUID `pg:"id"`
	From    Status    `pg:"status_from"`
	To      Status    `pg:"status_to"`
	Asks    int       `pg:"asks"`
	Unknown int       `pg:"unknown"`
	Why     *string   `pg:"why"`
	By      *string   `pg:"by"`
	Reason  *string   `pg:"reason"`
	learned
	chargeColumns
}

func (p postponement) change() change {
	c := change{
		ID: p.ID, From: p.Status, To: p.Status, Asks: p.asks, Unknown: p.unknown, learned: p.learned, chargeColumns: p.chargeColumns(),
	}
	if !p.ended() {
		c.Why = &p.why
	}
	return c
}

func (e ending) change() change {
	return change{
		ID: e.ID, From: e.Status, To: e.to(), Why: &e.why, By: new(string(e.by)), Reason: &e.reason, learned: e.learned,
		chargeColumns: e.chargeColumns(),
	}
}

// recordSQL: an acknowledgement is permanent, and a fee stands until another is named. A difference
// that is the same as before keeps its state: waiting for a person, or dealt with.
var recordSQL = `UPDATE transfers t
	SET status = m.status_to, ask_count = m.asks, unknown_count = m.unknown, last_error = coalesce(m.why, t.last_error), ended_by = coalesce(m.by, t.ended_by),
		failure_reason = coalesce(m.reason, t.failure_reason), updated_at = CASE WHEN m.status_to = m.status_from THEN t.updated_at ELSE $1 END,
		acknowledged_at = coalesce(t.acknowledged_at, CASE WHEN m.acked THEN $1::timestamptz END),
		provider_fee = coalesce(m.fee, t.provider_fee), provider_vat = coalesce(m.vat, t.provider_vat),
		provider_stamp_duty = coalesce(m.stamp_duty, t.provider_stamp_duty), booked_fee = coalesce(m.booked_fee, t.booked_fee),
		booked_taxes = coalesce(m.booked_taxes, t.booked_taxes), booking_count = coalesce(m.booking_count, t.booking_count),
		tenant_fee = coalesce(m.tenant_fee, t.tenant_fee), tenant_taxes = coalesce(m.tenant_taxes, t.tenant_taxes),
		reserved_fee = CASE WHEN m.released THEN NULL ELSE t.reserved_fee END,
		platform_fee = CASE WHEN m.status_to IN ('failed', 'refunded') THEN NULL ELSE t.platform_fee END,
		platform_vat = CASE WHEN m.status_to IN ('failed', 'refunded') THEN NULL ELSE t.platform_vat END, difference = coalesce(m.difference, t.difference),
		differs_since = CASE WHEN m.difference IS NULL OR m.difference = t.difference THEN t.differs_since WHEN m.difference = '' THEN NULL ELSE $1 END
	FROM ` + pg.Unnest[change](2, "m") + `
	WHERE t.id = m.id AND t.status = m.status_from`

// writeAll stores the changes of transfers whose claims stand.
func writeAll(ctx context.Context, tx pg.Tx, now time.Time, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, recordSQL, pg.Columns(changes, now)...)
	if err == nil && int(tag.RowsAffected()) != len(changes) {
		err = fmt.Errorf("transfer: %d of %d recorded: a status changed under its claim", tag.RowsAffected(), len(changes))
	}
	return err
}

// postponeAll gives transfers back until they are next due, and reports for each whether its claim
// still stood.
func (s *Service) postponeAll(ctx context.Context, tx pg.Tx, items []postponement) ([]bool, error) {
	if len(items) == 0 {
		return nil, nil
	}
	outcomes := make([]work.Outcome, len(items))
	for i, p := range items {
		outcomes[i] = work.Outcome{Claim: p.Claim, Next: p.next}
	}
	held, err := work.Finish(ctx, tx, work.Settle, outcomes)
	if err != nil {
		return nil, err
	}
	var ours []postponement
	var charged []chargedStep
	for i, p := range items {
		if held[i] {
			ours, charged = append(ours, p), append(charged, p.planCharges(p.Status))
		}
	}
	now := s.Clock.Now()
	if err := moveDebits(ctx, tx, now, charged, nil, nil); err != nil {
		return nil, err
	}
	changes := make([]change, len(ours))
	for i, p := range ours {
		changes[i] = p.change()
	}
	if err := writeAll(ctx, tx, now, changes); err != nil {
		return nil, err
	}
	return held, bookCharges(ctx, tx, now, charged)
}

// endAll ends the transfers whose claim still stands, and returns which these are. An end that
// cannot be booked fails the transaction; the batcher then repeats its items one by one, so that
// only that one fails (package pg).
func (s *Service) endAll(ctx context.Context, tx pg.Tx, ends []ending) ([]bool, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	now := s.Clock.Now()
	outcomes := make([]work.Outcome, len(ends))
	for i, e := range ends {
		outcomes[i] = work.Outcome{Claim: e.Claim, Next: e.next}
	}
	held, err := work.Finish(ctx, tx, work.Settle, outcomes)
	if err == nil {
		err = keepAcknowledged(ctx, tx, now, ends, held)
	}
	if err != nil {
		return nil, err
	}
	var ours []ending
	for i, e := range ends {
		if held[i] {
			ours = append(ours, e)
		}
	}
	tx.AfterCommit(func(context.Context) {
		for _, e := range ours {
			metrics.TransfersEnded.Inc(string(e.to()))
		}
	})
	return held, book(ctx, tx, now, ours)
}
