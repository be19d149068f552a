package reconcile

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/payment"
	"ajo/ledger"
)

// reversed is a payment that is reversed in the books, although the bank's list says that it
// succeeded, with the same money and to the same account.
type reversed struct {
	payment.Entry
	item item // what is reported if it is not restored
}

// restoreReversed posts such payments again, as `ajo review restore` does. The list alone is not
// believed: the bank is asked for each by its id. Payments that a person decided, that the bank
// took back, or that were restored before wait for a person.
func (r *comparison) restoreReversed(ctx context.Context) error {
	for _, w := range r.moved {
		if !r.mayAsk("reversed") {
			r.unsettled(w.item)
			continue
		}
		if err := r.restore(ctx, w); err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	r.moved = nil
	return nil
}

func (r *comparison) restore(ctx context.Context, w reversed) error {
	record, err := r.askTransaction(ctx, w.TxnRef)
	if err != nil {
		r.unsettled(w.item)
		return ctx.Err()
	}
	out, err := r.payments.RestoreListed(ctx, w.ID, record, audit.By{
		Actor: "reconciliation", Reason: "run " + r.report.ID.String() + ": the bank's list and its record say success",
	})
	switch {
	case errors.Is(err, payment.ErrCounts), errors.Is(err, payment.ErrReplaced), errors.Is(err, payment.ErrNotReversed):
		r.settle(aboutPayment, w.TxnRef) // another run or an operator was quicker
	case errs.As(err) != nil:
		r.unsettled(w.item)
	case err != nil:
		return err
	default:
		x := ofEntry(&w.Entry, Healed, "it was reversed, and the bank's record says success: it is posted again").withBank(record)
		x.EventID, x.EntryStatus = &out.Replacement, ledger.Provisional
		r.part.except(x)
		r.settle(aboutPayment, w.TxnRef)
	}
	return nil
}

// takeUp marks a transfer as in progress that the books have as never submitted but that the bank
// has: its submission was lost, for example with a database. It is also flagged, and agrees in the
// next run.
func (r *comparison) takeUp(ctx context.Context, ref string) error {
	if !r.mayAsk("pending") {
		return nil
	}
	err := r.transfers.Adopt(ctx, ref, uuid.Nil, audit.By{Actor: "reconciliation", Reason: "run " + r.report.ID.String() + ": the bank has it"})
	if errs.As(err) != nil {
		err = ctx.Err() // it has moved on, or the bank gave no answer: the next run will see
	}
	return err
}
