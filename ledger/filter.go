package ledger

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Refusals of a filter.
var (
	ErrDirection = errs.New(errs.Invalid, "direction must be credit or debit")
	ErrStatus    = errs.New(errs.Invalid, "status must be provisional, confirmed, reversed or needs_review")
)

// Filter narrows the lines of a statement; its zero value lets all through. The totals stay those
// of the whole history.
type Filter struct {
	From, To  time.Time // posted at or after From, and before To; zero: without that end
	Direction Direction
	Status    Status
	// NewestFirst reverses the order of a page of the statement. [Lines] are always oldest first.
	NewestFirst bool
}

func (f Filter) check() error {
	switch f.Direction {
	case "", Credit, Debit:
	default:
		return ErrDirection
	}
	if !Transitions.Knows(f.Status) {
		return ErrStatus
	}
	return nil
}

func (f Filter) from() time.Time { return f.From.UTC() } // the year 1 is before every entry

func (f Filter) to() time.Time {
	if f.To.IsZero() {
		return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	}
	return f.To.UTC()
}

// window narrows a span to the next n entries that the filter must look at, in the order of the
// page. cut is the last of them, 0 when the span has no more.
func (f Filter) window(ctx context.Context, q pg.Querier, account uuid.UUID, begin, end int64, n int) (_, _, cut int64, err error) {
	rare := ""
	switch {
	case f == Filter{NewestFirst: f.NewestFirst}:
		return begin, end, 0, nil
	case f.Status == NeedsReview:
		rare = ` AND review_from_seq IS NOT NULL`
	case f.Status == Reversed:
		rare = ` AND reversed`
	case f.Direction == Debit:
		rare = ` AND direction = 'debit'`
	}
	order := ""
	if f.NewestFirst {
		order = " DESC"
	}
	err = q.QueryRow(ctx, `
		SELECT seq FROM ledger_entries WHERE account_id = $1 AND seq > $2 AND seq <= $3`+rare+`
		ORDER BY seq`+order+` OFFSET $4 LIMIT 1`, account, begin, end, n-1).Scan(&cut)
	switch {
	case pg.IsNoRows(err):
		return begin, end, 0, nil
	case f.NewestFirst:
		return cut - 1, end, cut, err
	}
	return begin, cut, cut, err
}

// ScanPerLine is how many entries a file with a filter may look at for each line that it may have:
// a million for one of 50,000.
const ScanPerLine = 20

// ErrWide refuses a file whose filter would look at more entries than [ScanPerLine] lets it.
var ErrWide = errs.New(errs.Unprocessable, "the filter would search too many entries: narrow it by from and to")

// bounded refuses to read a span in which the filter must look at more entries than a file of limit
// lines may.
func (f Filter) bounded(ctx context.Context, q pg.Querier, account uuid.UUID, begin, end int64, limit int) error {
	if f.Direction == "" && f.Status == "" {
		return nil // it drops none in between
	}
	_, _, cut, err := f.window(ctx, q, account, begin, end, limit*ScanPerLine+1)
	if err == nil && cut > 0 {
		err = ErrWide
	}
	return err
}

// count counts the lines that the filter lets through among the first of its order.
func (f Filter) count(ctx context.Context, q pg.Querier, account uuid.UUID) (*page.Total, error) {
	begin, end, err := f.span(ctx, q, account)
	if err != nil {
		return nil, err
	}
	begin, end, cut, err := f.window(ctx, q, account, begin, end, page.CountLimit+1)
	if err != nil {
		return nil, err
	}
	return pg.Total(ctx, q, cut == 0, countSQL, account, begin, page.CountLimit+1, end, f.from(), f.to(), f.Direction, f.Status)
}

// clockSlack is by how much the order of an account's entries may disagree with their times. They
// disagree only after a clock that was far ahead has been corrected ([totals.dated]).
const clockSlack = time.Hour

// span returns places of the account that hold every entry of the filter's time between them: begin
// < seq <= end. An index by time would be written with every payment; the places are in the order
// of time, so they are found by halving.
func (f Filter) span(ctx context.Context, q pg.Querier, account uuid.UUID) (begin, end int64, err error) {
	end = math.MaxInt64
	if !f.From.IsZero() {
		if begin, err = lastBefore(ctx, q, account, f.From.Add(-clockSlack)); err != nil {
			return 0, 0, err
		}
	}
	if !f.To.IsZero() {
		end, err = lastBefore(ctx, q, account, f.To.Add(clockSlack))
	}
	return begin, end, err
}

// lastBefore returns the place of an account's last entry that was posted before a time, 0 when
// there is none. It reads as many entries as their number has binary digits.
func lastBefore(ctx context.Context, q pg.Querier, account uuid.UUID, at time.Time) (seq int64, err error) {
	err = q.QueryRow(ctx, `
		WITH RECURSIVE half (below, above) AS (
			SELECT 0::bigint, last_seq + 1 FROM ledger_balances WHERE account_id = $1
			UNION ALL
			SELECT CASE WHEN e.created_at < $2 THEN e.seq ELSE h.below END, CASE WHEN e.created_at < $2 THEN h.above ELSE e.seq END
			FROM half h JOIN ledger_entries e ON e.account_id = $1 AND e.seq = (h.below + h.above) / 2
			WHERE h.above - h.below > 1)
		SELECT coalesce(max(below), 0) FROM half`, account, at.UTC()).Scan(&seq)
	return seq, err
}
