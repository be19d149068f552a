package reconcile

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"ajo/internal/payment"
	"ajo/internal/provider"
)

// readMisdirected asks about the misdirected payments of a slice that the list lacks.
func (r *comparison) readMisdirected(ctx context.Context, s *slice) error {
	for after := uuid.Nil; ; {
		found, err := r.payments.MisdirectedBetween(ctx, s.from, s.to, after, maxWaiting)
		if err != nil {
			return err
		}
		for _, m := range found {
			after = m.EventID
			if err := r.readStray(ctx, s, m); err != nil {
				return err
			}
		}
		if len(found) < maxWaiting {
			return nil
		}
	}
}

func (r *comparison) readStray(ctx context.Context, s *slice, k payment.Known) error {
	of := subject{aboutPayment, k.TxnRef}
	switch {
	case r.isKept(k.TxnRef, (*slice).ids) || r.judged(of):
		return nil
	case r.clock.Now().Sub(k.ReceivedAt) < r.minAge:
		r.part.Young++
		s.young = true
		return nil
	case !r.mayAsk("absent"):
		r.leave(of, ofStray(k, unasked))
		return nil
	}
	t, err := r.askTransaction(ctx, k.TxnRef)
	switch {
	case errors.Is(err, provider.ErrUnknown):
		r.lostStray(k)
	case err != nil:
		x := ofStray(k, "")
		x.Kind = Unreadable
		if err := r.unclear(ctx, of, x, err); err != nil {
			return err
		}
	default:
		r.judge(t, k)
	}
	return r.extend(ctx)
}

// lostStray flags a misdirected payment that the bank does not know.
func (r *comparison) lostStray(k payment.Known) {
	x := ofStray(k, unknownByID)
	r.unsettled(item{subject: subject{aboutPayment, k.TxnRef}, exception: &x, effect: k.Fee.Sub(k.Amount), since: k.OccurredAt})
}

// ofStray is an exception about a misdirected payment that the bank's list lacks.
func ofStray(k payment.Known, why string) Exception {
	return Exception{
		Kind: UnknownAtBank, ProviderTxnRef: k.TxnRef, EventID: &k.EventID, BooksAmount: &k.Amount, BooksFee: &k.Fee, Detail: why + ", and it is in suspense, misdirected",
	}
}
