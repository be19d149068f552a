package testenv

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ajo/internal/pg"
)

// Plan is how Postgres would run a statement with these values, on the tables as they are.
func (e *Env) Plan(sql string, args ...any) string {
	e.T.Helper()
	return e.explain("", sql, args...)
}

// IndexPlan is how Postgres would run a statement with these values if it read a table whole only
// where nothing else is possible: a test's tables are so small that it would rather do that.
func (e *Env) IndexPlan(sql string, args ...any) string {
	e.T.Helper()
	return e.explain("SET LOCAL enable_seqscan = off", sql, args...)
}

// BatchPlan is how Postgres would run a statement of a batch ([pg.Batcher]): planned once for all
// values, on the tables as they are, which in a test are empty. That is when the planner has least
// to go by, and what it chooses then stays for a connection's life.
func (e *Env) BatchPlan(sql string) string {
	e.T.Helper()
	plan, err := explainBatch(e.T.Context(), e.Pool, sql, allPartitions)
	if err != nil {
		e.T.Fatalf("plan of %s: %v", sql, err)
	}
	return plan
}

// explain asks for the plan of sql in a transaction of its own, after a setting ("": none).
func (e *Env) explain(setting, sql string, args ...any) (plan string) {
	e.T.Helper()
	ctx := e.T.Context()
	err := pg.InTx(ctx, e.Pool, func(tx pg.Tx) (err error) {
		if _, err = tx.Exec(ctx, setting); err == nil {
			plan, err = explained(ctx, tx, sql, args...)
		}
		return err
	})
	if err != nil {
		e.T.Fatalf("plan of %s: %v", sql, err)
	}
	return plan
}

func explained(ctx context.Context, tx pg.Tx, sql string, args ...any) (string, error) {
	lines, err := pg.Collect(ctx, tx, pgx.RowTo[string], "EXPLAIN "+sql, args...)
	return strings.Join(lines, "\n"), err
}

// Statement is a query as a pool was asked it.
type Statement struct {
	SQL  string
	Args []any
}

// Recorded returns another pool of the test's database, and a function that returns what it has
// been asked since the last call.
func (e *Env) Recorded() (*pg.Pool, func() []Statement) {
	e.T.Helper()
	var mu sync.Mutex
	var seen []Statement
	pool := e.traced(func(_ *pgx.Conn, q pgx.TraceQueryStartData) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, Statement{q.SQL, q.Args})
	})
	e.T.Cleanup(pool.Close)
	return pool, func() []Statement {
		mu.Lock()
		defer mu.Unlock()
		defer func() { seen = nil }()
		return seen
	}
}

// BeforeTheSecond returns another pool of the test's database, which calls do before it asks the
// second statement that contains the text, and the number of these so far.
func (e *Env) BeforeTheSecond(text string, do func()) (*pg.Pool, *atomic.Int64) {
	e.T.Helper()
	var asked atomic.Int64
	pool := e.traced(func(_ *pgx.Conn, q pgx.TraceQueryStartData) {
		if strings.Contains(q.SQL, text) && asked.Add(1) == 2 {
			do()
		}
	})
	e.T.Cleanup(pool.Close)
	return pool, &asked
}

// tracer is called with each statement that a pool is asked.
type tracer func(*pgx.Conn, pgx.TraceQueryStartData)

// TraceQueryStart makes it a tracer of pgx.
func (fn tracer) TraceQueryStart(ctx context.Context, c *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	fn(c, q)
	return ctx
}

// TraceQueryEnd makes it a tracer of pgx.
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart makes it a tracer of pgx's batches: it is called with each statement.
func (fn tracer) TraceBatchStart(ctx context.Context, c *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		fn(c, pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Arguments})
	}
	if c.PgConn().TxStatus() == 'I' { // it is a transaction of its own
		fn(c, pgx.TraceQueryStartData{SQL: "commit"})
	}
	return ctx
}

// TraceBatchQuery makes it a tracer of pgx's batches.
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd makes it a tracer of pgx's batches.
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// traced is a pool like the test's, with a tracer.
func (e *Env) traced(fn tracer) *pg.Pool {
	e.T.Helper()
	cfg := e.Pool.Config()
	cfg.ConnConfig.Tracer = fn
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(e.T, err)
	return pool
}

var (
	stepRows    = regexp.MustCompile(`\(actual rows=(\d+)[.\d]* loops=(\d+)\)`)
	droppedRows = regexp.MustCompile(`Rows Removed by [^:]+: (\d+)`)
)

// MostRows runs a query and returns the largest number of rows that one step of its plan looked at,
// those that it dropped included, and the plan.
func (e *Env) MostRows(s Statement) (most int, plan string) {
	e.T.Helper()
	return e.countRows("", s)
}

// MostRowsAsBatch is [Env.MostRows] of a batch's statement, for which no table is read whole
// (package pg, plans.go).
func (e *Env) MostRowsAsBatch(s Statement) (most int, plan string) {
	e.T.Helper()
	return e.countRows("SET LOCAL enable_seqscan = off", s)
}

func (e *Env) countRows(setting string, s Statement) (most int, plan string) {
	e.T.Helper()
	plan = e.explain(setting, "(ANALYZE, TIMING OFF) "+s.SQL, s.Args...)
	rows, loops := 0, 1
	for line := range strings.Lines(plan) {
		if m := stepRows.FindStringSubmatch(line); m != nil {
			rows, _ = strconv.Atoi(m[1])
			loops, _ = strconv.Atoi(m[2])
		} else if m := droppedRows.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			rows += n
		}
		most = max(most, rows*loops)
	}
	return most, plan
}
