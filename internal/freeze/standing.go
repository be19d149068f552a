package freeze

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// On is an SQL condition on a row f of freezes: it stands at the time now, and stops the payouts
// of the account and tenant, all three as SQL.
func On(account, tenant, now string) string {
	return `f.subject = ANY(ARRAY[` + account + `, ` + tenant + `, '00000000-0000-0000-0000-000000000000'::uuid])
		AND f.lifted_at IS NULL AND coalesce(f.until, 'infinity') > ` + now
}

// Stops is, as SQL, the condition on an account and its tenant that a freeze or a suspension stops
// payouts at the time now, all three as SQL. Each of its parts is a subquery with one value,
// because the planner would turn others into joins.
func Stops(account, tenant, now string) string {
	return `(coalesce((SELECT n.status FROM tenants n WHERE n.id = ` + tenant + `), 'active') <> 'active'
		OR (SELECT count(*) FROM freezes f WHERE ` + On(account, tenant, now) + `) > 0)`
}

const (
	// awaitFor is how long [AwaitSubmissions] and [AwaitAcceptances] wait; the transactions last
	// milliseconds.
	awaitFor = 10 * time.Second
	// awaitPoll is how often they look.
	awaitPoll = 5 * time.Millisecond
)

// What may be left to do once a change has been committed. None says that it was not made.
var (
	// ErrOpen says that a freeze stands, but that the transactions from before it were not seen to
	// end.
	ErrOpen = errs.New(errs.Conflict, "it is in force, but transactions that were open before it may not have ended: payouts that they are submitting may still leave")
	// ErrAccepting says the same of a change of what payouts are accepted by.
	ErrAccepting = errs.New(errs.Conflict, "the change stands, but a transaction that was open before it has not ended: payouts in it may still be accepted as before")
	// ErrNotResumed says that what stopped payouts has ended, but that these were not made due.
	ErrNotResumed = errs.New(errs.Conflict, "it is done, but the payouts that may continue were not rescheduled: they continue by themselves within half an hour")
)

// writersSQL names the transactions that have written transfers, or are about to, and not ended. A
// statement takes its table's lock before it looks at the rows, and its transaction keeps it.
const writersSQL = `
	SELECT virtualtransaction FROM pg_locks
	WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND relation = 'transfers'::regclass AND mode = 'RowExclusiveLock' AND granted AND pid <> pg_backend_pid()`

// AwaitSubmissions returns when every transaction that was writing transfers at its call has
// ended. Those that come later see what was committed before the call, so it holds up nobody and
// takes no lock. [ErrOpen].
func AwaitSubmissions(ctx context.Context, pool *pg.Pool) error { return await(ctx, pool, ErrOpen) }

// AwaitAcceptances is [AwaitSubmissions] for a change of what payouts are accepted by, such as a
// tenant's policy: who accepts them has the lock before it reads that (package transfer).
// [ErrAccepting].
func AwaitAcceptances(ctx context.Context, pool *pg.Pool) error {
	return await(ctx, pool, ErrAccepting)
}

// await returns late if it has not seen the transactions end, in time and before ctx ended.
func await(ctx context.Context, pool *pg.Pool, late error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, awaitFor, late)
	defer cancel()
	tick := time.NewTicker(awaitPoll)
	defer tick.Stop()
	open, err := pg.Collect(ctx, pool, pgx.RowTo[string], writersSQL)
	for err == nil && len(open) > 0 {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
			continue
		case <-tick.C:
		}
		var now []string
		now, err = pg.Collect(ctx, pool, pgx.RowTo[string], writersSQL)
		open = slices.DeleteFunc(open, func(tx string) bool { return !slices.Contains(now, tx) })
	}
	if err == nil || errors.Is(err, late) {
		return err
	}
	return fmt.Errorf("%w: %w", late, err)
}

// resumeSlice is how many payouts one transaction makes due.
const resumeSlice = 1000

// Resume makes the pending transfers of subjects that are not frozen any more due at once. It comes
// after the commit that ends the freeze: one that is being put off at this very moment either sees
// that commit (package transfer), or is due after it. Any error is [ErrNotResumed] too.
func Resume(ctx context.Context, pool *pg.Pool, now time.Time, scope Scope, subjects ...uuid.UUID) error {
	ids, err := pg.Collect(ctx, pool, pgx.RowTo[uuid.UUID], `
		SELECT id FROM transfers WHERE waiting AND CASE $1 WHEN 'account' THEN account_id = ANY($2) WHEN 'tenant' THEN tenant_id = ANY($2) ELSE true END ORDER BY id`,
		string(scope), subjects)
	if err != nil {
		return errors.Join(ErrNotResumed, err)
	}
	for some := range slices.Chunk(ids, resumeSlice) {
		err := pg.InTx(ctx, pool, func(tx pg.Tx) error {
			_, err := work.Expedite(ctx, tx, work.Settle, now, some...)
			return err
		})
		if err != nil {
			return errors.Join(ErrNotResumed, err)
		}
	}
	return nil
}
