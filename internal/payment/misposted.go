package payment

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// A payment can be posted to an account that was not paid: by the word of its event, whose
// signature covers neither reference nor number, or by an operator's mistake. Once its credit is
// reversed, [Service.Assign] posts it to the right account, by a replacement.

// paidAs names the first field in which the bank's record disagrees with the entry, but for the
// account.
func (e *Entry) paidAs(t provider.Transaction) string {
	t.AccountNumber, t.AccountRef = e.AccountNumber, ""
	return e.Differs(t)
}

// IsElsewhere reports whether the bank's record has the entry's payment on another account.
func (e *Entry) IsElsewhere(t provider.Transaction) bool {
	return e.Differs(t) != "" && e.paidAs(t) == ""
}

// findMisposted reads the reversed credit of a payment of which no other event counts and nothing
// was refunded. [ErrNotMisdirected] for any other payment, or [ErrRefunding].
func findMisposted(ctx context.Context, q pg.Querier, eventID uuid.UUID) (*Entry, error) {
	was, err := findReversed(ctx, q, eventID)
	switch {
	case errors.Is(err, ErrNotReversed), errors.Is(err, ErrCounts), errors.Is(err, ErrReplaced):
		return nil, ErrNotMisdirected
	case err != nil:
		return nil, err
	}
	var back bool
	err = q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM ledger_entries l JOIN transfers t ON t.refund_of = ANY(payment_entries(l))
			WHERE l.transaction_group_id = $1 AND l.direction = 'credit' AND l.reversal_of IS NULL AND t.status NOT IN ('failed', 'refunded'))`, eventID).Scan(&back)
	if err == nil && back {
		err = ErrRefunding
	}
	return was, err
}

// mispostedRecord asks the bank for its record of a payment whose credit is reversed, which must
// say success of the same payment, on whichever account. nil: the event is misdirected.
// [ErrNotMisdirected], [ErrRefunding], and the refusals of [Service.PlanRestore].
func (s *Service) mispostedRecord(ctx context.Context, e InboundEvent) (*provider.Transaction, error) {
	if e.Category == CategoryMisdirected {
		return nil, nil
	}
	was, err := findMisposted(ctx, s.Pool, e.ID)
	if err != nil {
		return nil, err
	}
	t, err := s.successRecord(ctx, was.TxnRef)
	if d := was.paidAs(t); err == nil && d != "" {
		err = errs.New(errs.Unprocessable, "the bank's record differs: "+d)
	}
	return &t, err
}

// assignMisposted posts a payment again, whose event is locked and whose credit is reversed, to the
// named account. Like any payment, it is confirmed before it can be paid out.
func (s *Service) assignMisposted(ctx context.Context, tx pg.Tx, now time.Time, eventID uuid.UUID, to Destination, record *provider.Transaction) (*posting, error) {
	was, err := findMisposted(ctx, tx, eventID)
	if err != nil {
		return nil, err
	}
	id, err := to.find(ctx, tx)
	if err != nil {
		return nil, err
	}
	target, err := targetOf(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	return s.postReplacement(ctx, tx, now, eventID, typeAssigned, Correction{was.Amount, was.Fee}, target, record)
}

// ownBeforeSQL walks back from the payment of an event ($1), in whose place another one is posted,
// to the newest that is of a tenant ($2): that one, or one before it, where others lie between that
// an operator had posted to another tenant by mistake.
const ownBeforeSQL = `
	WITH RECURSIVE b AS (
		SELECT id, tenant_id, replaces FROM inbound_events WHERE id = ANY(ARRAY[$1::uuid])
		UNION ALL SELECT o.id, o.tenant_id, o.replaces FROM b JOIN inbound_events o ON o.id = ANY(ARRAY[b.replaces]) WHERE b.tenant_id <> $2)
	SELECT id FROM b WHERE tenant_id = $2`

// ownBefore is the payment that a tenant is told is replaced, where the given one is; nil: none of
// its own.
func ownBefore(ctx context.Context, q pg.Querier, replaced, tenant uuid.UUID) (*uuid.UUID, error) {
	return pg.One(ctx, q, pgx.RowTo[*uuid.UUID], nil, ownBeforeSQL, replaced, tenant)
}

// other is the posting's event if that is another one than the given; nil: it is that one.
func (e *posting) other(eventID uuid.UUID) *uuid.UUID {
	if e.ID == eventID {
		return nil
	}
	return &e.ID
}

// assignMisdirected posts a misdirected payment, whose event is locked, to the named account.
func (s *Service) assignMisdirected(ctx context.Context, tx pg.Tx, now time.Time, e *posting, to Destination) error {
	if err := refunding(ctx, tx, e.ID); err != nil {
		return err
	}
	if err := e.assignTo(ctx, tx, to); err != nil {
		return err
	}
	if err := e.endOneTime(ctx, tx, now); err != nil {
		return err
	}
	if err := s.recordPosted(ctx, tx, now, []*posting{e}); err != nil {
		return err
	}
	return s.writeCredits(ctx, tx, now, []*posting{e}, suspended(ledger.Debit, []*posting{e}))
}
