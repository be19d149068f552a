package pg

import (
	"context"

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

// Page reads a page of the list. The statement begins below the id $1 ("id < $1 … ORDER BY id
// DESC") and reads $2 rows ("LIMIT $2"); the arguments are $3 and on. A bad cursor is
// [page.ErrCursor].
func (l List[T]) Page(ctx context.Context, q Querier, r page.Request, sql string, args ...any) ([]T, page.Info, error) {
	before, ok, err := page.ParseID(l.Name, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	if !ok {
		before = uuid.Max
	}
	list, err := Collect(ctx, q, l.Row, sql, append([]any{before, r.Limit + 1}, args...)...)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(v T) string { return page.ID(l.Name, l.ID(v)) })
	return list, info, nil
}

// One runs a query of one row and returns it, or the error none when there is no row.
func One[T any](ctx context.Context, q Querier, row pgx.RowToFunc[T], none error, sql string, args ...any) (v T, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return v, err
	}
	v, err = pgx.CollectExactlyOneRow(rows, row)
	return v, OrNone(err, none)
}
