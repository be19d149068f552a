package pg

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/page"
)

// List is a list that is read in pages, newest first, by its rows' ids.
type List[T any] struct {
	Name page.List
	ID   func(T) uuid.UUID
	Row  pgx.RowToFunc[T]
}

// Page reads a page of a list without a filter: the statement reads @limit rows of id < @before
// ("ORDER BY id DESC"). A bad cursor is [page.ErrCursor].
func (l List[T]) Page(ctx context.Context, q Querier, r page.Request, sql string, args pgx.NamedArgs) ([]T, page.Info, error) {
	return l.Filtered(ctx, q, r, "", sql, args)
}

// Total counts the rows of a statement, which reads at most [page.CountLimit] + 1; for all see
// [page.NewTotal].
func Total(ctx context.Context, q Querier, all bool, sql string, args ...any) (*page.Total, error) {
	var n int
	if err := q.QueryRow(ctx, `SELECT count(*) FROM (`+sql+`) counted`, args...).Scan(&n); err != nil {
		return nil, err
	}
	return page.NewTotal(n, all), nil
}

// ScanLimit is how many rows a page of a filtered list reads. A filter that matches nothing would
// otherwise read a whole history, and an index for each filter would be written with every payment.
const ScanLimit = 10_000

// Filtered reads a page of the list where only rows that match a filter are shown. It reads the
// next [ScanLimit] rows of scan, "table WHERE conditions": these conditions need an index that also
// orders by id. A page that is not full then ends at the last row that was read, and says that
// there is more.
//
// The statement reads @limit rows of @floor <= id < @before ("ORDER BY id DESC"). Arguments that
// scan does not name belong to the filter; if all of them are zero, the list is read to its end.
func (l List[T]) Filtered(ctx context.Context, q Querier, r page.Request, scan, sql string, args pgx.NamedArgs) ([]T, page.Info, error) {
	before, ok, err := page.ParseID(l.Name, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	if !ok {
		before = uuid.Max
	}
	all := pgx.NamedArgs{"before": before, "limit": r.Limit + 1, "last": ScanLimit - 1}
	maps.Copy(all, args)
	filtered := hasFilter(scan, args)
	floor := uuid.Nil
	if filtered {
		if floor, err = lastLookedAt(ctx, q, scan, all); err != nil {
			return nil, page.Info{}, err
		}
	}
	all["floor"] = floor
	list, err := Collect(ctx, q, l.Row, sql, all)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(v T) string { return page.ID(l.Name, l.ID(v)) })
	if !info.HasMore && floor != uuid.Nil {
		next := page.ID(l.Name, floor)
		info.NextCursor, info.HasMore = &next, true
	}
	if r.Total {
		info.Total, err = countFiltered(ctx, q, filtered, scan, sql, all)
	}
	return list, info, err
}

// hasFilter reports whether an argument that scan does not name drops rows; without a scan none
// does.
func hasFilter(scan string, args pgx.NamedArgs) bool {
	for name, v := range args {
		if scan != "" && !strings.Contains(scan, "@"+name) && v != nil && !reflect.ValueOf(v).IsZero() {
			return true
		}
	}
	return false
}

// countFiltered counts the rows of the whole list, among the first [page.CountLimit] + 1 of scan.
func countFiltered(ctx context.Context, q Querier, filtered bool, scan, sql string, args pgx.NamedArgs) (*page.Total, error) {
	args, floor := maps.Clone(args), uuid.Nil
	args["before"], args["limit"], args["last"] = uuid.Max, page.CountLimit+1, page.CountLimit
	if filtered {
		var err error
		if floor, err = lastLookedAt(ctx, q, scan, args); err != nil {
			return nil, err
		}
	}
	args["floor"] = floor
	return Total(ctx, q, floor == uuid.Nil, sql, args)
}

// lastLookedAt returns the id of the row of scan that follows @last others, or [uuid.Nil] if there
// is none.
func lastLookedAt(ctx context.Context, q Querier, scan string, args pgx.NamedArgs) (id uuid.UUID, err error) {
	err = q.QueryRow(ctx, `SELECT id FROM `+scan+` AND id < @before ORDER BY id DESC OFFSET @last LIMIT 1`, args).Scan(&id)
	return id, OrNone(err, nil)
}

// Shorter reports whether a page of a filtered list, as of [List.Filtered], reads all of the scan
// own and only a part of the scan of others: then what others have must not keep the page from its
// few rows.
func Shorter(ctx context.Context, q Querier, own, others string, args pgx.NamedArgs) (bool, error) {
	all := maps.Clone(args)
	all["before"], all["last"] = uuid.Max, ScanLimit-1
	last, err := lastLookedAt(ctx, q, others, all)
	if err != nil || last == uuid.Nil {
		return false, err
	}
	last, err = lastLookedAt(ctx, q, own, all)
	return err == nil && last == uuid.Nil, err
}

// OrNull returns a time as an argument: NULL for the zero time.
func OrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// One runs a query for one row and returns it, or the error none if there is no row.
func One[T any](ctx context.Context, q Querier, row pgx.RowToFunc[T], none error, sql string, args ...any) (v T, err error) {
	v, err = pgx.CollectExactlyOneRow(Rows(ctx, q, sql, args...), row)
	return v, OrNone(err, none)
}
