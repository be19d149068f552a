package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/work"
	"ajo/ledger"
)

// Refusals of [Service.Cancel] and [Service.Resolve].
var (
	ErrSubmitted    = errs.New(errs.Unprocessable, "the transfer has been submitted to the bank: it can only be resolved")
	ErrNotSubmitted = errs.New(errs.Unprocessable, "the transfer was never submitted to the bank: it can be cancelled while it is pending, and there is nothing to resolve")
	ErrAtBank       = errs.New(errs.Unprocessable, "the bank has a payout under its reference, as after a restore: it cannot be cancelled; adopt it")
	ErrLeased       = errs.New(errs.Conflict, "a worker is working on the transfer: try again in a moment")
	ErrMovedOn      = errs.New(errs.Conflict, "the transfer has moved on while the bank was asked: look at it again")
	ErrBankSays     = errs.New(errs.Unprocessable, "the bank's own record says the opposite: poll the transfer, and its step books what the record says")
	ErrAgrees       = errs.New(errs.Unprocessable, "nothing to change: the books already have this outcome, and the bank's record does not differ")
	ErrPaidSum      = errs.New(errs.Invalid, "the sum that was paid must be above zero")
)

// Resolution is what a person has found out about a transfer.
type Resolution struct {
	Paid bool // whether the bank has paid it
	// what it has paid, if that is another sum than was ordered; only with Paid
	Amount *money.Amount
}

// Resolved is the result of a resolution or a cancellation.
type Resolved struct {
	ID      uuid.UUID
	Status  Status
	Paid    *money.Amount // what left, if it was paid
	Balance money.Amount  // of the account; below zero if more has left than was there
	// BankSays is what the bank answered when it was asked first, in words.
	BankSays string
}

// Cancel ends a transfer that was never submitted, and gives its money back: one that waits for
// cover, or whose destination the bank does not name. The bank is asked first, if it can be,
// because the books may have lost a submission. For operators. [ErrNotFound]; [ErrSubmitted];
// [ErrAtBank]; [ErrOver] when it has ended.
func (s *Service) Cancel(ctx context.Context, merchantTxRef string, by audit.By) (r Resolved, err error) {
	record, said := s.askedByHand(ctx, merchantTxRef)
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		st, err := s.lockTransfer(ctx, tx, now, merchantTxRef)
		switch {
		case err != nil:
			return err
		case st.Attempts > 0:
			return ErrSubmitted
		case st.Status != Pending:
			return ErrOver
		case hasIt(record):
			return ErrAtBank
		}
		// A worker that names the holder meanwhile finds its claim gone, and submits nothing.
		e := s.ending(st, now, outcome{EventReject, byOperator, "cancelled: " + by.Reason, reasonCancelled})
		if r, err = s.endOne(ctx, tx, e, now); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("transfers.cancel", "transfer:"+merchantTxRef, struct {
			Amount    string
			CreatedAt time.Time
			BankSays  string
		}{st.Amount.String(), st.CreatedAt, said}))
	})
	r.BankSays = said
	return r, err
}

// Resolve books what a person has found out about a transfer that no answer of the bank ends, or
// whose end the bank's record contradicts. The bank is asked first, if it can be: nothing is booked
// against what its record states for certain.
//
//   - Paid: one that is under way succeeds, and its debit is confirmed. One that had failed, or
//     come back, succeeds with a new debit: the first one's reversal stands in the statement. The
//     balance may fall below zero. With another sum than was ordered the debit is reversed, and a
//     new one of that sum booked, whatever the status was. One that failed without a submission
//     succeeds too if the bank's record shows it: the submission was lost with a database. A refund
//     of a misdirected payment that was assigned since is booked on that account.
//   - Not paid: one that is under way fails, one that was paid is refunded, and the money is back
//     in the balance.
//
// If the books say so already, the difference from the bank's record is marked as dealt with. If
// there is no record, the outcome stands by the person's word from then on.
// Nothing is booked if a worker has learned something while the bank was asked, since the person
// has not seen it. For operators. [ErrNotFound], [ErrNotSubmitted], [ErrLeased], [ErrMovedOn],
// [ErrBankSays], [ErrAgrees], [ErrPaidSum], [ErrAssignedOpen].
func (s *Service) Resolve(ctx context.Context, merchantTxRef string, to Resolution, by audit.By) (r Resolved, err error) {
	if to.Amount != nil && (!to.Paid || !to.Amount.IsPositive()) {
		return r, ErrPaidSum
	}
	var before claimed
	if err := s.Pool.QueryRow(ctx, `SELECT status, attempt_count, acknowledged_at IS NOT NULL, coalesce(paid_amount, amount) FROM transfers WHERE merchant_tx_ref = $1`, merchantTxRef).
		Scan(&before.Status, &before.Attempts, &before.Acknowledged, &before.Paid); err != nil {
		return r, pg.OrNone(err, ErrNotFound)
	}
	record, said := s.askedByHand(ctx, merchantTxRef)
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		st, err := s.lockTransfer(ctx, tx, now, merchantTxRef)
		if err != nil {
			return err
		}
		leased, err := work.Leased(ctx, tx, work.Settle, st.ID, now)
		lost := st.Attempts == 0 && st.Status == Failed && to.Paid && hasIt(record)
		switch {
		case err != nil:
			return err
		case st.Attempts == 0 && !lost:
			return ErrNotSubmitted
		case leased:
			return ErrLeased
		case st.movedSince(&before) && !(st.ended() && to.agrees(st)):
			return ErrMovedOn
		case to.opposes(st, record):
			return ErrBankSays
		}
		if record != nil {
			st.learned.bankCharges, st.learned.Kept = bankChargesOf(*record), record.FeeKept
		}
		if lost {
			if err := st.countLost(ctx, tx, now); err != nil {
				return err
			}
		}
		from, differed := st.Status, st.Difference
		vouches := record == nil && (st.Status == Success || st.Status == Refunded) && !st.byHand && !st.movedSince(&before)
		if r, err = s.endByHand(ctx, tx, now, st, to, vouches, by.Reason); err != nil {
			return err
		}
		if err := dealtWith(ctx, tx, st, r, record); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("transfers.resolve", "transfer:"+merchantTxRef, struct {
			From, To   Status
			Ordered    string
			Paid       *money.Amount
			Difference string
			BankSays   string
			AccountID  uuid.UUID // that it was booked on
		}{from, r.Status, st.Amount.String(), r.Paid, differed, said, st.AccountID}))
	})
	r.BankSays = said
	return r, err
}

// askedByHand asks the bank for its record, and describes the answer. A missing record is no
// obstacle: it is usually the reason why a person decides.
func (s *Service) askedByHand(ctx context.Context, ref string) (*provider.Payout, string) {
	if s.Bank == nil {
		return nil, "it was not asked"
	}
	p, err := s.Bank.Payout(ctx, ref)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		return nil, "it does not know the reference"
	case err != nil:
		return nil, "it gave no answer"
	case p.Ref != ref:
		return nil, "it answered with another's record"
	}
	return &p, fmt.Sprintf("%s of %s", p.Status, p.Amount)
}

// hasIt reports whether the bank's record is of a payout that it has made, or may make yet.
func hasIt(p *provider.Payout) bool {
	return p != nil && (p.Status == provider.Success || p.Status == provider.Pending)
}

// countLost counts the submission that was lost with another database, as takeUp does for a
// transfer that is pending.
func (st *claimed) countLost(ctx context.Context, tx pg.Tx, now time.Time) error {
	st.Attempts = 1
	_, err := tx.Exec(ctx, `UPDATE transfers SET attempt_count = 1, submitted_at = $2, acknowledged_at = coalesce(acknowledged_at, $2), adopted = true WHERE id = $1`, st.ID, now)
	return err
}

// movedSince reports whether a worker has learned something of the transfer or submitted it again,
// or a person has booked another sum, since it was read before.
func (st *claimed) movedSince(before *claimed) bool {
	return st.Status != before.Status || st.Attempts != before.Attempts || st.Acknowledged != before.Acknowledged || !st.Paid.Equal(before.Paid)
}

// agrees reports whether the books already say what the resolution says.
func (to Resolution) agrees(st *claimed) bool {
	return to.Paid == (st.Status == Success) && (to.Amount == nil || to.Amount.Equal(st.Paid))
}

// opposes reports whether the bank's record states for certain the opposite of the resolution, for
// the sum that was ordered, or the one that the books say has left, too.
func (to Resolution) opposes(st *claimed, p *provider.Payout) bool {
	sum := st.Amount
	if p != nil && p.Status == provider.Success && st.Status == Success {
		sum = st.Paid
	}
	if p == nil || !p.Amount.Equal(sum) {
		return false
	}
	if to.Paid {
		return p.Status == provider.Failed || p.Status == provider.Refunded || to.Amount != nil && p.Status == provider.Success && !to.Amount.Equal(p.Amount)
	}
	return p.Status == provider.Success
}

// endByHand books a resolution of a transfer that is locked. It vouches for the outcome that the
// books have, if no record of the bank's does.
func (s *Service) endByHand(ctx context.Context, tx pg.Tx, now time.Time, st *claimed, to Resolution, vouches bool, reason string) (Resolved, error) {
	sum := st.Amount
	switch {
	case to.Amount != nil:
		sum = *to.Amount
	case st.Status == Success:
		sum = st.Paid
	}
	why := "resolved: " + reason
	switch {
	case to.Paid && st.Status == Processing && sum.Equal(st.Amount):
		return s.endOne(ctx, tx, s.ending(st, now, outcome{EventPaid, byOperator, why, ""}), now)
	case to.Paid && (st.Status != Success || !sum.Equal(st.Paid)):
		return s.rebook(ctx, tx, now, st, sum, outcome{EventRebook, byOperator, why, ""})
	case !to.Paid && st.Status == Processing:
		return s.endOne(ctx, tx, s.ending(st, now, outcome{EventReject, byOperator, why, reasonResolvedNot}), now)
	case !to.Paid && st.Status == Success:
		return s.endOne(ctx, tx, s.ending(st, now, outcome{EventRefund, byOperator, why, reasonResolvedNot}), now)
	case vouches:
		if _, err := tx.Exec(ctx, `UPDATE transfers SET ended_by = $2, last_error = $3 WHERE id = $1`, st.ID, string(byOperator), why); err != nil {
			return Resolved{}, err
		}
	case !st.Differs:
		return Resolved{}, ErrAgrees
	}
	if err := st.unlock(ctx, tx); err != nil {
		return Resolved{}, err
	}
	return s.endedByHand(ctx, tx, st, st.Status)
}

// dealtWith marks the difference between the bank's record and the books as known to a person, so
// that it raises no alert the next time it is seen.
func dealtWith(ctx context.Context, tx pg.Tx, st *claimed, r Resolved, record *provider.Payout) error {
	text := st.Difference
	if record != nil {
		after := *st
		after.Status = r.Status
		_, text = after.compare(*record)
	} else if r.Status != st.Status {
		text = ""
	}
	_, err := tx.Exec(ctx, `UPDATE transfers SET difference = $2, differs_since = NULL WHERE id = $1`, st.ID, text)
	return err
}

// rebook books a new debit of the sum that the bank has really paid in place of the transfer's own,
// which is reversed if it is not already. The transfer succeeds.
func (s *Service) rebook(ctx context.Context, tx pg.Tx, now time.Time, st *claimed, sum money.Amount, o outcome) (Resolved, error) {
	counts := limit.Change{Transfer: st.ID, By: sum}
	if st.Status != Failed && st.Status != Refunded {
		counts.By = sum.Sub(st.Paid)
	}
	if err := limit.Correct(ctx, tx, []limit.Change{counts}); err != nil {
		return Resolved{}, err
	}
	if err := s.passOn(ctx, tx, now, st); err != nil {
		return Resolved{}, err
	}
	if event, ok := map[Status]ledger.Event{Processing: ledger.EventReverse, Success: ledger.EventRefund}[st.Status]; ok {
		moved, err := ledger.MoveEntries(ctx, tx, now, []ledger.Move{{TransactionGroupID: st.DebitGroup, Direction: ledger.Debit, Event: event}})
		if err = errors.Join(err, firstErr(moved)); err != nil {
			return Resolved{}, err
		}
	}
	group := uuid.Must(uuid.NewV7())
	posted, err := ledger.PostDebits(ctx, tx, now, []ledger.Posting{{
		AccountID: st.AccountID, Amount: sum, Narration: st.Narration, TransactionGroupID: group, TransferRef: &st.Ref, AllowOverdraft: true, Kind: kindOf(st.TenantID, st.AccountID),
	}})
	if err == nil {
		err = posted[0].Err
	}
	if err != nil {
		return Resolved{}, err
	}
	moved, err := ledger.MoveEntries(ctx, tx, now, []ledger.Move{{TransactionGroupID: group, Direction: ledger.Debit, Event: ledger.EventConfirm}})
	if err = errors.Join(err, firstErr(moved)); err != nil {
		return Resolved{}, err
	}
	e := s.ending(st, now, o)
	var other *money.Amount
	if !sum.Equal(st.Amount) {
		other = &sum
	}
	charges := []chargedStep{st.planCharges(e.to())}
	charges[0].gone, charges[0].why = sum, "NGN "+sum.String()+" of NGN "+st.Amount.String()+" went back"
	if err := moveDebits(ctx, tx, now, charges, nil, nil); err != nil {
		return Resolved{}, err
	}
	b := st.chargeColumns()
	_, err = tx.Exec(ctx, rebookSQL, st.ID, string(e.to()), group, other, o.why, string(o.by), now, st.learned.Fee, st.learned.VAT, st.learned.StampDuty,
		b.BookedFee, b.BookedTaxes, b.Count, b.TenantFee, b.TenantTaxes, b.Released)
	st.DebitGroup, st.Paid = group, sum
	if err == nil {
		err = recheckAfter(ctx, tx, e)
	}
	if err == nil {
		err = bookCharges(ctx, tx, now, charges)
	}
	if err == nil {
		err = publish(ctx, tx, now, []ending{e})
	}
	if err != nil {
		return Resolved{}, err
	}
	return s.endedByHand(ctx, tx, st, e.to())
}

const rebookSQL = `UPDATE transfers SET status = $2, debit_group = $3, paid_amount = $4, ask_count = 0, unknown_count = 0,
	last_error = $5, ended_by = $6, failure_reason = '', updated_at = $7,
	provider_fee = coalesce($8, provider_fee), provider_vat = coalesce($9, provider_vat), provider_stamp_duty = coalesce($10, provider_stamp_duty),
	booked_fee = coalesce($11, booked_fee), booked_taxes = coalesce($12, booked_taxes), booking_count = coalesce($13, booking_count),
	tenant_fee = coalesce($14, tenant_fee), tenant_taxes = coalesce($15, tenant_taxes), reserved_fee = CASE WHEN $16 THEN NULL ELSE reserved_fee END WHERE id = $1`

// recheckAfter schedules the first question after the end as the next step of a transfer that a
// person has ended, or none. A claim on the transfer is lost.
func recheckAfter(ctx context.Context, tx pg.Tx, e ending) error {
	if e.next != nil {
		return work.Schedule(ctx, tx, e.item(*e.next))
	}
	return work.Cancel(ctx, tx, work.Settle, e.ID)
}

func firstErr(moved []ledger.Moved) error {
	if len(moved) == 0 {
		return nil
	}
	return moved[0].Err
}

// endOne ends a locked transfer, as a worker's step would.
func (s *Service) endOne(ctx context.Context, tx pg.Tx, e ending, now time.Time) (Resolved, error) {
	if err := book(ctx, tx, now, []ending{e}); err != nil {
		return Resolved{}, err
	}
	if err := recheckAfter(ctx, tx, e); err != nil {
		return Resolved{}, err
	}
	return s.endedByHand(ctx, tx, e.claimed, e.to())
}

// endedByHand reads the result of a decision, before its commit.
func (s *Service) endedByHand(ctx context.Context, tx pg.Tx, st *claimed, status Status) (Resolved, error) {
	r := Resolved{ID: st.ID, Status: status}
	if status == Success {
		r.Paid = &st.Paid
	}
	b, err := ledger.ReadBalance(ctx, tx, st.AccountID)
	r.Balance = b.Balance
	return r, err
}

// lock locks a transfer: its item of work first, as workers do. A transfer that has ended may have
// none: then lock creates one, so that a worker that gets the transfer because of an event waits,
// and made is true. A caller that does not make the transfer due removes the item again ([unlock]).
func lock(ctx context.Context, tx pg.Tx, now time.Time, merchantTxRef string) (id uuid.UUID, made bool, err error) {
	m := work.Item{Kind: work.Settle, DueAt: now}
	err = tx.QueryRow(ctx, `SELECT id, tenant_id FROM transfers WHERE merchant_tx_ref = $1`, merchantTxRef).Scan(&m.ID, &m.TenantID)
	if err != nil {
		return m.ID, false, pg.OrNone(err, ErrNotFound)
	}
	made, err = work.LockOrMake(ctx, tx, m)
	if err == nil {
		_, err = tx.Exec(ctx, `SELECT FROM transfers WHERE id = $1 FOR NO KEY UPDATE`, m.ID)
	}
	return m.ID, made, err
}

// unlock removes the item of a locked transfer that has ended, if lock created it.
func (st *claimed) unlock(ctx context.Context, tx pg.Tx) error {
	if !st.itemMade {
		return nil
	}
	return work.Cancel(ctx, tx, work.Settle, st.ID)
}

// lockTransfer locks a transfer and reads it as a worker does for a step.
func (s *Service) lockTransfer(ctx context.Context, tx pg.Tx, now time.Time, merchantTxRef string) (*claimed, error) {
	id, made, err := lock(ctx, tx, now, merchantTxRef)
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, tx, now, id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	found[0].itemMade = made
	return found[0], nil
}
