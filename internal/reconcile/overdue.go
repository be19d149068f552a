package reconcile

import (
	"context"
	"time"

	"ajo/internal/pg"
	"ajo/internal/transfer"
)

// Overdue has since when a run of a kind has been due that has not finished; nil: there is none. A
// time may be yet to come. The periodic runs are late by the end of their newest window.
type Overdue struct {
	Daily *time.Time // one that has begun, or the next one
	Again *time.Time
}

// overdueSQL: the next daily run is due a day after the last one at the latest. If the books have
// come to another account at the bank since, that is not known: its first day must be old enough.
const overdueSQL = `
	SELECT coalesce(
		(SELECT min(due_at) FROM reconciliations WHERE kind = 'daily' AND status <> 'finished'),
		(SELECT d.due_at + interval '1 day' FROM (
			SELECT due_at, window_to FROM reconciliations WHERE kind = 'daily' AND status = 'finished' ORDER BY window_to DESC LIMIT 1) d
		WHERE d.window_to > $1)),
		(SELECT min(due_at) FROM reconciliations WHERE kind = 'again' AND status <> 'finished')`

// ReadOverdue reads which runs are overdue. It reads the unfinished ones.
func ReadOverdue(ctx context.Context, q pg.Querier) (o Overdue, err error) {
	since, err := transfer.WalletSince(ctx, q)
	if err != nil {
		return o, err
	}
	err = q.QueryRow(ctx, overdueSQL, since).Scan(&o.Daily, &o.Again)
	return o, err
}
