package pg

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ajo/internal/clock"
)

// Tx is an open transaction of [InTx], [Snapshot] or a [Batcher]. Functions that must run inside
// one take a Tx, the others a [Querier].
type Tx struct {
	pgx.Tx
	pool  *Pool
	hooks *[]func(ctx context.Context)
}

// Pool is the pool that the transaction's connection is of.
func (tx Tx) Pool() *Pool { return tx.pool }

// AfterCommit has fn run once the transaction is committed: after the COMMIT was answered, before
// the caller of [InTx] or of the [Batcher] goes on. It runs once, in the order of the calls, and
// not after a rollback or for an attempt that is repeated. It cannot fail the caller: what it fails
// to do must be found in the tables later.
//
// If the answer to COMMIT is lost, it does not run either, although the transaction may stand. So
// it may only do what can be left out, such as enqueueing a task for a row that the sweep finds.
func (tx Tx) AfterCommit(fn func(ctx context.Context)) { *tx.hooks = append(*tx.hooks, fn) }

const (
	// of a transaction, when it meets a serialization failure or a deadlock
	txAttempts  = 5
	hookTimeout = 10 * time.Second // of all that one transaction does after its commit
)

// InTx runs fn in a transaction and commits it; any error of fn rolls it back. A serialization
// failure or a deadlock runs fn again, up to five times, so fn must have no effect outside the
// transaction but by [Tx.AfterCommit]. When the answer to COMMIT is lost the error is returned
// although the transaction may stand: callers rely on the row's state, never on this error.
func InTx(ctx context.Context, pool *Pool, fn func(tx Tx) error) error {
	hooks, err := transact(ctx, pool, pgx.TxOptions{}, fn)
	runHooks(ctx, hooks)
	return err
}

// Snapshot runs fn in a transaction that only reads, and sees the database as of one moment.
func Snapshot(ctx context.Context, pool *Pool, fn func(tx Tx) error) error {
	_, err := transact(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
	return err
}

// SetTimeout bounds each later statement of a transaction, instead of the pool's bound.
func SetTimeout(ctx context.Context, tx Tx, d time.Duration) error {
	_, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, strconv.FormatInt(d.Milliseconds(), 10))
	return err
}

// Reading runs fn in a transaction that only reads, planned as a batch's: see plans.go.
func Reading(ctx context.Context, pool *Pool, fn func(tx Tx) error) error {
	_, err := transact(ctx, pool, pgx.TxOptions{BeginQuery: beginReading}, fn)
	return err
}

// transact returns what is to run after the commit.
func transact(ctx context.Context, pool *Pool, o pgx.TxOptions, fn func(tx Tx) error) (hooks []func(context.Context), err error) {
	for attempt := 1; ; attempt++ {
		hooks = nil // of the last attempt alone
		err = func() error {
			tx, err := begin(ctx, pool, o)
			if err != nil {
				return err
			}
			defer tx.release(ctx)
			if err := fn(Tx{tx.Tx, pool, &hooks}); err != nil {
				return err
			}
			return tx.commit(ctx)
		}()
		if err == nil {
			return hooks, nil
		}
		if !again(ctx, err, attempt) {
			return nil, err
		}
	}
}

// errOneServer is a commit that a synchronous standby has not confirmed. It stands, unless the
// primary dies.
var errOneServer = errors.New("committed on one server only: the wait for its synchronous standby was cancelled")

// mayStand is the error of a commit that the server has not refused: the transaction may stand.
type mayStand struct{ error }

func (e mayStand) Unwrap() error { return e.error }

// begun is a transaction that [begin] began, and its connection. release it in any case.
type begun struct {
	pgx.Tx
	conn *pgxpool.Conn
}

func begin(ctx context.Context, pool *Pool, o pgx.TxOptions) (begun, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return begun{}, err
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		conn.Release()
		return begun{}, err
	}
	return begun{tx, conn}, nil
}

// commit commits. Where a commit waits for a synchronous standby, and somebody cancels the wait,
// Postgres answers COMMIT with success and a warning. A failover would lose such a transaction, so
// it counts as one whose answer was lost.
func (tx begun) commit(ctx context.Context) error {
	if err := tx.Commit(ctx); err != nil {
		if Code(err) != "" || errors.Is(err, pgx.ErrTxCommitRollback) {
			return err
		}
		return mayStand{err}
	}
	if seen := tx.conn.Conn().PgConn().CustomData(); seen[onOneServer] != nil {
		delete(seen, onOneServer)
		return mayStand{errOneServer}
	}
	return nil
}

// release rolls back what was not committed, and gives the connection back.
func (tx begun) release(ctx context.Context) {
	_ = tx.Rollback(ctx) // an error: it has ended, or its connection has, which ends it
	tx.conn.Release()
}

// onOneServer marks a connection whose last commit a standby has not confirmed.
const onOneServer = "ajo: committed on one server"

// noteWarning is a connection's handler of the server's notices. The function's name is the same in
// every language that a server may warn in.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		c.CustomData()[onOneServer] = true
	}
}

// again reports whether a transaction that failed with err is to be repeated, and waits until then.
func again(ctx context.Context, err error, attempt int) bool {
	if !isRetryable(err) || attempt == txAttempts {
		return false
	}
	return clock.Sleep(ctx, time.Duration(attempt)*5*time.Millisecond) == nil
}

// runHooks runs what a transaction registered for after its commit, even if the caller has gone.
func runHooks(ctx context.Context, hooks []func(context.Context)) {
	if len(hooks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTimeout)
	defer cancel()
	for _, hook := range hooks {
		runHook(ctx, hook)
	}
}

func runHook(ctx context.Context, hook func(context.Context)) {
	defer func() {
		if p := recover(); p != nil { // a bug; the transaction stands all the same
			slog.ErrorContext(ctx, "panic after a commit", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	hook(ctx)
}

// Rows runs a query. If it fails, whatever reads the rows returns the error, as [pgx.ForEachRow]
// does.
func Rows(ctx context.Context, q Querier, sql string, args ...any) pgx.Rows {
	rows, _ := q.Query(ctx, sql, args...) // rows have the error too
	return rows
}

// Collect runs a query and returns its rows.
func Collect[T any](ctx context.Context, q Querier, row pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := q.Query(ctx, sql, args...) // as in Rows
	return pgx.CollectRows(rows, row)
}
