package pg

import (
	"bytes"
	"context"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/page"
)

// Order is an order of a list other than by id: by a value of its rows, for which there is no
// index. The statement's rows are s. Ascending and Descending choose those after the cursor, which
// names a row by @value and @id (all of them where @first is true), and put them in order; @rows
// are read.
type Order[T any] struct {
	Ascending, Descending string
	Value                 func(T) money.Amount // what the cursor has; nil: the id tells
}

const (
	newestFirst = ` ORDER BY id DESC LIMIT @limit`
	oldestFirst = ` ORDER BY id LIMIT @limit`
)

// Sorted is [List.Filtered] for a list with several orders. The statement has no ORDER BY and no
// LIMIT. Newest and oldest first are read by the index of scan. By another order the whole list is
// read for each page, which must not be more than [page.CountLimit] rows: [page.ErrSort].
func (l List[T]) Sorted(ctx context.Context, q Querier, r page.Request, scan, sql string, orders map[page.Key]Order[T], args pgx.NamedArgs) ([]T, page.Info, error) {
	if r.Sort == (page.Sort{}) {
		return l.Filtered(ctx, q, r, scan, sql+newestFirst, args)
	}
	value, id, ok, err := page.ParseSorted(l.Name, r.Sort, r.After)
	if err != nil {
		return nil, page.Info{}, err
	}
	all := pgx.NamedArgs{"before": uuid.Max, "floor": uuid.Nil, "last": ScanLimit - 1, "limit": r.Limit + 1}
	maps.Copy(all, args)
	if r.Sort.By == page.Created {
		if ok {
			all["floor"] = following(id)
		}
		return l.oldest(ctx, q, r, scan, sql, all, hasFilter(scan, args))
	}
	total, err := countFiltered(ctx, q, hasFilter(scan, args), scan, sql+newestFirst, all)
	if err != nil {
		return nil, page.Info{}, err
	}
	if !total.Exact {
		return nil, page.Info{}, page.ErrSort
	}
	o := orders[r.Sort.By]
	order := o.Descending
	if r.Sort.Ascending {
		order = o.Ascending
	}
	all["limit"], all["rows"], all["first"], all["value"], all["id"] = page.CountLimit, r.Limit+1, !ok, money.FromKobo(value), id
	list, err := Collect(ctx, q, l.Row, `SELECT s.* FROM (`+sql+newestFirst+`) s`+order, all)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(v T) string {
		var value int64
		if o.Value != nil {
			value = o.Value(v).Kobo().Int64()
		}
		return page.Sorted(l.Name, r.Sort, value, l.ID(v))
	})
	if r.Total {
		info.Total = total
	}
	return list, info, nil
}

// oldest is [List.Filtered] in the opposite direction: it reads a page from the list's end.
func (l List[T]) oldest(ctx context.Context, q Querier, r page.Request, scan, sql string, args pgx.NamedArgs, filtered bool) ([]T, page.Info, error) {
	cursor := func(id uuid.UUID) string { return page.Sorted(l.Name, r.Sort, 0, id) }
	last, cut := uuid.Nil, false
	if filtered {
		err := q.QueryRow(ctx, `SELECT id FROM `+scan+` AND id >= @floor ORDER BY id OFFSET @last LIMIT 1`, args).Scan(&last)
		if cut = err == nil; cut {
			args["before"] = following(last)
		} else if !IsNoRows(err) {
			return nil, page.Info{}, err
		}
	}
	list, err := Collect(ctx, q, l.Row, sql+oldestFirst, args)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(v T) string { return cursor(l.ID(v)) })
	if !info.HasMore && cut {
		next := cursor(last)
		info.NextCursor, info.HasMore = &next, true
	}
	if r.Total {
		info.Total, err = countFiltered(ctx, q, filtered, scan, sql+newestFirst, args)
	}
	return list, info, err
}

// following is the id right after another.
func following(id uuid.UUID) uuid.UUID {
	next := bytes.Clone(id[:])
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return uuid.UUID(next)
		}
	}
	return uuid.Max
}
