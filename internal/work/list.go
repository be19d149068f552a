package work

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Refusals of a list, and of reads and changes by hand.
var (
	ErrKind    = errs.New(errs.Invalid, "unknown kind of work")
	ErrNoItems = errs.New(errs.NotFound, "there is no such item: its work is done, or never existed")
)

// Record is an item as operators see it.
type Record struct {
	Kind        Kind
	ID          uuid.UUID
	TenantID    *uuid.UUID // nil: not known yet
	TenantName  string
	DueAt       time.Time
	LeasedUntil *time.Time
	Attempts    int // failures in a row
	LastError   string
}

// Leased reports whether the item is leased at the time now.
func (r *Record) Leased(now time.Time) bool { return r.LeasedUntil != nil && r.LeasedUntil.After(now) }

// Filter narrows a list; empty fields do not.
type Filter struct {
	Kind     Kind
	TenantID uuid.UUID
	Due      bool // due, and not leased
	Failing  bool // the last handling failed
	Leased   bool
}

// Failures put an item off by longestDelay at most, and only due items are leased, so these filters
// need not read what is due later. Functions in place of operators hide from the planner how rare a
// tenant's items and failures are, so that each kind's items are read in the order of the index
// until the page is full, and never sorted as a whole.
const listSQL = `
	SELECT w.kind, w.id, w.tenant_id, coalesce(t.name, ''), w.due_at, w.leased_until, w.attempts, w.last_error
	FROM (
		SELECT w.*, k.n FROM unnest($1::text[], $2::int[]) AS k (kind, n)
		CROSS JOIN LATERAL (
			SELECT kind, id, tenant_id, due_at, leased_until, attempts, last_error FROM work
			WHERE kind = k.kind AND due_at >= $3 AND (due_at, id, k.n) > ($3, $4, $5) AND due_at <= coalesce($6::timestamptz, 'infinity')
				AND ($7::uuid IS NULL OR uuid_eq(tenant_id, $7)) AND (NOT $8 OR int4gt(attempts, 0))
				AND ($9::boolean IS NULL OR (coalesce(leased_until, '-infinity') > $10) = $9)
			ORDER BY due_at, id LIMIT $11) w
		ORDER BY w.due_at, w.id, k.n LIMIT $11) w
	LEFT JOIN tenants t ON t.id = w.tenant_id
	ORDER BY w.due_at, w.id, w.n`

// List returns a page of items in the order of their due times. [ErrKind], or [page.ErrCursor].
func List(ctx context.Context, q pg.Querier, now time.Time, f Filter, r page.Request) ([]Record, page.Info, error) {
	sql, args, err := listArgs(now, f, r)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, err := pg.Collect(ctx, q, pgx.RowToStructByPos[Record], sql, args...)
	if err != nil {
		return nil, page.Info{}, err
	}
	list, info := page.Cut(list, r, func(v Record) string { return page.Due(page.Work, v.DueAt, v.ID, byte(slices.Index(Kinds, v.Kind))) })
	return list, info, nil
}

func listArgs(now time.Time, f Filter, r page.Request) (sql string, args []any, err error) {
	at, id, n, err := page.ParseDue(page.Work, r.After)
	if err != nil {
		return "", nil, err
	}
	var kinds []string
	var places []int
	for i, k := range Kinds {
		if f.Kind == "" || f.Kind == k {
			kinds, places = append(kinds, string(k)), append(places, i)
		}
	}
	if len(kinds) == 0 {
		return "", nil, ErrKind
	}
	var until *time.Time
	var leased *bool
	if f.Failing || f.Leased {
		until = new(now.Add(longestDelay))
	}
	if f.Due {
		until = &now
	}
	if f.Due != f.Leased {
		leased = &f.Leased
	} else if f.Due {
		kinds, places = nil, nil // leased items count as not due
	}
	return listSQL, []any{
		kinds, places, at, id, int(n), until, uuid.NullUUID{UUID: f.TenantID, Valid: f.TenantID != uuid.Nil}, f.Failing, leased, now, r.Limit + 1,
	}, nil
}

// CountLimit is up to how many items a summary counts.
const CountLimit = 10_000

// Summary is how much work of a kind there is. A count above [CountLimit] means more than that.
type Summary struct {
	Kind      Kind
	Due       int        // and not leased
	Leased    int        // of the due items
	Later     int        // not due yet
	OldestDue *time.Time // of the items that are not leased
}

const summarySQL = `
	SELECT k.kind, d.due, d.leased, l.later, d.oldest FROM unnest($1::text[]) WITH ORDINALITY AS k (kind, n)
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE free) AS due, count(*) FILTER (WHERE NOT free) AS leased, min(due_at) FILTER (WHERE free) AS oldest FROM (
			SELECT due_at, coalesce(leased_until, '-infinity') <= $2 AS free FROM work WHERE kind = k.kind AND due_at <= $2 ORDER BY due_at LIMIT $3) w) d
	CROSS JOIN LATERAL (
		SELECT count(*) AS later FROM (SELECT FROM work WHERE kind = k.kind AND due_at > $2 ORDER BY due_at LIMIT $3) w) l
	ORDER BY k.n`

// Summarize counts the items of each kind, up to [CountLimit].
func Summarize(ctx context.Context, q pg.Querier, now time.Time) ([]Summary, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[Summary], summarySQL, Kinds, now, CountLimit+1)
}

const itemsSQL = `
	SELECT w.kind, w.id, w.tenant_id, coalesce(t.name, ''), w.due_at, w.leased_until, w.attempts, w.last_error
	FROM work w LEFT JOIN tenants t ON t.id = w.tenant_id
	WHERE w.id = $1 AND ($2 = '' OR w.kind = $2) ORDER BY w.due_at, w.kind`

// Items returns the items about a row, of one kind or ("") of all: usually one. [ErrNoItems].
func Items(ctx context.Context, q pg.Querier, id uuid.UUID, kind Kind) ([]Record, error) {
	return readItems(ctx, q, itemsSQL, id, kind)
}

func readItems(ctx context.Context, q pg.Querier, sql string, id uuid.UUID, kind Kind) ([]Record, error) {
	if kind != "" && !slices.Contains(Kinds, kind) {
		return nil, ErrKind
	}
	items, err := pg.Collect(ctx, q, pgx.RowToStructByPos[Record], sql, id, string(kind))
	if err == nil && len(items) == 0 {
		err = ErrNoItems
	}
	return items, err
}
