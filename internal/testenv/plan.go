package testenv

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"

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
	plan, err := explainBatch(e.T.Context(), e.Pool, sql)
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
	rows, err := tx.Query(ctx, "EXPLAIN "+sql, args...)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
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
	r := &recorder{}
	cfg := e.Pool.Config()
	cfg.ConnConfig.Tracer = r
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		e.T.Fatalf("testenv: %v", err)
	}
	e.T.Cleanup(pool.Close)
	return pool, r.take
}

type recorder struct {
	mu   sync.Mutex
	seen []Statement
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, Statement{q.SQL, q.Args})
	return ctx
}

func (*recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *recorder) take() []Statement {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

var (
	stepRows    = regexp.MustCompile(`\(actual rows=(\d+)[.\d]* loops=(\d+)\)`)
	droppedRows = regexp.MustCompile(`Rows Removed by [^:]+: (\d+)`)
)

// MostRows runs a query and returns the largest number of rows that one step of its plan looked at,
// those that it dropped included, and the plan.
func (e *Env) MostRows(s Statement) (most int, plan string) {
	e.T.Helper()
	plan = e.explain("", "(ANALYZE, TIMING OFF) "+s.SQL, s.Args...)
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
