package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// OverviewDays is how many days an [Overview] covers unless asked otherwise, today among them.
const OverviewDays = 30

// Overview is a summary of a tenant's money. Its JSON form is a part of GET /auth/overview.
type Overview struct {
	Currency    string       `json:"currency"`
	Balance     money.Amount `json:"balance"`     // of all accounts
	Provisional money.Amount `json:"provisional"` // the part of it that the bank has not confirmed
	MoneyIn     money.Amount `json:"moneyIn"`     // of the days
	MoneyOut    money.Amount `json:"moneyOut"`
	NeedsReview Review       `json:"needsReview"`
	NotRefunded Declined     `json:"notRefunded"`
	Days        []Day        `json:"days"` // oldest first, without a gap
}

// Review counts the payments that wait for a person's decision and are in no balance until then,
// with the sum that they would add after the platform's charges.
type Review struct {
	Count  int          `json:"count"`
	Amount money.Amount `json:"amount"`
}

// Declined counts the payments that were to go back to their senders and could not, so that the
// tenant must decide, with what is held of them.
type Declined struct {
	Count  int          `json:"count"`
	Amount money.Amount `json:"amount"`
	Oldest *uuid.UUID   `json:"oldest"` // the payment that has waited longest; nil: none waits
}

// Day is what was posted on one day in Lagos, and is in the balance: what was reversed since, or is
// under review, is not.
type Day struct {
	Date     string       `json:"date"` // 2026-01-30
	MoneyIn  money.Amount `json:"moneyIn"`
	MoneyOut money.Amount `json:"moneyOut"`
}

// ReadOverview reads a tenant's overview of the last days. It reads the balances and the days'
// sums, never the entries: its cost grows with the number of accounts, not with their history. Few
// entries of the whole service are under review, and of a tenant's payments few are held by a
// policy at a time.
func ReadOverview(ctx context.Context, q pg.Querier, tenantID uuid.UUID, now time.Time, days int) (Overview, error) {
	o := Overview{Currency: money.Currency}
	today := now.In(clock.Lagos)
	first := today.AddDate(0, 0, 1-days)
	rows := pg.Rows(ctx, q, overviewSQL, tenantID, first.Format(time.DateOnly), today.Format(time.DateOnly))
	var d Day
	_, err := pgx.ForEachRow(rows, []any{
		&o.Balance, &o.Provisional, &o.NeedsReview.Count, &o.NeedsReview.Amount, &o.NotRefunded.Count, &o.NotRefunded.Amount, &o.NotRefunded.Oldest,
		&d.Date, &d.MoneyIn, &d.MoneyOut,
	}, func() error {
		o.MoneyIn, o.MoneyOut = o.MoneyIn.Add(d.MoneyIn), o.MoneyOut.Add(d.MoneyOut)
		o.Days = append(o.Days, d)
		return nil
	})
	return o, err
}

// overviewSQL is one statement, so that all figures are of one moment.
const overviewSQL = `
	SELECT b.balance, b.provisional, r.n, r.amount, h.n, h.amount, h.oldest, to_char(d.day, 'YYYY-MM-DD'), coalesce(s.money_in, 0), coalesce(s.money_out, 0)
	FROM (SELECT coalesce(sum(balance), 0) AS balance, coalesce(sum(provisional_credits), 0) AS provisional FROM ledger_balances WHERE tenant_id = $1) b
	CROSS JOIN (SELECT count(*) FILTER (WHERE direction = 'credit') AS n, coalesce(sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END), 0) AS amount FROM ledger_entries WHERE status = 'needs_review' AND review_from_seq IS NOT NULL AND review_to_seq IS NULL AND tenant_id = $1) r
	CROSS JOIN (SELECT count(*) AS n, coalesce(sum(amount), 0) AS amount, (array_agg(entry_id ORDER BY id))[1] AS oldest FROM holds
		WHERE tenant_id = $1 AND status = 'open' AND source = 'policy' AND starts_with(reason, '` + NotRefunded + `')) h
	CROSS JOIN generate_series($2::date, $3::date, interval '1 day') AS d (day)
	LEFT JOIN (
		SELECT day, sum(money_in) AS money_in, sum(money_out) AS money_out FROM ledger_days
		WHERE tenant_id = $1 AND day BETWEEN $2::date AND $3::date GROUP BY day) s ON s.day = d.day
	ORDER BY d.day`
