package work

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Span selects items of a kind: those that were due before Before and come after the item After, by
// due time and id (its zero value: from the oldest on).
type Span struct {
	Kind   Kind      `pg:"kind"`
	After  time.Time `pg:"after"`
	ID     uuid.UUID `pg:"id"`
	Before time.Time `pg:"before"`
}

// itemColumns are the fields of an [Item], in their order.
const itemColumns = `kind, id, coalesce(tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant_id, due_at, traceparent`

var overdueSQL = `
	SELECT w.* FROM ` + pg.Unnest[Span](3, "m") + `
	CROSS JOIN LATERAL (
		SELECT ` + itemColumns + ` FROM work
		WHERE kind = m.kind AND (due_at, id) > (m.after, m.id) AND due_at < m.before AND coalesce(leased_until, '-infinity') <= $1
		ORDER BY due_at, id LIMIT $2) w
	ORDER BY w.due_at, w.id`

// Overdue lists the items of the spans that nobody has leased at the time now, the oldest first, at
// most limit of a span. For the sweep.
func Overdue(ctx context.Context, q pg.Querier, now time.Time, spans []Span, limit int) ([]Item, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[Item], overdueSQL, pg.Columns(spans, now, limit)...)
}

// The place is counted in reading order, so that only one large sort is left, by tenant. The
// settings keep that sort in memory, and make the planner read by work_due with an incremental
// sort, which ends at the limit. With a bitmap scan or a full sort, everything overdue would be
// read.
const (
	inTurnSettings = `SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), set_config('work_mem', '16MB', true)`
	inTurnSQL      = `
	WITH looked AS (
		SELECT *, row_number() OVER (ORDER BY due_at, id) AS place FROM (
			SELECT ` + itemColumns + `, leased_until FROM work
			WHERE kind = $1 AND (due_at, id) > ($2, $3) AND due_at < $4 ORDER BY due_at, id LIMIT $6) w
	), ranked AS (
		SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY place) AS turn FROM looked
	)
	SELECT ` + itemColumns + `, turn <= $7 AND coalesce(leased_until, '-infinity') <= $5, place = $6 FROM ranked
	WHERE turn <= $7 AND coalesce(leased_until, '-infinity') <= $5 OR place = $6 ORDER BY turn, place`
)

// InTurn reads the oldest items of a span, up to a number, and returns at most share of each
// tenant's: first all tenants' first items, then all their second ones, and so on. last is where to
// continue; nil: there is nothing more. For the sweep.
func InTurn(ctx context.Context, pool *pg.Pool, now time.Time, s Span, read, share int) (items []Item, last *Item, err error) {
	err = pg.Reading(ctx, pool, func(tx pg.Tx) error {
		items, last = nil, nil // keep only the last attempt's
		if _, err := tx.Exec(ctx, inTurnSettings); err != nil {
			return err
		}
		rows := pg.Rows(ctx, tx, inTurnSQL, string(s.Kind), s.After, s.ID, s.Before, now, read, share)
		var m Item
		var listed, end bool
		_, err := pgx.ForEachRow(rows, []any{&m.Kind, &m.ID, &m.TenantID, &m.DueAt, &m.Traceparent, &listed, &end}, func() error {
			if end {
				last = new(m)
			}
			if listed {
				items = append(items, m)
			}
			return nil
		})
		return err
	})
	return items, last, err
}

const freedSQL = `
	SELECT ` + itemColumns + ` FROM unnest($1::text[]) AS m (k)
	CROSS JOIN LATERAL (SELECT * FROM work WHERE kind = m.k AND due_at <= $3 ORDER BY due_at, id LIMIT $4) w
	WHERE leased_until > $2 AND leased_until <= $3
	ORDER BY due_at, id`

// Freed lists the items of the kinds whose lease ended between the first time and now, because the
// holder died. It reads the oldest [CountLimit] of each kind. For the sweep.
func Freed(ctx context.Context, q pg.Querier, kinds []Kind, since, now time.Time) ([]Item, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[Item], freedSQL, kinds, since, now, CountLimit)
}

const oldestSQL = `
	SELECT m.kind, w.due_at FROM unnest($1::text[]) AS m (kind)
	CROSS JOIN LATERAL (
		SELECT due_at FROM work WHERE kind = m.kind AND due_at <= $2 AND coalesce(leased_until, '-infinity') <= $2
		ORDER BY due_at LIMIT 1) w`

// Oldest returns, for each kind, when its oldest unleased item became due; a kind without one is
// missing.
func Oldest(ctx context.Context, q pg.Querier, now time.Time) (map[Kind]time.Time, error) {
	rows := pg.Rows(ctx, q, oldestSQL, Kinds, now)
	oldest := map[Kind]time.Time{}
	var k Kind
	var at time.Time
	_, err := pgx.ForEachRow(rows, []any{&k, &at}, func() error {
		oldest[k] = at
		return nil
	})
	return oldest, err
}
