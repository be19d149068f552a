package work

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Claim is the right to record one result of the work on an item, as long as nobody else has
// claimed or changed the item.
type Claim struct {
	ID      uuid.UUID
	Version int64     // the fence
	DueAt   time.Time // or the end of another worker's lease, if that is later
	until   time.Time // the end of its own lease
}

// The statements look up each item by its id (package pg, plans.go): CASE and coalesce hide kind
// and due time, because a plan made while the table was nearly empty would otherwise use the index
// of all due items. The arrays are sorted, so the rows are locked in the order of their ids.
const (
	dueSQL = `
		SELECT w.id, w.version, greatest(w.due_at, w.leased_until) FROM unnest($2::uuid[]) AS m (id) JOIN work w ON w.id = ANY(ARRAY[m.id])
		WHERE CASE w.kind WHEN $1 THEN true ELSE false END AND coalesce(w.due_at, 'infinity') <= $3 AND coalesce(w.leased_until, '-infinity') <= $3`
	takeSQL = `
		DELETE FROM work w USING unnest($2::uuid[]) AS m (id)
		WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN true ELSE false END AND coalesce(w.due_at, 'infinity') <= $3 AND coalesce(w.leased_until, '-infinity') <= $3
		RETURNING w.id`
	leaseSQL = `
		UPDATE work w SET leased_until = $4, expedited_at = NULL, version = nextval('work_version')
		FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS m (id, version, n)
		WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN w.version = m.version ELSE false END RETURNING m.n, w.version`
	finishSQL = `
		WITH done AS (
			DELETE FROM work w USING unnest($2::uuid[], $3::bigint[]) AS m (id, version)
			WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN w.version = m.version AND w.expedited_at IS NULL ELSE false END RETURNING m.version
		), later AS (
			UPDATE work w SET due_at = least(m.due, w.expedited_at), leased_until = NULL, expedited_at = NULL, version = nextval('work_version'), attempts = 0, last_error = ''
			FROM unnest($4::uuid[], $5::bigint[], $6::timestamptz[]) AS m (id, version, due)
			WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN w.version = m.version ELSE false END
			RETURNING m.version, CASE WHEN w.due_at < m.due THEN w.due_at END AS expedited
		) SELECT version, NULL::timestamptz FROM done UNION ALL SELECT version, expedited FROM later`
	// A separate statement, which sees an item as it was after finishSQL had waited for it.
	expeditedSQL = `
		UPDATE work w SET due_at = w.expedited_at, leased_until = NULL, expedited_at = NULL, version = nextval('work_version'), attempts = 0, last_error = ''
		FROM unnest($2::uuid[], $3::bigint[]) AS m (id, version)
		WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN w.version = m.version AND w.expedited_at IS NOT NULL ELSE false END RETURNING m.version, w.due_at`
)

// Due claims those of the given items that are due and not leased. It writes and locks nothing:
// others may claim the same items, and one of them records a result. Due and [Take] are the first
// SQL of nearly every task. They call Query themselves, as the calls to there are kept few
// (docs/architecture.md lists them).
func Due(ctx context.Context, q pg.Querier, kind Kind, now time.Time, ids []uuid.UUID) (map[uuid.UUID]Claim, error) {
	rows, _ := q.Query(ctx, dueSQL, string(kind), slices.Compact(sorted(ids)), now) // rows have the error too
	claims := make(map[uuid.UUID]Claim, len(ids))
	var c Claim
	_, err := pgx.ForEachRow(rows, []any{&c.ID, &c.Version, &c.DueAt}, func() error {
		claims[c.ID] = c
		return nil
	})
	return claims, err
}

// Take removes those of the given items that are due and not leased, and returns their ids: for
// work that is done in this transaction. Another transaction that takes one of them waits for the
// end of this one, and gets it only if this one is rolled back.
func Take(ctx context.Context, tx pg.Tx, kind Kind, now time.Time, ids []uuid.UUID) ([]uuid.UUID, error) {
	rows, _ := tx.Query(ctx, takeSQL, string(kind), slices.Compact(sorted(ids)), now) // as in Due
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Lease leases the items of claims until the given time, for work that calls a third party: nobody
// else can claim them before. Renew the lease of longer work with [KeepLease]. It returns the new
// claim of each; nil: the claim was lost to somebody else. If a claim is given twice, the first one
// gets the lease.
func Lease(ctx context.Context, q pg.Querier, kind Kind, until time.Time, claims []Claim) ([]*Claim, error) {
	ordered := inOrder(claims)
	ids, versions := split(ordered)
	rows := pg.Rows(ctx, q, leaseSQL, string(kind), ids, versions, until)
	leased := make(map[int64]*Claim, len(claims)) // matched by the version that was claimed
	var n int
	var version int64
	_, err := pgx.ForEachRow(rows, []any{&n, &version}, func() error {
		c := ordered[n-1]
		leased[c.Version] = &Claim{c.ID, version, c.DueAt, until}
		return nil
	})
	out := make([]*Claim, len(claims))
	for i, c := range claims {
		out[i] = leased[c.Version]
		delete(leased, c.Version)
	}
	return out, err
}

// Outcome is the result of the work on a claimed item.
type Outcome struct {
	Claim
	Next *time.Time // when it is due again; nil: it is done
}

// Finish gives items back, in the transaction that records the results: done ones are removed, the
// others are due again. An item that was expedited since it was leased is due at once instead.
// Finish reports for each whether its claim still stood; if it did not, nothing was changed, and
// the caller must record nothing. Only expedited items are enqueued: for the others, the caller
// returns the time to the queue (package retry).
func Finish(ctx context.Context, tx pg.Tx, kind Kind, outcomes []Outcome) (held []bool, err error) {
	var done, later []Claim
	next := make(map[int64]*time.Time, len(outcomes))
	for _, o := range outcomes {
		if _, twice := next[o.Version]; twice {
			continue // if a claim is given twice, the first one counts
		}
		if next[o.Version] = o.Next; o.Next == nil {
			done = append(done, o.Claim)
		} else {
			later = append(later, o.Claim)
		}
	}
	done, later = inOrder(done), inOrder(later)
	due := make([]time.Time, len(later))
	for i, c := range later {
		due[i] = *next[c.Version]
	}
	if len(done) > 0 && len(later) > 0 { // finishSQL locks them one after the other
		ids := make([]uuid.UUID, len(outcomes))
		for i, o := range outcomes {
			ids[i] = o.ID
		}
		if err := Lock(ctx, tx, kind, ids...); err != nil {
			return nil, err
		}
	}
	doneIDs, doneVersions := split(done)
	laterIDs, laterVersions := split(later)
	stood := make(map[int64]*time.Time, len(outcomes)) // when an expedited item is due
	given := func(sql string, args ...any) error {
		rows := pg.Rows(ctx, tx, sql, args...)
		var version int64
		var at *time.Time
		_, err := pgx.ForEachRow(rows, []any{&version, &at}, func() error {
			stood[version], at = at, nil
			return nil
		})
		return err
	}
	if err := given(finishSQL, string(kind), doneIDs, doneVersions, laterIDs, laterVersions, due); err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(done, func(c Claim) bool { _, ok := stood[c.Version]; return ok })
	if len(left) > 0 {
		ids, versions := split(left)
		if err := given(expeditedSQL, string(kind), ids, versions); err != nil {
			return nil, err
		}
	}
	if err := enqueueExpedited(ctx, tx, kind, outcomes, stood); err != nil {
		return nil, err
	}
	held = make([]bool, len(outcomes))
	for i, o := range outcomes {
		_, held[i] = stood[o.Version]
		delete(stood, o.Version)
	}
	return held, nil
}

// enqueueExpedited enqueues the items that are due sooner than their outcomes say.
func enqueueExpedited(ctx context.Context, tx pg.Tx, kind Kind, outcomes []Outcome, dueAt map[int64]*time.Time) error {
	var ids []uuid.UUID
	var last time.Time
	for _, o := range outcomes {
		if at := dueAt[o.Version]; at != nil {
			if ids = append(ids, o.ID); at.After(last) {
				last = *at
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := Expedite(ctx, tx, kind, last, slices.Compact(sorted(ids))...) // they are due already
	return err
}

func inOrder(claims []Claim) []Claim {
	return slices.SortedFunc(slices.Values(claims), func(a, b Claim) int { return pg.CompareIDs(a.ID, b.ID) })
}

func split(claims []Claim) (ids []uuid.UUID, versions []int64) {
	ids, versions = make([]uuid.UUID, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		ids[i], versions[i] = c.ID, c.Version
	}
	return ids, versions
}

// firstDelay and longestDelay bound how long an item waits after failures: twice as long with each.
const (
	firstDelay   = 5 * time.Second
	longestDelay = time.Hour
)

const postponeSQL = `
	UPDATE work SET attempts = attempts + 1, last_error = $4,
		due_at = $3::timestamptz + least($5::interval * power(2, least(attempts, 20)), $6::interval)
	WHERE kind = $1 AND id = $2 AND due_at <= $3 RETURNING due_at`

// Postpone puts off an item whose handling failed unexpectedly at the time now, longer with each
// failure, so that an item that always fails neither fills the sweep's page nor keeps workers busy.
// Its lease and claims stay valid, since their holder may still be at work. The returned time is
// zero if the item is no longer due.
func Postpone(ctx context.Context, q pg.Querier, kind Kind, id uuid.UUID, now time.Time, why error) (at time.Time, err error) {
	err = q.QueryRow(ctx, postponeSQL, string(kind), id, now, why.Error(), firstDelay, longestDelay).Scan(&at)
	return at, pg.OrNone(err, nil)
}
