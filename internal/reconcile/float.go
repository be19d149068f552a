package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/payment"
)

// The reasons for which the float cannot be compared.
const (
	whyNoEvent    = "no event with the wallet's balance has come yet"
	whySameSecond = "several events bear the newest event's time, and its second is the finest there is"
	whyReversed   = "entries were reversed after the newest event, and when the wallet gave the money back is not known"
	whyUnderWay   = "payouts were under way: the wallet may have paid them or not"
)

// newestEvents is how many of the events received last are looked at for the newest balance: they
// come out of order.
const newestEvents = 100

// walletAt is the wallet's balance at a moment.
type walletAt struct {
	event   uuid.UUID
	at      time.Time
	balance money.Amount
}

// compareFloat compares the wallet's balance with the books as of the newest event that carries it.
// What cannot be said is not guessed: the report then says why.
func (r *comparison) compareFloat(ctx context.Context) error {
	w, err := r.newestWallet(ctx)
	if err != nil || w.at.IsZero() {
		r.report.Float.Why = whyNoEvent
		return err
	}
	b, err := r.booksAt(ctx, w.at)
	if err != nil {
		return err
	}
	fees, err := r.payoutFees(ctx, w.at)
	if err != nil {
		return err
	}
	customers := b.balances.Sub(b.later).Add(b.unsent)
	difference := w.balance.Sub(customers).Sub(b.system).Sub(b.outside)
	explained, sum, err := r.explain(ctx, w.at, fees)
	if err != nil {
		return err
	}
	signed := func(a money.Amount) *Signed { return &Signed{a} }
	r.report.Float = Float{
		At: &w.at, EventID: &w.event, Wallet: signed(w.balance), Customers: signed(customers), System: signed(b.system), Outside: signed(b.outside),
		UnderWay: signed(b.underWay), Difference: signed(difference), Explained: explained, Unexplained: signed(difference.Sub(sum)),
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

// explain lists what the wallet had more or less than the books at a moment, and why: by what this
// run and those before it have left open.
func (r *comparison) explain(ctx context.Context, at time.Time, fees money.Amount) (list []Explanation, sum money.Amount, err error) {
	add := func(what, ref string, amount money.Amount) {
		sum = sum.Add(amount)
		if len(list) < maxExceptions {
			list = append(list, Explanation{What: what, Ref: payment.Clean(ref), Amount: Signed{amount}})
		}
	}
	sum = money.Zero
	if fees.Sign() != 0 {
		add("the bank's charges for payouts", "", fees.Neg())
	}
	rows, err := r.pool.Query(ctx, `
		SELECT ref, exception, effect FROM reconcile_items WHERE effect <> 0 AND (since IS NULL OR since <= $1) ORDER BY kind, ref`, at)
	if err != nil {
		return nil, sum, err
	}
	var ref string
	var x *Exception
	var effect money.Amount
	_, err = pgx.ForEachRow(rows, []any{&ref, &x, &effect}, func() error {
		what := "the bank's record is ahead of the books"
		if x != nil {
			what = string(x.Kind) + ": " + x.Detail
		}
		add(what, ref, effect)
		x = nil
		return nil
	})
	return list, sum, err
}

// payoutFees adds up what the bank has kept for the payouts that had left by a moment. No entry has
// it.
func (r *comparison) payoutFees(ctx context.Context, at time.Time) (money.Amount, error) {
	sum, after := money.Zero, uuid.Nil
	for {
		var n int
		var part money.Amount
		var last *uuid.UUID
		err := r.pool.QueryRow(ctx, `
			SELECT count(*), coalesce(sum(fee), 0), (array_agg(id ORDER BY id DESC))[1]
			FROM (SELECT id, CASE WHEN status = 'success' AND submitted_at <= $2 THEN provider_fee END AS fee
				FROM transfers WHERE id > $1 ORDER BY id LIMIT $3) t`, after, at, r.sliceRecords).Scan(&n, &part, &last)
		if err != nil {
			return sum, err
		}
		sum = sum.Add(part)
		if n < r.sliceRecords {
			return sum, nil
		}
		after = *last
		if err := r.extend(ctx); err != nil {
			return sum, err
		}
	}
}

// newestWallet finds the newest event, by the bank's time, that carries the wallet's balance; zero:
// none has come.
func (r *comparison) newestWallet(ctx context.Context) (newest walletAt, err error) {
	rows, err := r.pool.Query(ctx, `
		SELECT id, occurred_at, body FROM inbound_events
		WHERE authentic AND source = 'webhook' ORDER BY id DESC LIMIT $1`, newestEvents)
	if err != nil {
		return newest, err
	}
	var id uuid.UUID
	var at time.Time
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &body}, func() error {
		if !at.After(newest.at) {
			return nil
		}
		if balance, err := payment.ParseWalletBalance(body); err == nil {
			newest = walletAt{id, at, balance}
		}
		return nil
	})
	return newest, err
}

// booksAt are the sums that lead from today's balances back to a moment. All come from one
// statement.
type booksAt struct {
	balances money.Amount // of all customers, now
	later    money.Amount // in them: credits of payments made after the moment
	unsent   money.Amount // missing in them: payouts that no bank had been asked for by then
	// payouts that the bank had been asked for, and of which it is not known when they left
	underWay   money.Amount
	outside    money.Amount // received by then, and in no balance
	system     money.Amount // on the system accounts: in suspense, less what the platform has spent
	reversals  int          // posted after the moment
	sameSecond int          // events of the moment itself
}

// booksAt reads the sums. Its cost goes with the number of accounts and of what is under way, not
// with the history.
func (r *comparison) booksAt(ctx context.Context, at time.Time) (b booksAt, err error) {
	ended := []string{} // the bank knows the end of these: they are under way in the books only
	for ref, made := range r.ended {
		if !made.After(at) {
			ended = append(ended, ref)
		}
	}
	err = r.pool.QueryRow(ctx, `
		SELECT
			(SELECT coalesce(sum(balance), 0) FROM ledger_balances WHERE tenant_id <> account_id),
			(SELECT coalesce(sum(l.amount), 0) FROM inbound_events e
				JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit' AND l.status IN ('provisional', 'confirmed')
				WHERE e.occurred_at > $1 AND e.status = 'processed'),
			(SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)), 0) FROM work w JOIN transfers t ON t.id = w.id
				WHERE w.kind = 'settle' AND t.status IN ('pending', 'processing', 'success')
					AND (t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $1))),
			(SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)), 0) FROM work w JOIN transfers t ON t.id = w.id
				WHERE w.kind = 'settle' AND NOT (t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $1))
					AND (t.status = 'processing' OR t.updated_at > $1) AND NOT t.merchant_tx_ref = ANY($2)),
			(SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e
				WHERE e.unposted AND NOT e.misdirected AND e.event_type = 'payment_success' AND e.occurred_at <= $1 AND e.currency = 'NGN'
					AND e.look_alike_of IS NULL)
			+ (SELECT coalesce(sum(e.amount - e.fee), 0) FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id])
				WHERE w.kind = 'ingest' AND e.occurred_at <= $1 AND e.currency = 'NGN')
			+ (SELECT coalesce(sum(l.amount), 0) FROM ledger_entries l JOIN inbound_events e ON e.id = ANY(ARRAY[l.transaction_group_id])
				WHERE l.status = 'needs_review' AND l.review_from_seq IS NOT NULL AND e.occurred_at <= $1),
			-- in suspense but for what was received after the moment
			(SELECT coalesce(sum(d.money_in - d.money_out), 0) FROM ledger_days d WHERE d.tenant_id IN (SELECT id FROM system_accounts))
			- (SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e WHERE e.misdirected AND e.occurred_at > $1),
			(SELECT count(*) FROM ledger_entries WHERE reversal_of IS NOT NULL AND created_at > $1),
			(SELECT count(*) FROM inbound_events WHERE occurred_at = $1 AND authentic AND replaces IS NULL)`, at, ended).
		Scan(&b.balances, &b.later, &b.unsent, &b.underWay, &b.outside, &b.system, &b.reversals, &b.sameSecond)
	return b, err
}
