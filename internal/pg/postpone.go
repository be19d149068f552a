package pg

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// postponed makes the due time of work whose handling failed: 5 s from now, twice as long with each
// failure, an hour at most. The tables of work have the same columns for it.
const postponed = ` SET failure_count = failure_count + 1, last_error = $3,
	next_attempt_at = $2::timestamptz + least(interval '5 s' * power(2, least(failure_count, 20)), interval '1 hour')
	WHERE id = $1 AND next_attempt_at <= $2 RETURNING next_attempt_at`

// The statements of [Postpone], by the table of the work.
var (
	PostponeEvent    = `UPDATE inbound_events` + postponed
	PostponeTransfer = `UPDATE transfers` + postponed
)

// Postpone puts a row off whose handling failed at the time now, longer with each failure, so that
// work that always fails neither fills the sweeper's page nor keeps the workers busy. A lease
// stays: whoever has it may still be at work. The time is zero when the row is not due any more.
func Postpone(ctx context.Context, q Querier, statement string, id uuid.UUID, now time.Time, why error) (at time.Time, err error) {
	if err = q.QueryRow(ctx, statement, id, now, why.Error()).Scan(&at); IsNoRows(err) {
		return time.Time{}, nil
	}
	return at, err
}
