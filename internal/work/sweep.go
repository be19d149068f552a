package work

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Span is what to look for of a kind: the items that were due before Before, and that come after
// the item After by due time and id (its zero value: from the oldest on).
type Span struct {
	Kind   Kind      `pg:"kind"`
	After  time.Time `pg:"after"`
	ID     uuid.UUID `pg:"id"`
	Before time.Time `pg:"before"`
}

var overdueSQL = `
	SELECT m.kind, w.id, w.tenant_id, w.due_at, w.traceparent
	FROM ` + pg.Unnest[Span](3, "m") + `
	CROSS JOIN LATERAL (
		SELECT id, coalesce(tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant_id, due_at, traceparent FROM work
		WHERE kind = m.kind AND (due_at, id) > (m.after, m.id) AND due_at < m.before AND coalesce(leased_until, '-infinity') <= $1
		ORDER BY due_at, id LIMIT $2) w
	ORDER BY w.due_at, w.id`

// Overdue lists the items of the spans that nobody has leased at the time now, the oldest first, at
// most limit of a span. For the sweep.
func Overdue(ctx context.Context, q pg.Querier, now time.Time, spans []Span, limit int) ([]Item, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[Item], overdueSQL, pg.Columns(spans, now, limit)...)
}

const oldestSQL = `
	SELECT m.kind, w.due_at FROM unnest($1::text[]) AS m (kind)
	CROSS JOIN LATERAL (
		SELECT due_at FROM work WHERE kind = m.kind AND due_at <= $2 AND coalesce(leased_until, '-infinity') <= $2
		ORDER BY due_at LIMIT 1) w`

// Oldest returns for each kind since when its oldest item is due that nobody has leased; a kind is
// missing when there is none.
func Oldest(ctx context.Context, q pg.Querier, now time.Time) (map[Kind]time.Time, error) {
	kinds := make([]string, len(Kinds))
	for i, k := range Kinds {
		kinds[i] = string(k)
	}
	rows, err := q.Query(ctx, oldestSQL, kinds, now)
	if err != nil {
		return nil, err
	}
	oldest := map[Kind]time.Time{}
	var k Kind
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&k, &at}, func() error {
		oldest[k] = at
		return nil
	})
	return oldest, err
}
