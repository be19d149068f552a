// Package work owns the table of pending work: what is still to be done, when it is due, and which
// claim on it is valid.
//
// A row (an item) exists from the fact that makes it necessary until it is done. [Schedule] inserts
// it in the transaction of the fact; after the commit the process's enqueuer puts a task into the
// queue. A worker reads a due item ([Due]), leases it if it calls a third party ([Lease],
// [KeepLease]), and gives it back in the transaction of the result ([Finish]), as done or due
// again. An item that fails unexpectedly waits longer each time ([Postpone]). [Overdue] finds items
// whose tasks were lost.
//
// What always holds: the version of an item changes whenever it is scheduled, leased or given back,
// and no version occurs twice. A claim is the version that was read, so of several workers on one
// item, only one records a result. Read a claim before the facts that the work depends on.
//
// For the order of locks see docs/architecture.md.
package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Kind is a kind of work, and the name of its queue.
type Kind string

// The five kinds.
const (
	Ingest  Kind = "ingest"  // post a stored event to the ledger
	Confirm Kind = "confirm" // ask the bank about a posted payment
	Settle  Kind = "settle"  // submit and follow a transfer
	Deliver Kind = "deliver" // send an event to the tenant
	Expire  Kind = "expire"  // end a one-time account, close it at the bank
)

// Kinds lists them all, in the order in which a payment passes through them.
var Kinds = []Kind{Ingest, Confirm, Settle, Deliver, Expire}

// Item is one thing to be done.
type Item struct {
	Kind        Kind      `pg:"kind"`
	ID          uuid.UUID `pg:"id"`     // of the fact's row
	TenantID    uuid.UUID `pg:"tenant"` // uuid.Nil: not known, for an event that names no account
	DueAt       time.Time `pg:"due"`
	Traceparent string    `pg:"trace"`
}

// enqueuers are the functions that put items into the queue, by pool.
var enqueuers sync.Map

// EnqueueWith has enqueue called after each commit with the items that were scheduled through the
// pool. It must not wait for the network, since the committing caller waits for it. Without it, the
// sweep finds the items. The returned function removes it.
func EnqueueWith(pool *pg.Pool, enqueue func([]Item)) (stop func()) {
	enqueuers.Store(pool, enqueue)
	return func() { enqueuers.Delete(pool) }
}

// enqueueAfterCommit gives the items to the enqueuer of the transaction's pool after the commit.
func enqueueAfterCommit(tx pg.Tx, items []Item) {
	if enqueue, ok := enqueuers.Load(tx.Pool()); ok && len(items) > 0 {
		tx.AfterCommit(func(context.Context) { enqueue.(func([]Item))(items) })
	}
}

var scheduleSQL = `
	INSERT INTO work (kind, id, tenant_id, due_at, traceparent)
	SELECT kind, id, nullif(tenant, '00000000-0000-0000-0000-000000000000'), due, coalesce(trace, '')
	FROM ` + pg.Unnest[Item](1, "m") + `
	ON CONFLICT (id, kind) DO UPDATE SET due_at = excluded.due_at, leased_until = NULL, version = excluded.version, attempts = 0, last_error = '', expedited_at = NULL`

// Schedule makes items due, in the transaction of the facts that make them necessary. The commit
// enqueues them. An item that exists gets the new time, and claims on it are lost. The items of one
// call are about different rows.
func Schedule(ctx context.Context, tx pg.Tx, items ...Item) error {
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, func(a, b Item) int { return pg.CompareIDs(a.ID, b.ID) })
	if _, err := tx.Exec(ctx, scheduleSQL, pg.Columns(items)...); err != nil {
		return err
	}
	enqueueAfterCommit(tx, items)
	return nil
}

const expediteSQL = `
	UPDATE work w SET due_at = least(w.due_at, $3), expedited_at = CASE WHEN w.leased_until > $3 THEN $3 END FROM unnest($2::uuid[]) AS m (id)
	WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN true ELSE false END RETURNING w.id, coalesce(w.tenant_id, '00000000-0000-0000-0000-000000000000'), w.traceparent`

// Expedite makes items that exist due at the time now, if they are not yet, and enqueues them. It
// leaves claims on them valid: the holder of a lease gives the item back due at once, whatever its
// result ([Finish]), since that result may be older than the reason for expediting. It returns the
// ids that have an item.
func Expedite(ctx context.Context, tx pg.Tx, kind Kind, now time.Time, ids ...uuid.UUID) ([]uuid.UUID, error) {
	items, err := pg.Collect(ctx, tx, func(r pgx.CollectableRow) (Item, error) {
		m := Item{Kind: kind, DueAt: now}
		return m, r.Scan(&m.ID, &m.TenantID, &m.Traceparent)
	}, expediteSQL, string(kind), sorted(ids), now)
	if err != nil {
		return nil, err
	}
	enqueueAfterCommit(tx, items)
	found := make([]uuid.UUID, len(items))
	for i, m := range items {
		found[i] = m.ID
	}
	return found, nil
}

// staggerAhead is how soon a staggered item is due that is enqueued; the sweep finds the others.
const staggerAhead = time.Minute

const staggerSQL = `
	UPDATE work w SET due_at = least(w.due_at, $3::timestamptz + (m.n - 1) * $4::interval) FROM unnest($2::uuid[]) WITH ORDINALITY AS m (id, n)
	WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN coalesce(w.leased_until, '-infinity') <= $5 ELSE false END
	RETURNING w.id, coalesce(w.tenant_id, '00000000-0000-0000-0000-000000000000'), w.traceparent, w.due_at`

// Stagger makes items that exist due one after the other in the order of their ids, from a time on,
// if they are not due sooner. Those that somebody has leased at the time now stay as they are.
// Claims on the others stay valid.
func Stagger(ctx context.Context, tx pg.Tx, kind Kind, now, first time.Time, every time.Duration, ids ...uuid.UUID) error {
	items, err := pg.Collect(ctx, tx, func(r pgx.CollectableRow) (Item, error) {
		m := Item{Kind: kind}
		return m, r.Scan(&m.ID, &m.TenantID, &m.Traceparent, &m.DueAt)
	}, staggerSQL, string(kind), sorted(ids), first, every, now)
	if err != nil {
		return err
	}
	enqueueAfterCommit(tx, slices.DeleteFunc(items, func(m Item) bool { return m.DueAt.After(now.Add(staggerAhead)) }))
	return nil
}

// Cancel removes items, claimed or not: there is nothing left to do.
func Cancel(ctx context.Context, tx pg.Tx, kind Kind, ids ...uuid.UUID) error {
	_, err := tx.Exec(ctx, `DELETE FROM work w USING unnest($2::uuid[]) AS m (id) WHERE w.id = ANY(ARRAY[m.id]) AND CASE w.kind WHEN $1 THEN true ELSE false END`, string(kind), sorted(ids))
	return err
}

// Lock locks items in the order of their ids: before an operator's change to their facts, since
// workers lock the item first too, or before changing items in several steps.
func Lock(ctx context.Context, tx pg.Tx, kind Kind, ids ...uuid.UUID) error {
	_, err := tx.Exec(ctx, `SELECT FROM work WHERE id = ANY($2) AND CASE kind WHEN $1 THEN true ELSE false END ORDER BY id FOR UPDATE`, string(kind), ids)
	return err
}

// LockOrMake is [Lock] for a fact whose item may be gone: then it creates one, due as m says, so
// that nobody else begins to work on the fact meanwhile. A caller that schedules nothing removes
// the new item with [Cancel].
func LockOrMake(ctx context.Context, tx pg.Tx, m Item) (made bool, err error) {
	err = tx.QueryRow(ctx, `
		INSERT INTO work (kind, id, tenant_id, due_at, traceparent) VALUES ($1, $2, $3, $4, '')
		ON CONFLICT (id, kind) DO UPDATE SET due_at = work.due_at RETURNING xmax = 0`, string(m.Kind), m.ID, m.TenantID, m.DueAt).Scan(&made)
	return made, err
}

// Leased reports whether somebody has leased the item.
func Leased(ctx context.Context, q pg.Querier, kind Kind, id uuid.UUID, now time.Time) (leased bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM work WHERE kind = $1 AND id = $2 AND leased_until > $3)`, string(kind), id, now).Scan(&leased)
	return leased, err
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), pg.CompareIDs)
}
