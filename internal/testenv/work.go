package testenv

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/work"
)

// Schedule makes work on a row due at a time, claimed by nobody.
func (e *Env) Schedule(kind work.Kind, id uuid.UUID, at time.Time) {
	e.T.Helper()
	must(e.T, pg.InTx(context.Background(), e.Pool, func(tx pg.Tx) error {
		return work.Schedule(context.Background(), tx, work.Item{Kind: kind, ID: id, DueAt: at})
	}))
}

// Lease gives the work on a row to another worker until a time: whoever has claimed it has lost it.
func (e *Env) Lease(kind work.Kind, id uuid.UUID, until time.Time) {
	e.T.Helper()
	e.Exec(`UPDATE work SET leased_until = $3, version = nextval('work_version') WHERE kind = $1 AND id = $2`, string(kind), id, until)
}

// DueAt is when the work on a row is due; nil when nothing is left to do.
func (e *Env) DueAt(kind work.Kind, id uuid.UUID) *time.Time {
	e.T.Helper()
	return Value[*time.Time](e, `SELECT (SELECT due_at FROM work WHERE kind = $1 AND id = $2)`, string(kind), id)
}

// Overdue lists the rows of a kind that the sweep finds, of those that were due before the given
// time, at most limit.
func (e *Env) Overdue(kind work.Kind, now, before time.Time, limit int) []uuid.UUID {
	e.T.Helper()
	items, err := work.Overdue(context.Background(), e.Pool, now, []work.Span{{Kind: kind, Before: before}}, limit)
	must(e.T, err)
	var ids []uuid.UUID
	for _, m := range items {
		ids = append(ids, m.ID)
	}
	return ids
}

// LockWaits is how many of the test's connections wait for a lock.
func (e *Env) LockWaits() int {
	e.T.Helper()
	return Value[int](e, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// Meanwhile runs change in a transaction, starts call, commits the transaction once call waits for
// a lock, and returns what call returns: call has begun before the change is there. A call that
// waits for none fails the test.
func (e *Env) Meanwhile(change func(pg.Tx) error, call func() error) error {
	e.T.Helper()
	return e.InOrder(change, func(pg.Tx) error { return nil }, call)
}

// InOrder is [Env.Meanwhile] for a call that must lock first before later: a call that holds later
// while it waits for first fails the test, since it and a transaction that locks both in the
// documented order would wait for each other.
func (e *Env) InOrder(first, later func(pg.Tx) error, call func() error) error {
	e.T.Helper()
	ended := make(chan error, 1)
	must(e.T, pg.InTx(context.Background(), e.Pool, func(tx pg.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		go func() { ended <- call() }()
		Eventually(e.T, time.Minute, "the call to wait for a lock", func() bool {
			return e.LockWaits() > 0 || len(ended) > 0
		})
		if e.LockWaits() == 0 && len(ended) > 0 {
			e.T.Fatalf("testenv: the call waited for no lock, and returned %v", <-ended)
		}
		if _, err := tx.Exec(context.Background(), `SET LOCAL lock_timeout = '1ms'`); err != nil {
			return err
		}
		if err := later(tx); err != nil {
			e.T.Errorf("testenv: the call holds what it should lock later: %v", err)
			return err
		}
		return nil
	}))
	return <-ended
}

// Runs is a statement of a transaction, as [Env.InOrder] and its like take it.
func Runs(sql string, args ...any) func(pg.Tx) error {
	return func(tx pg.Tx) error {
		_, err := tx.Exec(context.Background(), sql, args...)
		return err
	}
}

// The rows that transactions of money wait for.

// LocksBalance locks the balance of an account.
func LocksBalance(account uuid.UUID) func(pg.Tx) error {
	return Runs(`SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, account)
}

// LocksItem locks the work on a row.
func LocksItem(id uuid.UUID) func(pg.Tx) error {
	return Runs(`SELECT FROM work WHERE id = $1 FOR UPDATE`, id)
}

// LocksFeed locks the feed of a tenant that listens.
func LocksFeed(tenant uuid.UUID) func(pg.Tx) error {
	return Runs(`SELECT pg_advisory_xact_lock(hashtextextended('listen ' || $1::uuid, 0))`, tenant)
}

// Beside runs call while a transaction holds what lock has locked, and returns what call returns. A
// call that waits for it fails the test.
func (e *Env) Beside(lock func(pg.Tx) error, call func() error) (err error) {
	e.T.Helper()
	ended := make(chan error, 1)
	must(e.T, pg.InTx(context.Background(), e.Pool, func(tx pg.Tx) error {
		if err := lock(tx); err != nil {
			return err
		}
		go func() { ended <- call() }()
		waits := 0
		Eventually(e.T, time.Minute, "the call to end", func() bool {
			waits = e.LockWaits()
			return waits > 0 || len(ended) > 0
		})
		if waits > 0 {
			e.T.Error("testenv: the call waits for a lock")
		}
		return nil
	}))
	return <-ended
}
