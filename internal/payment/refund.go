package payment

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// ErrRefunding refuses to assign a misdirected payment that is being refunded.
var ErrRefunding = errs.New(errs.Unprocessable, "the payment was paid back to its sender, or is on its way")

// ErrTakenBack refuses to refund a payment that the bank says it has taken back.
var ErrTakenBack = errs.New(errs.Unprocessable, "the bank's event says that it took the payment back, and its record may lag: ask the bank first; if you assign the payment, a recall is opened")

// Returnable is a misdirected payment that can be refunded.
type Returnable struct {
	Event  InboundEvent
	Record provider.Transaction // the bank's own, which names the sender
	Left   money.Amount         // net: what was not paid back, and is not on its way
}

// PlanReturn asks the bank for its record of a misdirected payment, which names the sender to
// refund, and changes nothing. For operators. [ErrEventNotFound]; [ErrNotMisdirected];
// [ErrNotAtBank]; [ErrRefunding]; [ErrTakenBack]; and a refusal that says what is wrong with the
// bank's record.
func (s *Service) PlanReturn(ctx context.Context, eventID uuid.UUID) (p Returnable, err error) {
	if p.Event, err = s.InboundEvent(ctx, eventID); err != nil {
		return p, err
	}
	if p.Event.Category != CategoryMisdirected {
		return p, ErrNotMisdirected
	}
	back, err := paidBack(ctx, s.Pool, eventID)
	if err != nil {
		return p, err
	}
	if p.Left = p.Event.Amount.Sub(*p.Event.Fee).Sub(back); !p.Left.IsPositive() {
		return p, ErrRefunding
	}
	if err := takenBack(ctx, s.Pool, eventID); err != nil {
		return p, err
	}
	if p.Record, err = s.successRecord(ctx, p.Event.ProviderTxnRef); err != nil {
		return p, err
	}
	if r, e := p.Record, p.Event; !r.Amount.Equal(*e.Amount) || !r.Fee.Equal(*e.Fee) || r.Currency != e.Currency {
		return p, errs.New(errs.Unprocessable, fmt.Sprintf("the bank's record differs: %s %s with a fee of %s", r.Currency, r.Amount, r.Fee))
	}
	sender := senderOf(p.Record)
	p.Record.SenderName, p.Record.SenderAccount, p.Record.SenderBank, p.Record.SenderBankCode = sender.Name, sender.AccountNumber, sender.BankName, sender.BankCode
	return p, nil
}

// LockMisdirected locks a misdirected event that is to be refunded, so that it is not assigned
// meanwhile. [ErrEventNotFound], [ErrNotMisdirected], [ErrTakenBack].
func LockMisdirected(ctx context.Context, tx pg.Tx, eventID uuid.UUID) error {
	if _, err := lockForPosting(ctx, tx, eventID); err != nil {
		return err
	}
	return takenBack(ctx, tx, eventID)
}

// takenBack is [ErrTakenBack] for an event whose payment_reversal is stored.
func takenBack(ctx context.Context, q pg.Querier, eventID uuid.UUID) error {
	var is bool
	err := q.QueryRow(ctx, `SELECT `+reversalStored+` FROM inbound_events e WHERE e.id = $1`, eventID).Scan(&is)
	if err == nil && is {
		err = ErrTakenBack
	}
	return err
}

// refunding returns [ErrRefunding] for a misdirected payment of which some is paid back, or on its
// way. The caller has locked the event.
func refunding(ctx context.Context, q pg.Querier, eventID uuid.UUID) error {
	back, err := paidBack(ctx, q, eventID)
	if err == nil && back.IsPositive() {
		err = ErrRefunding
	}
	return err
}

// paidBack is what of a misdirected payment is paid back to its sender, or on its way.
func paidBack(ctx context.Context, q pg.Querier, eventID uuid.UUID) (sum money.Amount, err error) {
	err = q.QueryRow(ctx, `
		SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)), 0) FROM ledger_entries e JOIN transfers t ON t.refund_of = e.id
		WHERE e.transaction_group_id = $1 AND e.direction = 'credit' AND t.status NOT IN ('failed', 'refunded')`,
		ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, eventID)).Scan(&sum)
	return sum, err
}
