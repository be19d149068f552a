package archive

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"ajo/internal/partition"
	"ajo/internal/pg"
)

// The tables that are archived.
const (
	bodies     = "event_bodies"
	deliveries = "deliveries"
	attempts   = "delivery_attempts"
)

// order is the order in which they are: attempts go after their deliveries, so that an attempt has
// its place while its delivery can be retried.
var order = []string{bodies, deliveries, attempts}

// Wait is why a partition may not be archived yet.
type Wait struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"` // of what may still move; at most countLimit
}

const countLimit = 1000

func (w Wait) String() string {
	if w.Count >= countLimit {
		return strconv.Itoa(countLimit) + " or more " + w.Reason
	}
	return strconv.Itoa(w.Count) + " " + w.Reason
}

// hold is a question for rows that may still move, of the ids from @from to before @to.
type hold struct {
	reason string
	sql    string // {p} is the partition
	// It goes by an index, and may change without a row of the partition: it is asked once more
	// while the table is locked. Another one reads the whole partition, so it is asked only if
	// nothing else holds the partition.
	again bool
}

// holds are what keeps a partition of a table. The cheap ones come first.
var holds = map[string][]hold{
	// Forged events are purged by their age, and their bodies with them.
	bodies: {
		{"items of pending work", `SELECT 1 FROM work WHERE id >= @from AND id < @to AND kind IN ('ingest', 'confirm')`, true},
		{"forged events that are not purged yet", `SELECT 1 FROM inbound_events WHERE id >= @from AND id < @to AND forged`, true},
	},
	deliveries: {
		{"items of pending work", `SELECT 1 FROM work WHERE id >= @from AND id < @to AND kind = 'deliver'`, true},
		{"pending deliveries", `SELECT 1 FROM {p} WHERE status = 'pending'`, false},
	},
	attempts: {
		{"items of pending work", `SELECT 1 FROM work WHERE id >= @from AND id < @to AND kind = 'deliver'`, true},
		{"deliveries that are not archived yet", `SELECT 1 FROM deliveries WHERE id >= @from AND id < @to`, true},
	},
}

// holdsOf says why a partition may not be archived yet; nothing: it may. It reads the partition,
// however long that takes.
func holdsOf(ctx context.Context, pool *pg.Pool, p partition.Partition) (all []Wait, err error) {
	err = pg.Snapshot(ctx, pool, func(tx pg.Tx) error {
		if err := unhurried(ctx, tx); err != nil {
			return err
		}
		all, err = waits(ctx, tx, p, false)
		return err
	})
	return all, err
}

// unhurried lifts Postgres' limits of time for a transaction: one that reads a large partition, or
// waits for the store to take or give what it has, lasts longer. The log of events does not wait
// for it.
func unhurried(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true), set_config('application_name', $1, true)`,
		pg.Archiving)
	return err
}

// waits is [holdsOf] within a transaction. again asks only the questions of that name.
func waits(ctx context.Context, q pg.Querier, p partition.Partition, again bool) (all []Wait, err error) {
	from, to := partition.Floor(p.From), partition.Floor(p.To)
	args := pgx.NamedArgs{"from": from, "to": to}
	for _, h := range holds[p.Table] {
		if !h.again && (again || len(all) > 0) {
			continue
		}
		w := Wait{Reason: h.reason}
		sql := fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM (%s) h LIMIT %d) n`, strings.ReplaceAll(h.sql, "{p}", p.Name), countLimit)
		if err := q.QueryRow(ctx, sql, args).Scan(&w.Count); err != nil {
			return nil, fmt.Errorf("%s: %w", h.reason, err)
		}
		if w.Count > 0 {
			all = append(all, w)
		}
	}
	return all, nil
}
