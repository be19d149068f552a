package payment

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
)

// The reasons for which the float cannot be compared.
const (
	whyNoEvent    = "no event with the wallet's balance has come yet"
	whySameSecond = "several events bear the newest event's time, and its second is the finest there is"
	whyReversed   = "entries were reversed after the newest event, and when the wallet gave the money back is not known"
	whyUnderWay   = "payouts were under way: the wallet may have paid them or not"
)

// newestEvents is how many of the events received last are looked at for the newest balance: they come out of order.
const newestEvents = 100

// walletAt is the wallet's balance at a moment.
type walletAt struct {
	event   uuid.UUID
	at      time.Time
	balance money.Amount
}

// compareFloat compares the wallet's balance with the books as of the newest event that carries it. What cannot be said is
// not guessed: the report then says why.
func (r *run) compareFloat(ctx context.Context) error {
	w, why, err := r.wallet(ctx)
	if err != nil || why != "" {
		r.report.Float.Why = why
		return err
	}
	b, err := r.booksAt(ctx, w.at)
	if err != nil {
		return err
	}
	customers := b.balances.Sub(b.later).Add(b.unsent)
	signed := func(a money.Amount) *Signed { return &Signed{a} }
	r.report.Float = Float{
		At: &w.at, EventID: &w.event, Wallet: signed(w.balance), Customers: signed(customers), Outside: signed(b.outside),
		UnderWay: signed(b.underWay), Difference: signed(w.balance.Sub(customers).Sub(b.outside)),
	}
	switch {
	case b.sameSecond > 1:
		r.report.Float.Why = whySameSecond
	case b.reversals > 0:
		r.report.Float.Why = whyReversed
	case b.underWay.Sign() != 0:
		r.report.Float.Why = whyUnderWay
	default:
		r.report.Float.Comparable = true
	}
	return nil
}

// wallet finds the newest event, by the bank's time, that carries the wallet's balance.
func (r *run) wallet(ctx context.Context) (newest walletAt, why string, err error) {
	rows, err := r.Pool.Query(ctx, `
		SELECT id, occurred_at, body FROM inbound_events
		WHERE authentic AND source = $1 AND occurred_at IS NOT NULL ORDER BY id DESC LIMIT $2`, sourceWebhook, newestEvents)
	if err != nil {
		return newest, "", err
	}
	var id uuid.UUID
	var at time.Time
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &body}, func() error {
		if !at.After(newest.at) {
			return nil
		}
		if v, err := parseValues(body); err == nil {
			if balance, err := v.amount(walletBalance); err == nil {
				newest = walletAt{id, at, balance}
			}
		}
		return nil
	})
	if newest.at.IsZero() {
		why = whyNoEvent
	}
	return newest, why, err
}

// booksAt are the sums that lead from today's balances back to a moment. All come from one statement.
type booksAt struct {
	balances   money.Amount // of all customers, now
	later      money.Amount // in them: credits of payments made after the moment
	unsent     money.Amount // missing in them: payouts that no bank had been asked for by then
	underWay   money.Amount // payouts that the bank had been asked for, and of which it is not known when they left
	outside    money.Amount // received by then, and in no balance
	reversals  int          // posted after the moment
	sameSecond int          // events of the moment itself
}

// booksAt reads the sums. Its cost goes with the number of accounts and of what is under way, not with the history.
func (r *run) booksAt(ctx context.Context, at time.Time) (b booksAt, err error) {
	err = r.Pool.QueryRow(ctx, `
		SELECT
			(SELECT coalesce(sum(balance), 0) FROM ledger_balances),
			(SELECT coalesce(sum(l.amount), 0) FROM inbound_events e
				JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit' AND l.status IN ('provisional', 'confirmed')
				WHERE e.occurred_at > $1 AND e.status = 'processed'),
			(SELECT coalesce(sum(t.amount), 0) FROM transfers t
				WHERE t.next_attempt_at IS NOT NULL AND t.status IN ('pending', 'processing', 'success')
					AND (t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $1))),
			(SELECT coalesce(sum(t.amount), 0) FROM transfers t
				WHERE t.next_attempt_at IS NOT NULL AND NOT (t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $1))
					AND (t.status = 'processing' OR t.updated_at > $1)),
			(SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e
				WHERE e.authentic AND e.status = 'failed' AND e.event_type = $2 AND e.occurred_at <= $1 AND e.currency = 'NGN')
			+ (SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e
				WHERE e.next_attempt_at IS NOT NULL AND e.status = 'received' AND e.occurred_at <= $1 AND e.currency = 'NGN')
			+ (SELECT coalesce(sum(l.amount), 0) FROM ledger_entries l JOIN inbound_events e ON e.id = l.transaction_group_id
				WHERE l.status = 'needs_review' AND l.held_seq IS NOT NULL AND e.occurred_at <= $1),
			(SELECT count(*) FROM ledger_entries WHERE reversal_of IS NOT NULL AND created_at > $1),
			(SELECT count(*) FROM inbound_events WHERE occurred_at = $1 AND authentic)`, at, typePayment).
		Scan(&b.balances, &b.later, &b.unsent, &b.underWay, &b.outside, &b.reversals, &b.sameSecond)
	return b, err
}
