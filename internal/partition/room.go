package partition

import (
	"context"
	"fmt"

	"ajo/internal/pg"
)

// locksAtOnce is how many transactions that are planned at once must find room for their locks.
const locksAtOnce = 10

// roomSQL finds the table whose partitions and their indexes are most, and how many locks the
// server has room for, at least.
const roomSQL = `
	SELECT t.name, t.parts, t.locks, current_setting('max_locks_per_transaction')::bigint,
		current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint
	FROM (SELECT i.inhparent::regclass::text AS name, count(DISTINCT i.inhrelid) AS parts, count(DISTINCT i.inhrelid) + count(x.indexrelid) AS locks
		FROM pg_inherits i LEFT JOIN pg_index x ON x.indrelid = i.inhrelid WHERE i.inhparent = ANY($1::regclass[]) GROUP BY 1) t
	ORDER BY t.locks DESC, t.name LIMIT 1`

// Crowded says what to do if there are so many partitions that statements may soon find no room for
// their locks; empty: there is room. A statement that looks ids up in a partitioned table locks all
// partitions, and while it is planned all their indexes too. Where the server has no room for that,
// it answers "out of shared memory".
func Crowded(ctx context.Context, pool *pg.Pool) (string, error) {
	return crowdedAt(ctx, pool, locksAtOnce)
}

func crowdedAt(ctx context.Context, pool *pg.Pool, atOnce int64) (string, error) {
	var names []string
	for _, t := range Tables {
		names = append(names, t.Name)
	}
	var table string
	var parts, locks, each, times int64
	err := pool.QueryRow(ctx, roomSQL, names).Scan(&table, &parts, &locks, &each, &times)
	if err != nil || locks*atOnce <= each*times {
		return "", err
	}
	return fmt.Sprintf("%s has %d partitions: a statement may take %d locks, and Postgres has room for %d; set max_locks_per_transaction to %d or more",
		table, parts, locks, each*times, 2*(locks*atOnce/times+1)), nil
}
