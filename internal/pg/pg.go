// Package pg opens the pool and runs transactions.
//
// It owns no table. A use case opens the transaction with [InTx] and passes it down as a
// [Querier]; no transaction is ever held across a call to the network.
package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// Querier is what a pool and a transaction share.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error)
}

// Tx is an open transaction. Functions that must run inside one take a Tx, the others a [Querier].
type Tx = pgx.Tx

// Pool is the connection pool.
type Pool = pgxpool.Pool

const (
	// below every context deadline: a context that ends would close the connection
	statementTimeout = 15 * time.Second
	lockTimeout      = 10 * time.Second
	txRetries        = 5 // of a serialization failure or a deadlock
)

// Open connects to url, with at most maxConns connections (0: pgx's default), and checks that the
// server answers. The server ends a statement after 15 s, a wait for a lock after 10 s, and an idle
// transaction after 30 s. Times come back in UTC.
func Open(ctx context.Context, url string, maxConns int32) (*Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres address: %w", err)
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	p := cfg.ConnConfig.RuntimeParams
	setDefault(p, "application_name", "ajo")
	setDefault(p, "statement_timeout", fmt.Sprint(statementTimeout.Milliseconds()))
	setDefault(p, "lock_timeout", fmt.Sprint(lockTimeout.Milliseconds()))
	setDefault(p, "idle_in_transaction_session_timeout", "30000")
	// A plan that is made once for all values goes by the tables' size at that time, and young
	// tables are read whole: on a fresh database batches of a hundred rows then read all rows,
	// until the server's next ANALYZE. A plan each costs less than that.
	setDefault(p, "plan_cache_mode", "force_custom_plan")
	p["timezone"] = "UTC"
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	cfg.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		// else each element of an array of ids goes through reflection and a text
		pgxuuid.Register(c.TypeMap())
		if t, ok := c.TypeMap().TypeForOID(pgtype.UUIDOID); ok {
			c.TypeMap().RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: uuidArray{&pgtype.ArrayCodec{ElementType: t}}})
		}
		c.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres does not answer: %w", err)
	}
	return pool, nil
}

func setDefault(m map[string]string, k, v string) {
	if _, ok := m[k]; !ok {
		m[k] = v
	}
}

// InTx runs fn in a transaction and commits it; any error of fn rolls it back. A serialization
// failure or a deadlock runs fn again, up to five times, so fn must have no effect outside the
// transaction. When the answer to COMMIT is lost the error is returned although the transaction may
// stand: callers rely on the row's state, never on this error.
func InTx(ctx context.Context, pool *Pool, fn func(tx Tx) error) error {
	return inTx(ctx, pool, pgx.TxOptions{}, fn)
}

func inTx(ctx context.Context, pool *Pool, o pgx.TxOptions, fn func(tx Tx) error) error {
	var err error
	for try := range txRetries {
		if err = pgx.BeginTxFunc(ctx, pool, o, fn); !IsRetryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try+1) * 5 * time.Millisecond):
		}
	}
	return err
}

// beginBatch begins the transaction of a batch. Its statements reach each row by a key that the
// batch names, so one plan holds for any number of rows and any size of the tables: it is made once
// a connection, where planning each statement anew took a seventh of what a batch costs the server.
// What must not happen is a plan that was made while a table was young, and reads all of it for
// ever; so none that reads a table whole is considered. The settings end with the transaction.
const beginBatch = `begin; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off`

// InBatch is [InTx] for the statements of a batch, which reach every row through an index.
func InBatch(ctx context.Context, pool *Pool, fn func(tx Tx) error) error {
	return inTx(ctx, pool, pgx.TxOptions{BeginQuery: beginBatch}, fn)
}

// Batch runs one statement of a batch as [InBatch] does, and returns its rows.
func Batch[T any](ctx context.Context, pool *Pool, row pgx.RowToFunc[T], sql string, args ...any) (found []T, err error) {
	err = InBatch(ctx, pool, func(tx Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err == nil {
			found, err = pgx.CollectRows(rows, row)
		}
		return err
	})
	return found, err
}

// IsRetryable tells whether err is a serialization failure or a deadlock: nothing was done, and the
// same again may work.
func IsRetryable(err error) bool {
	code := Code(err)
	return code == "40001" || code == "40P01"
}

// IsUnique tells whether err is the violation of the named unique constraint or index (any, when
// name is empty).
func IsUnique(err error, name string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" && (name == "" || e.ConstraintName == name)
}

// Code returns the SQLSTATE in err's chain, or "".
func Code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// IsNoRows tells whether err says that a query found no row.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// IsData tells whether err is the server's refusal of what a statement carries (SQLSTATE classes 22
// and 23): the same statement without the bad row would work, so a batch is worth trying row by
// row.
func IsData(err error) bool {
	code := Code(err)
	return len(code) == 5 && (code[:2] == "22" || code[:2] == "23")
}
