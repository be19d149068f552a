package work

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

const overdueSQL = `
	SELECT m.kind, w.id, w.tenant_id, w.due_at, w.traceparent
	FROM unnest($1::text[], $2::timestamptz[]) AS m (kind, before)
	CROSS JOIN LATERAL (
		SELECT id, coalesce(tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant_id, due_at, traceparent FROM work
		WHERE kind = m.kind AND due_at < m.before AND coalesce(leased_until, '-infinity') <= $3
		ORDER BY due_at LIMIT $4) w
	ORDER BY w.due_at`

// Overdue lists the items that were due before their kind's time and that nobody has leased, the
// oldest first, at most limit of a kind. For the sweep.
func Overdue(ctx context.Context, q pg.Querier, now time.Time, before map[Kind]time.Time, limit int) ([]Item, error) {
	var kinds []string
	var times []time.Time
	for k, t := range before {
		kinds, times = append(kinds, string(k)), append(times, t)
	}
	rows, err := q.Query(ctx, overdueSQL, kinds, times, now, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Item])
}

const oldestSQL = `
	SELECT m.kind, w.due_at FROM unnest($1::text[]) AS m (kind)
	CROSS JOIN LATERAL (
		SELECT due_at FROM work WHERE kind = m.kind AND due_at <= $2 AND coalesce(leased_until, '-infinity') <= $2
		ORDER BY due_at LIMIT 1) w`

// Oldest tells for each kind since when its oldest item is due that nobody has leased; a kind is
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
