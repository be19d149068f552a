package invariant

import (
	"context"
	"time"

	"ajo/internal/clock"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// dueTimeout bounds the statement of [Due].
const dueTimeout = "2s"

// Waiting is what [Due] saw. A time is that from which the oldest row which is due, and in nobody's
// hands, has been due; nil when there is none.
type Waiting struct {
	Ingest, Confirm, Settle, Deliver, Expire *time.Time
	// ReadUntil is the end of the newest window that was compared with the bank's list; Exceptions
	// are that comparison's disagreements, but for those that healed themselves or stand in the
	// events' own lists.
	ReadUntil  *time.Time
	Exceptions int64
	// Offset is Postgres' clock less this machine's, as closely as a round trip tells.
	Offset time.Duration
}

// oddSQL is how many exceptions of a reconciliation a person must look at (package reconcile,
// quietKinds).
const oddSQL = `exception_count - coalesce((report #>> '{counts,missing_event}')::int, 0) - coalesce((report #>> '{counts,unposted}')::int, 0)
					- coalesce((report #>> '{counts,healed}')::int, 0)`

// Due asks for what waits by now, a time that the database's clock agrees to ([clock.Synced]).
// An answer that takes longer than 2 s is an error.
func Due(ctx context.Context, pool *pg.Pool, now time.Time) (w Waiting, err error) {
	err = pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '`+dueTimeout+`'`); err != nil {
			return err
		}
		var theirs time.Time
		asked := clock.System.Now()
		err := tx.QueryRow(ctx, `
			SELECT r.window_to, coalesce(r.exceptions, 0), clock_timestamp()
			FROM (SELECT) one LEFT JOIN LATERAL (
				SELECT window_to, `+oddSQL+` AS exceptions
				FROM reconciliations WHERE kind = 'periodic' AND status = 'finished' ORDER BY window_to DESC LIMIT 1) r ON true`).
			Scan(&w.ReadUntil, &w.Exceptions, &theirs)
		w.Offset = theirs.Sub(asked.Add(clock.System.Now().Sub(asked) / 2))
		if err != nil {
			return err
		}
		oldest, err := work.Oldest(ctx, tx, now)
		for k, into := range map[work.Kind]**time.Time{
			work.Ingest: &w.Ingest, work.Confirm: &w.Confirm, work.Settle: &w.Settle, work.Deliver: &w.Deliver, work.Expire: &w.Expire,
		} {
			if at, ok := oldest[k]; ok {
				*into = &at
			}
		}
		return err
	})
	return w, err
}
