// Package pg opens the pool and runs transactions, one caller's or many callers' at once.
//
// It owns no table. A use case opens the transaction with [InTx], or works on many callers' items
// in one with a [Batcher]; no transaction is ever held across a call to the network. How Postgres
// plans the statements of a batch is explained in plans.go.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// Pool is the connection pool.
type Pool = pgxpool.Pool

const (
	// below every context deadline: a context that ends would close the connection
	statementTimeout = 15 * time.Second
	lockTimeout      = 10 * time.Second
	connectTimeout   = 5 * time.Second
)

// Open connects to url, with at most maxConns connections (0: pgx's default), and checks that the
// server answers. It takes only a server that accepts writes, of several hosts the one that does,
// unless the url says otherwise (target_session_attrs), but never one from which another has taken
// over. The server ends a statement after 15 s, a wait for a lock after 10 s, and an idle
// transaction after 30 s; a server that takes longer than 5 s to connect to is none, and one that
// has not acknowledged anything for a minute is gone. A url may name other times, as
// statement_timeout and connect_timeout. Times come back in UTC.
func Open(ctx context.Context, url string, maxConns int32) (*Pool, error) {
	pool, err := newPool(ctx, url, maxConns, true)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres does not answer: %w", err)
	}
	return pool, nil
}

// OpenStandby is [Open] for a server that is only read from, and need not answer yet. Of several
// hosts it takes a standby.
func OpenStandby(ctx context.Context, url string, maxConns int32) (*Pool, error) {
	return newPool(ctx, url, maxConns, false)
}

// newPool makes a pool that has no connection yet, to a primary or to a standby.
func newPool(ctx context.Context, url string, maxConns int32, primary bool) (*Pool, error) {
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
	// see plans.go
	setDefault(p, "plan_cache_mode", "force_custom_plan")
	setDefault(p, "jit", "off")
	p["timezone"] = "UTC"
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectTimeout)
	cfg.ConnConfig.DialFunc = dialer.DialContext
	cfg.ConnConfig.OnNotice = noteWarning
	h := &poolHistory{}
	switch {
	case primary:
		h.follow(ctx, cfg.ConnConfig)
	case cfg.ConnConfig.ValidateConnect == nil && severalHosts(&cfg.ConnConfig.Config):
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsStandby
	}
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
	h.keep(pool)
	return pool, nil
}

// severalHosts reports whether the address names more than one server. (Fallbacks are also other
// ways to the same one.)
func severalHosts(c *pgconn.Config) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
}

func setDefault(m map[string]string, k, v string) {
	if _, ok := m[k]; !ok {
		m[k] = v
	}
}

// isRetryable reports whether err is a serialization failure or a deadlock: nothing was done, and
// the same again may work.
func isRetryable(err error) bool {
	code := Code(err)
	return code == "40001" || code == "40P01"
}

// IsUnique reports whether err is the violation of the named unique constraint or index (any, when
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

// IsNoRows reports whether err says that a query found no row.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// OrNone is err, or none in its place when err says that a query found no row.
func OrNone(err, none error) error {
	if IsNoRows(err) {
		return none
	}
	return err
}

// IsData reports whether err is the server's refusal of what a statement carries (SQLSTATE classes
// 22 and 23): the same statement without the bad row would work, so a batch is worth trying row by
// row.
func IsData(err error) bool {
	code := Code(err)
	return len(code) == 5 && (code[:2] == "22" || code[:2] == "23")
}
