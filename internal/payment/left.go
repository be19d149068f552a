package payment

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// leftSQL reads, of the payment that an event has brought, by whichever credit: what has left by
// its refunds, what was released of the holds of its account's policy, and whether that was the end
// of the last one (of credits of the same sum), or the policy accepted it. A refund takes its sum
// and, at most as expected, its fee. A refund by policy that has left as a whole takes all that was
// held (package transfer, policy.go).
const leftSQL = `
	SELECT coalesce((
			SELECT sum(CASE WHEN t.by_policy AND r.gone >= t.amount THEN t.amount + r.reserved
				ELSE r.gone + least(r.reserved, coalesce(t.reserved_fee, 0) + coalesce(t.tenant_fee, 0) + coalesce(t.tenant_taxes, 0)) END)
			FROM transfers t CROSS JOIN LATERAL (
				SELECT CASE WHEN t.status IN ('failed', 'refunded') THEN 0 ELSE coalesce(t.paid_amount, t.amount) END AS gone,
					coalesce((SELECT f.amount FROM ledger_entries f WHERE f.transaction_group_id = event_key('fee::' || t.id) AND f.reversal_of IS NULL), 0) AS reserved) r
			WHERE t.refund_of = ANY(p.entries)), 0),
		coalesce(sum(h.amount) FILTER (WHERE h.released), 0), coalesce((array_agg(h.released ORDER BY h.id DESC))[1], false)
			OR (SELECT e.policy IS NULL FROM inbound_events e WHERE e.id = $1), (SELECT e.amount = $2 FROM inbound_events e WHERE e.id = $1)
	FROM (SELECT l.amount, payment_entries(l) AS entries FROM ledger_entries l
		WHERE l.transaction_group_id = $1 AND l.direction = 'credit' AND l.reversal_of IS NULL) p
	LEFT JOIN LATERAL (
		SELECT h.id, h.amount, h.status = 'released' AND NOT h.left_with AS released
		FROM ledger_entries l JOIN holds h ON h.entry_id = ANY(ARRAY[l.id]) AND h.source IN ('policy', 'refund')
		WHERE l.id = ANY(p.entries) AND l.amount = p.amount) h ON true
	GROUP BY p.entries`

// left is what leftSQL reads.
type left struct {
	gone, released money.Amount
	all, sameGross bool
}

// readLeft reads what is left of the payment that an event has brought, and that is posted again
// with an amount. A part that was released stays so if the payment is posted again as it was.
func readLeft(ctx context.Context, q pg.Querier, was uuid.UUID, amount *money.Amount, same bool) (left, error) {
	var l left
	err := q.QueryRow(ctx, leftSQL, was, amount).Scan(&l.gone, &l.released, &l.all, &l.sameGross)
	if l.all || !same {
		l.released = money.Zero
	}
	return l, err
}

// readLeft reads what is left of the payment that an event has brought, and that e posts again.
// What was accepted or released stays so if the payer's sum is the same, which is all that a policy
// judges: the account may expect another one by now. Of what a policy has held, and nothing is left
// of, the events say that it went back, whatever the policy says by now. The account's balance is
// locked, so that no refund of the payment ends before this is posted.
func (e *posting) readLeft(ctx context.Context, tx pg.Tx, now time.Time, was uuid.UUID, same bool) error {
	if err := ledger.LockBalances(ctx, tx, []uuid.UUID{e.target.ID}); err != nil {
		return err
	}
	l, err := readLeft(ctx, tx, was, e.Amount, same)
	if err != nil {
		return err
	}
	e.gone, e.released = l.gone, l.released
	switch {
	case l.all && l.sameGross:
		e.action, e.result.Policy = account.Accept, nil
	case !l.all:
		prices, err := readPrices(ctx, tx, now, []*posting{e})
		if err != nil {
			return err
		}
		kept := e.Amount.Sub(*e.Fee)
		if p, ok := prices[e.target.TenantID]; ok {
			kept = kept.Sub(p.ChargeWithin(*e.Amount, kept.Left(e.gone)).Whole())
		}
		if !kept.Left(e.gone.Add(e.released)).IsPositive() {
			e.result.Policy = new(string(account.Refund))
		}
	}
	return nil
}

// goneBefore reads what a limit does not hold of a payment that returns from a review, as it did
// not when this was posted: what had left of it, or was released, when it was posted before. It
// locks the balances that a confirmation locks.
func goneBefore(ctx context.Context, tx pg.Tx, eventID uuid.UUID) (money.Amount, error) {
	var was *uuid.UUID
	var amount *money.Amount
	var same bool
	if err := ledger.LockSplits(ctx, tx, []uuid.UUID{eventID}); err != nil {
		return money.Zero, err
	}
	if err := tx.QueryRow(ctx, `SELECT replaces, amount, event_type LIKE '`+typeRestored+`:%' FROM inbound_events WHERE id = $1`, eventID).
		Scan(&was, &amount, &same); err != nil || was == nil {
		return money.Zero, err
	}
	l, err := readLeft(ctx, tx, *was, amount, same)
	return l.gone.Add(l.released), err
}
