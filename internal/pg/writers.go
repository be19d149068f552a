package pg

import (
	"context"
	"time"
)

// OnlyReads is the age from which a transaction that has written nothing counts as one that only
// reads: those that write an event or an entry write something else soon after they begin.
const OnlyReads = time.Minute

// Archiving is the application_name of transactions of package archive. They may last, and write no
// event and no entry that was not there before.
const Archiving = "ajo archive"

// WritersSince returns the time now by the server's clock, and when the oldest transaction began
// that may still write: now if there is none. One that has written nothing, and is older than
// onlyReads, counts as one that only reads. What a query finds that begins after the call has all
// that the transactions from before that time have written. q must be the primary.
func WritersSince(ctx context.Context, q Querier, onlyReads time.Duration) (now, since time.Time, err error) {
	err = q.QueryRow(ctx, `
		SELECT clock_timestamp(), least(clock_timestamp(), min(xact_start)) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
			AND application_name <> '`+Archiving+`'
			AND (backend_xid IS NOT NULL OR xact_start > clock_timestamp() - $1::interval)`, onlyReads).Scan(&now, &since)
	return now, since, err
}
