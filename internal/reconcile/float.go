package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/compact"
	"ajo/internal/money"
	"ajo/internal/partition"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

// The reasons why the float cannot be compared.
const (
	whyNoEvent    = "no event with the wallet's balance has come yet"
	whyArchived   = "no event that is here has the wallet's balance: those that had it may be in the archive"
	whySameSecond = "several events bear the newest event's time, and its second is the finest there is"
	whyReversed   = "entries were reversed after the newest event, and when the wallet gave the money back is not known"
	whyUnderWay   = "payouts were under way: the wallet may have paid them or not"
	whyTooLong    = "the books of the newest event's time could not be summed up in time"
)

// floatTime is how long the books may take to be summed up: all balances, and all that was received
// since the newest event, which may be weeks old.
const floatTime = time.Minute

// queryCanceled is the SQLSTATE of a statement that took too long.
const queryCanceled = "57014"

// newestEvents is how many of the events received last are searched for the newest balance, since
// they come out of order.
const newestEvents = 100

// walletAt is the wallet's balance at a moment.
type walletAt struct {
	event    uuid.UUID
	at       time.Time // by the bank's clock
	received time.Time // by ours: when its event came
	balance  money.Amount
}

// between returns the time in which the moment was, by our clock: the two differ by how late the
// event came, and by as much as the bank's clock differs from ours.
func (w *walletAt) between() (from, to time.Time) {
	if w.received.Before(w.at) {
		return w.received, w.at
	}
	return w.at, w.received
}

// compareFloat compares the wallet's balance with the books as of the newest event that carries it.
// It does not guess: if there is no comparison, the report says why. A float that cannot be summed
// up in time fails no run: the same run would be repeated, and no later window read.
func (r *comparison) compareFloat(ctx context.Context) error {
	w, err := r.newestWallet(ctx)
	if err != nil {
		return err
	}
	if w.at.IsZero() {
		archived, err := partition.ArchivedBefore(ctx, r.pool, "event_bodies")
		r.report.Float.Why = whyNoEvent
		if archived != nil {
			r.report.Float.Why = whyArchived
		}
		return err
	}
	b, err := r.booksAt(ctx, w)
	if pg.Code(err) == queryCanceled && ctx.Err() == nil {
		r.report.Float.Why = whyTooLong
		return nil
	}
	if err != nil {
		return err
	}
	customers := b.balances.Sub(b.later).Add(b.unsent)
	system := b.suspense.Add(b.revenue).Add(b.fees).Add(b.taxes)
	difference := w.balance.Sub(customers).Sub(system).Sub(b.outside)
	explained, sum, err := r.explain(ctx, w.at)
	if err != nil {
		return err
	}
	signed := func(a money.Amount) *Signed { return &Signed{a} }
	r.report.Float = Float{
		At: &w.at, EventID: &w.event, Wallet: signed(w.balance), Customers: signed(customers), System: signed(system), Outside: signed(b.outside),
		Suspense: signed(b.suspense), Revenue: signed(b.revenue), BankFees: signed(b.fees), Taxes: signed(b.taxes),
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

// explain lists by how much the wallet differed from the books at a moment, and why, from what this
// run and earlier ones have left open. A payout whose fee no record names has a line too, without a
// sum. What is beyond 1,000 lines has one together.
func (r *comparison) explain(ctx context.Context, at time.Time) (list []Explanation, sum money.Amount, err error) {
	sum = money.Zero
	others, rest := 0, money.Zero // what has no line of its own
	add := func(what, ref string, amount money.Amount) {
		sum = sum.Add(amount)
		if len(list) < maxExceptions {
			list = append(list, Explanation{What: what, Ref: payment.Clean(ref), Amount: Signed{amount}})
			return
		}
		others, rest = others+1, rest.Add(amount)
	}
	rows := pg.Rows(ctx, r.pool, `
		SELECT ref, exception, effect FROM reconcile_items
		WHERE (effect <> 0 OR exception ->> 'kind' = $2) AND (since IS NULL OR since <= $1) ORDER BY kind, ref`, at, string(PayoutFeeUnknown))
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
	if others > 0 {
		list = append(list, Explanation{What: fmt.Sprintf("%d others", others), Amount: Signed{rest}})
	}
	return list, sum, err
}

// newestWallet finds the newest event, by the bank's time, that carries the wallet's balance; zero:
// none has come, or what had it is archived.
func (r *comparison) newestWallet(ctx context.Context) (newest walletAt, err error) {
	rows := pg.Rows(ctx, r.pool, `
		SELECT e.id, e.occurred_at, e.received_at, b.body
		FROM (SELECT id, occurred_at, received_at FROM inbound_events WHERE authentic AND source = 'webhook' ORDER BY id DESC LIMIT $1) e
		JOIN event_bodies b ON b.event_id = ANY(ARRAY[e.id])
		ORDER BY e.id DESC`, newestEvents)
	var id uuid.UUID
	var at, received time.Time
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &received, &body}, func() error {
		if !at.After(newest.at) {
			return nil
		}
		if body, err = compact.FullEvent(body); err != nil {
			return err
		}
		if balance, err := payment.ParseWalletBalance(body); err == nil {
			newest = walletAt{id, at, received, balance}
		}
		return nil
	})
	return newest, err
}

// booksAt are the sums that lead from today's balances back to a moment. All come from one
// statement.
type booksAt struct {
	balances money.Amount // of all customers, now
	later    money.Amount // included in them: credits of payments made after the moment
	unsent   money.Amount // missing from them: payouts that had not been submitted by then
	// payouts that had been submitted, or may have been, and may or may not have left by then
	underWay money.Amount
	outside  money.Amount // received by then, and in no balance
	// the system accounts' balances
	suspense, revenue, fees, taxes money.Amount
	reversals                      int // posted after the moment
	sameSecond                     int // events of the moment itself
}

// booksSQL reads the sums as of $1, which is by our clock from $3 to $4, without the payouts $2.
const booksSQL = `
		WITH payouts AS MATERIALIZED (
			SELECT t.* FROM work w JOIN transfers t ON t.id = w.id WHERE w.kind = 'settle'
			UNION ALL
			SELECT t.* FROM transfers t WHERE t.submitted_at > $3 AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'settle' AND w.id = t.id))
		SELECT
			(SELECT coalesce(sum(balance), 0) FROM ledger_balances WHERE tenant_id <> account_id),
			(SELECT coalesce(sum(l.amount), 0) FROM inbound_events e
				JOIN ledger_entries l ON l.transaction_group_id = e.id AND l.direction = 'credit' AND l.status IN ('provisional', 'confirmed')
				WHERE e.occurred_at > $1 AND e.status = 'processed'),
			u.amount,
			(SELECT coalesce(sum(coalesce(t.paid_amount, t.amount) + coalesce(t.booked_fee, 0) + coalesce(t.booked_taxes, 0)), 0) FROM payouts t
				WHERE NOT (t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $4))
					AND (t.status = 'processing' OR t.updated_at > $1 OR t.submitted_at > $3) AND NOT t.merchant_tx_ref = ANY($2)),
			(SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e
				WHERE e.unposted AND NOT e.misdirected AND e.event_type = 'payment_success' AND e.occurred_at <= $1 AND e.currency = 'NGN'
					AND e.look_alike_of IS NULL)
			+ (SELECT coalesce(sum(e.amount - e.fee), 0) FROM work w JOIN inbound_events e ON e.id = ANY(ARRAY[w.id])
				WHERE w.kind = 'ingest' AND e.occurred_at <= $1 AND e.currency = 'NGN')
			+ (SELECT coalesce(sum(l.amount), 0) FROM ledger_entries l JOIN inbound_events e ON e.id = ANY(ARRAY[l.transaction_group_id])
				WHERE l.status = 'needs_review' AND l.review_from_seq IS NOT NULL AND l.review_to_seq IS NULL AND e.occurred_at <= $1),
			-- without what was received after the moment
			coalesce(s.suspense, 0) - (SELECT coalesce(sum(e.amount - e.fee), 0) FROM inbound_events e WHERE e.misdirected AND e.occurred_at > $1),
			coalesce(s.revenue, 0), coalesce(s.fees, 0) + u.fees, coalesce(s.taxes, 0) + u.taxes,
			(SELECT count(*) FROM ledger_entries WHERE reversal_of IS NOT NULL AND created_at > $1),
			(SELECT count(*) FROM inbound_events WHERE occurred_at = $1 AND authentic AND replaces IS NULL)
		FROM (SELECT coalesce(sum(coalesce(t.paid_amount, t.amount)) FILTER (WHERE t.status IN ('pending', 'processing', 'success')), 0) AS amount,
				coalesce(sum(t.booked_fee), 0) AS fees, coalesce(sum(t.booked_taxes), 0) AS taxes
				FROM payouts t
				WHERE t.attempt_count = 0 OR (t.attempt_count = 1 AND t.submitted_at > $4)) u,
			(SELECT sum(d.money_in - d.money_out) FILTER (WHERE s.name = 'suspense') AS suspense,
				sum(d.money_in - d.money_out) FILTER (WHERE s.name = 'platform_revenue') AS revenue,
				sum(d.money_in - d.money_out) FILTER (WHERE s.name = 'bank_fees') AS fees,
				sum(d.money_in - d.money_out) FILTER (WHERE s.name = 'taxes') AS taxes
				FROM system_accounts s JOIN ledger_days d ON d.tenant_id = s.id) s`

// booksAt reads the sums. Its cost grows with the number of accounts, of payments in progress and
// of payouts since the moment, not with the history. A payout has an item of work until about a day
// after its end, and the newest event may be older than that.
func (r *comparison) booksAt(ctx context.Context, w walletAt) (b booksAt, err error) {
	from, to := w.between()
	ended := []string{} // the bank knows how these ended: they are in progress only in the books
	for ref, made := range r.ended {
		if !made.After(w.at) {
			ended = append(ended, ref)
		}
	}
	err = pg.Snapshot(ctx, r.pool, func(tx pg.Tx) error {
		if err := pg.SetTimeout(ctx, tx, r.floatTime); err != nil {
			return err
		}
		return tx.QueryRow(ctx, booksSQL, w.at, ended, from, to).
			Scan(&b.balances, &b.later, &b.unsent, &b.underWay, &b.outside, &b.suspense, &b.revenue, &b.fees, &b.taxes, &b.reversals, &b.sameSecond)
	})
	return b, err
}

// chargesOf returns the charges that the record names in addition to the amount.
func chargesOf(p provider.Payout) money.Amount {
	return money.Sum(p.Fee, p.VAT, p.StampDuty)
}

func feeOf(p provider.Payout) money.Amount {
	if p.Fee == nil {
		return money.Zero
	}
	return *p.Fee
}
