package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Finding is one disagreement in the books, named by the row that is wrong.
type Finding struct {
	Check   string // what does not hold
	Subject string // the account or entry
	Detail  string // what is stored, and what the entries say
}

// maxFindings bounds what one check reports.
const maxFindings = 1000

// checks recompute everything from the entries alone. Each query returns (subject, detail) of the rows that are wrong.
var checks = []struct{ name, sql string }{
	{"totals equal the entries", `
		WITH s AS (
			SELECT account_id,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit' AND status <> 'needs_review'), 0) AS credits,
				coalesce(sum(amount) FILTER (WHERE direction = 'debit' AND status <> 'needs_review'), 0) AS debits,
				coalesce(sum(amount) FILTER (WHERE direction = 'credit' AND status = 'provisional'), 0) AS provisional,
				coalesce(sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END) FILTER (WHERE status IN ('provisional', 'confirmed')), 0) AS balance,
				max(seq) AS last_seq, count(*) AS entries
			FROM ledger_entries GROUP BY account_id)
		SELECT b.account_id::text, format('stored %s/%s/%s/%s/%s, entries say %s/%s/%s/%s/%s (credits/debits/balance/provisional/seq)',
			b.total_credits, b.total_debits, b.balance, b.provisional_credits, b.last_seq,
			coalesce(s.credits, 0), coalesce(s.debits, 0), coalesce(s.balance, 0), coalesce(s.provisional, 0), coalesce(s.last_seq, 0))
		FROM ledger_balances b FULL JOIN s USING (account_id)
		WHERE (b.total_credits, b.total_debits, b.balance, b.provisional_credits, b.last_seq, b.last_seq)
			IS DISTINCT FROM (coalesce(s.credits, 0), coalesce(s.debits, 0), coalesce(s.balance, 0), coalesce(s.provisional, 0),
				coalesce(s.last_seq, 0), coalesce(s.entries, 0))`},
	{"reversed entries have one reversal", `
		SELECT e.id::text, 'reversed, but has no reversal entry'
		FROM ledger_entries e LEFT JOIN ledger_entries r ON r.reversal_of = e.id
		WHERE e.status = 'reversed' AND e.reversal_of IS NULL AND r.id IS NULL`},
	{"reversals mirror their originals", `
		SELECT r.id::text, format('reverses %s, but differs from it', o.id)
		FROM ledger_entries r JOIN ledger_entries o ON o.id = r.reversal_of
		WHERE o.status <> 'reversed' OR r.status <> 'reversed' OR o.amount <> r.amount OR o.direction = r.direction
			OR o.account_id <> r.account_id OR o.transaction_group_id <> r.transaction_group_id`},
}

// Verify recomputes the totals from the entries and returns what does not agree, at most 1,000 findings a check. It reads the
// whole book: for hand tools and tests, on a connection whose statement_timeout allows it.
func Verify(ctx context.Context, q pg.Querier) ([]Finding, error) {
	var all []Finding
	for _, c := range checks {
		rows, err := q.Query(ctx, c.sql+" LIMIT $1", maxFindings)
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Finding, error) {
			f := Finding{Check: c.name}
			return f, r.Scan(&f.Subject, &f.Detail)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	sum, err := BookSum(ctx, q)
	if err == nil && sum.Sign() != 0 {
		all = append(all, Finding{Check: "the book sums to zero", Subject: "book", Detail: "it sums to " + sum.String()})
	}
	return all, err
}

// BookSum adds the customers' side (the stored balances) to the provider float's side (the contra side of every entry that
// counts): 0.00 when the books are right.
func BookSum(ctx context.Context, q pg.Querier) (money.Amount, error) {
	var sum money.Amount
	err := q.QueryRow(ctx, `
		SELECT (SELECT coalesce(sum(balance), 0) FROM ledger_balances)
			+ (SELECT coalesce(sum(CASE direction WHEN 'credit' THEN -amount ELSE amount END), 0)
				FROM ledger_entries WHERE contra = 'provider_float' AND status IN ('provisional', 'confirmed'))`).Scan(&sum)
	return sum, err
}
