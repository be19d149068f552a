package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Balance is an account's money.
type Balance struct {
	Balance money.Amount
}

// ReadBalance reads an account's balance; its cost does not depend on the account's history.
func ReadBalance(ctx context.Context, q pg.Querier, account uuid.UUID) (Balance, error) {
	var b Balance
	err := q.QueryRow(ctx, `SELECT balance FROM ledger_balances WHERE account_id = $1`, account).Scan(&b.Balance)
	return b, err
}

// Available is what may still leave an account at the time now, as SQL on its row b of
// ledger_balances: the confirmed credits (where provisional, as SQL, is true also the provisional
// ones), less all debits, less what recalls and holds keep. For example, 100.00 confirmed, 80.00
// provisional, a debit of 30.00 and a hold of 20.00 leave 50.00, or 130.00 where provisional is
// true. Money that two of these would subtract, such as a provisional credit that a limit holds, is
// subtracted once. A result below zero means that debits wait for money.
//
// It decides which payouts are covered and whether a hold may be placed, and is what the balance
// endpoint shows as available.
func Available(provisional, now string) string {
	return `(b.balance - coalesce(b.recall_held, 0) + ` + recalledTwice(provisional) + ` - ` + OnHold(now) +
		` - CASE WHEN ` + provisional + ` THEN 0 ELSE b.provisional_credits - coalesce(b.held_provisional, 0) END)`
}

// Kept is, as SQL in the same form as [Available], what recalls and holds keep of an account at the
// time now.
func Kept(now string) string {
	return `(coalesce(b.recall_held, 0) - ` + recalledTwice("true") + ` + ` + OnHold(now) + `)`
}

// recalledTwice is, as SQL, the part of what open recalls hold that [Available] subtracts for
// another reason too: provisional credits, or what a limit holds of a credit. Hardly any account
// has a recall, and the tables are read only for those that do.
func recalledTwice(provisional string) string {
	return `CASE WHEN coalesce(b.recall_held, 0) = 0 THEN 0 ELSE (
			SELECT coalesce(sum(CASE WHEN e.status = 'provisional' AND NOT (` + provisional + `) THEN r.held
				ELSE coalesce((SELECT least(h.amount, r.held) FROM holds h WHERE h.entry_id = ANY(ARRAY[e.id]) AND h.status = 'open'), 0) END), 0)
			FROM recalls r JOIN ledger_entries e ON e.transaction_group_id = ANY(ARRAY[r.event_id]) AND CASE e.direction WHEN 'credit' THEN e.reversal_of IS NULL ELSE false END
			WHERE r.account_id = ANY(ARRAY[b.account_id]) AND r.held > 0) END`
}

// Line is one line of a statement.
type Line struct {
	Entry          Entry        `json:"entry"`
	RunningBalance money.Amount `json:"runningBalance"` // right after the entry was posted
	seq            int64
}

func (l *Line) fields() []any {
	return append(append([]any{&l.seq, &l.RunningBalance}, l.Entry.fields()...), &l.Entry.RefundOf)
}

// Statement is one page of an account's entries, oldest first unless asked otherwise, with the
// totals of its whole history.
type Statement struct {
	Lines          []Line       `json:"lines"`
	OpeningBalance money.Amount `json:"openingBalance"` // before the first entry: 0.00
	// a reversed entry and its reversal are in one total each; one under review is in none
	TotalCredits   money.Amount `json:"totalCredits"`
	TotalDebits    money.Amount `json:"totalDebits"`
	ClosingBalance money.Amount `json:"closingBalance"` // opening + credits − debits: the balance
	// the newest entry's hash in hex, which covers the whole history (chain.go); empty before the
	// first
	ChainHead  string    `json:"chainHead"`
	Pagination page.Info `json:"pagination"`
}

// senderColumns are what an entry e says of the payer.
const senderColumns = `coalesce(e.record_name, e.sender_name), coalesce(e.record_bank, e.sender_bank), coalesce(e.record_account, ''),
			coalesce(e.record_bank_code, ''), coalesce(e.record_session, '')`

// refundOf is the payment that an entry e refunds, by its transfer.
const refundOf = `CASE WHEN e.transfer_ref IS NOT NULL THEN (SELECT t.refund_of FROM transfers t WHERE t.merchant_tx_ref = e.transfer_ref AND t.tenant_id = e.tenant_id) END`

// pageSQL reads a page of a statement, oldest first; newestFirstSQL the same from its end. countSQL
// counts lines without reading their columns.
const (
	totalsRead     = 3 // columns before those of the line
	pageSQL        = pageLinesSQL + ` ORDER BY seq LIMIT $3) e ON true WHERE b.account_id = $1 ORDER BY e.seq`
	newestFirstSQL = pageLinesSQL + ` ORDER BY seq DESC LIMIT $3) e ON true WHERE b.account_id = $1 ORDER BY e.seq DESC`
	pageLinesSQL   = `
		SELECT b.total_credits, b.total_debits, coalesce(encode(b.chain_head, 'hex'), ''), e.seq, e.running_balance, e.id, e.direction, e.amount, e.fee, e.currency, e.status,
			e.narration, e.provider_txn_ref, e.transaction_group_id, e.transfer_ref, e.reversal_of, e.created_at, ` + senderColumns + `, e.kind, ` + refundOf + `
		FROM ledger_balances b
		LEFT JOIN LATERAL (
			SELECT * FROM ledger_entries
			WHERE account_id = b.account_id AND ` + matchSQL
	countSQL = `SELECT FROM ledger_entries WHERE account_id = $1 AND ` + matchSQL + ` ORDER BY seq LIMIT $3`
	matchSQL = `seq > $2 AND seq <= $4 AND created_at >= $5 AND created_at < $6
		AND ($7 = '' OR direction = $7) AND ($8 = '' OR status = $8) AND ($8 <> 'reversed' OR reversed) AND ($8 <> 'needs_review' OR review_from_seq IS NOT NULL)`
)

// linesSQL reads all lines of a statement.
const linesSQL = `
		SELECT e.seq, e.running_balance, e.id, e.direction, e.amount, e.fee, e.currency, e.status, e.narration, e.provider_txn_ref, e.transaction_group_id,
			e.transfer_ref, e.reversal_of, e.created_at, ` + senderColumns + `, e.kind, ` + refundOf + `
		FROM ledger_entries e
		WHERE e.account_id = $1 AND e.seq > $2 AND e.seq <= $4 AND e.created_at >= $5 AND e.created_at < $6
			AND ($7 = '' OR e.direction = $7) AND ($8 = '' OR e.status = $8) AND ($8 <> 'reversed' OR e.reversed) AND ($8 <> 'needs_review' OR e.review_from_seq IS NOT NULL)
		ORDER BY e.seq LIMIT $3`

// ReadStatement reads one page of the lines that the filter lets through. Lines and totals come
// from one statement, and so from one moment. A bad cursor is [page.ErrCursor]; [ErrDirection] and
// [ErrStatus].
func ReadStatement(ctx context.Context, q pg.Querier, account uuid.UUID, f Filter, r page.Request) (Statement, error) {
	after, err := page.ParseSeq(page.Statement, account, r.After)
	if err != nil {
		return Statement{}, err
	}
	if err := f.check(); err != nil {
		return Statement{}, err
	}
	begin, end, err := f.span(ctx, q, account)
	if err != nil {
		return Statement{}, err
	}
	sql := pageSQL
	if f.NewestFirst {
		sql = newestFirstSQL
		if after > 0 {
			end = min(after-1, end)
		}
	} else {
		begin = max(after, begin)
	}
	begin, end, cut, err := f.window(ctx, q, account, begin, end, pg.ScanLimit)
	if err != nil {
		return Statement{}, err
	}
	var s Statement
	lines, err := pg.Collect(ctx, q, func(row pgx.CollectableRow) (l Line, err error) {
		into := l.fields()
		if row.RawValues()[totalsRead] == nil { // the totals of an account without a line
			clear(into)
		}
		err = row.Scan(append([]any{&s.TotalCredits, &s.TotalDebits, &s.ChainHead}, into...)...)
		l.Entry.CreatedAt = l.Entry.CreatedAt.UTC()
		return l, err
	}, sql, account, begin, r.Limit+1, end, f.from(), f.to(), f.Direction, f.Status)
	if err != nil {
		return Statement{}, err
	}
	lines = slices.DeleteFunc(lines, func(l Line) bool { return l.seq == 0 })
	s.ClosingBalance = s.OpeningBalance.Add(s.TotalCredits).Sub(s.TotalDebits)
	s.Lines, s.Pagination = page.Cut(lines, r, func(l Line) string { return page.Seq(page.Statement, account, l.seq) })
	if cut > 0 && !s.Pagination.HasMore {
		next := page.Seq(page.Statement, account, cut)
		s.Pagination.NextCursor, s.Pagination.HasMore = &next, true
	}
	if r.Total {
		s.Pagination.Total, err = f.count(ctx, q, account)
	}
	return s, err
}

// Lines reads all lines that the filter lets through, oldest first, in one statement and so as of
// one moment; nothing is read before the sequence is iterated. If there are more than limit, or the
// filter would look for them among more than [ScanPerLine] times as many, it returns a refusal that
// says so; [ErrDirection] and [ErrStatus].
func Lines(ctx context.Context, q pg.Querier, account uuid.UUID, f Filter, limit int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		if err := eachLine(ctx, q, account, f, limit, func(l Line) bool { return yield(l, nil) }); err != nil {
			yield(Line{}, err)
		}
	}
}

func eachLine(ctx context.Context, q pg.Querier, account uuid.UUID, f Filter, limit int, each func(Line) bool) error {
	if err := f.check(); err != nil {
		return err
	}
	begin, end, err := f.span(ctx, q, account)
	if err != nil {
		return err
	}
	if err := f.bounded(ctx, q, account, begin, end, limit); err != nil {
		return err
	}
	long := errs.New(errs.Unprocessable, fmt.Sprintf("the statement has more than %d lines: narrow it by from and to", limit))
	// Count first: a statement that is too long need not be read to be refused.
	var n int
	err = q.QueryRow(ctx, `SELECT count(*) FROM (`+countSQL+`) counted`, account, begin, limit+1, end, f.from(), f.to(), f.Direction, f.Status).Scan(&n)
	switch {
	case err != nil:
		return err
	case n > limit:
		return long
	}
	rows := pg.Rows(ctx, q, linesSQL, account, begin, limit+1, end, f.from(), f.to(), f.Direction, f.Status)
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == limit {
			return long
		}
		var l Line
		if err := rows.Scan(l.fields()...); err != nil {
			return err
		}
		if !each(l) {
			return nil
		}
	}
	return rows.Err()
}

// ReadSender reads the payer of a payment (named by its group) by the bank's own record; nil if no
// record has confirmed it.
func ReadSender(ctx context.Context, q pg.Querier, group uuid.UUID) (*Sender, error) {
	return pg.One(ctx, q, pgx.RowToAddrOfStructByPos[Sender], nil, `
		SELECT coalesce(record_name, sender_name), record_account, record_bank_code, coalesce(record_bank, sender_bank), record_session FROM ledger_entries
		WHERE transaction_group_id = $1 AND direction = 'credit' AND reversal_of IS NULL AND record_account IS NOT NULL`, group)
}

// BalanceAt reads an account's balance as it stood when the last entry before a time was posted;
// 0.00 before the first.
func BalanceAt(ctx context.Context, q pg.Querier, account uuid.UUID, at time.Time) (balance money.Amount, err error) {
	seq, err := lastBefore(ctx, q, account, at)
	if err != nil || seq == 0 {
		return balance, err
	}
	err = q.QueryRow(ctx, `SELECT running_balance FROM ledger_entries WHERE account_id = $1 AND seq = $2`, account, seq).Scan(&balance)
	return balance, err
}

// movedAfterSQL sums up what reviews have taken out of a balance, and put back, between an entry of
// the account and the next.
const movedAfterSQL = `
		SELECT coalesce(sum((CASE direction WHEN 'credit' THEN amount ELSE -amount END)
			* ((review_to_seq IS NOT DISTINCT FROM $2)::int - (review_from_seq IS NOT DISTINCT FROM $2)::int)), 0)
		FROM ledger_entries WHERE account_id = $1 AND (review_from_seq IS NOT NULL OR review_to_seq IS NOT NULL)`

// Closing returns the balance at the end of a filter's period, from all lines of the period and the
// balance before them. For a period that has ended, that is the balance of [BalanceAt]. For one
// that has not, it is the account's balance, without what has gone under review since the last
// line.
func (f Filter) Closing(ctx context.Context, q pg.Querier, account uuid.UUID, opening money.Amount, lines []Line, now time.Time) (money.Amount, error) {
	balance, seq := opening, int64(0)
	var err error
	if n := len(lines); n > 0 {
		balance, seq = lines[n-1].RunningBalance, lines[n-1].seq
	} else if !f.From.IsZero() {
		seq, err = lastBefore(ctx, q, account, f.From)
	}
	if err != nil || seq == 0 || !f.To.IsZero() && !f.To.After(now) {
		return balance, err
	}
	var moved money.Amount
	err = q.QueryRow(ctx, movedAfterSQL, account, seq).Scan(&moved)
	return balance.Add(moved), err
}

// StandingAt sums up an account's entries from before a time by their status now: unlike
// [BalanceAt], it leaves out what is under review now, and includes what no longer is. So two of
// its results differ by the entries in between, by their status now.
func StandingAt(ctx context.Context, q pg.Querier, account uuid.UUID, at time.Time) (standing money.Amount, err error) {
	seq, err := lastBefore(ctx, q, account, at)
	if err != nil || seq == 0 {
		return standing, err
	}
	err = q.QueryRow(ctx, `
		SELECT l.running_balance + coalesce((
			SELECT sum(CASE e.direction WHEN 'credit' THEN e.amount ELSE -e.amount END
				* ((e.status <> 'needs_review')::int - (e.review_from_seq IS NULL OR e.review_from_seq >= $2 OR e.review_to_seq < $2)::int))
			FROM ledger_entries e WHERE e.account_id = $1 AND e.seq <= $2 AND (e.review_from_seq IS NOT NULL OR e.review_to_seq IS NOT NULL)), 0)
		FROM ledger_entries l WHERE l.account_id = $1 AND l.seq = $2`, account, seq).Scan(&standing)
	return standing, err
}
