package testenv

import (
	"context"
	"fmt"
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
	return e.explain(pg.InTx, "", "", sql, args...)
}

// IndexPlan is how Postgres would run a statement with these values if it read a table whole only
// where nothing else is possible: a test's tables are so small that it would rather do that.
func (e *Env) IndexPlan(sql string, args ...any) string {
	e.T.Helper()
	return e.explain(pg.InTx, "SET LOCAL enable_seqscan = off", "", sql, args...)
}

// BatchPlan is how Postgres would run a statement of a batch ([pg.Batcher]): planned once for all
// values, on the tables as they are, which in a test are empty. That is when the planner has least
// to go by, and what it chooses then stays for a connection's life.
func (e *Env) BatchPlan(sql string) string {
	e.T.Helper()
	params := 0
	for strings.Contains(sql, fmt.Sprintf("$%d", params+1)) {
		params++
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ")
	inBatch := func(ctx context.Context, pool *pg.Pool, fn func(pg.Tx) error) error {
		b := pg.NewBatcher(pool, pg.BatchOptions[int]{Max: 1}, func(_ context.Context, tx pg.Tx, _ []int) ([]int, error) { return []int{0}, fn(tx) })
		defer b.Close()
		_, err := b.Do(ctx, 0)
		return err
	}
	return e.explain(inBatch, "PREPARE explained AS "+sql, "DEALLOCATE explained", "EXECUTE explained ("+nulls+")")
}

// explain asks for the plan of sql in a transaction of its own, between the statements before and
// after ("": none).
func (e *Env) explain(in func(context.Context, *pg.Pool, func(pg.Tx) error) error, before, after, sql string, args ...any) string {
	e.T.Helper()
	ctx := e.T.Context()
	var lines []string
	err := in(ctx, e.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, before); err != nil {
			return err
		}
		if len(args) == 0 { // an EXECUTE has its values written out, and takes no others
			args = []any{pgx.QueryExecModeSimpleProtocol}
		}
		rows, err := tx.Query(ctx, "EXPLAIN "+sql, args...)
		if err != nil {
			return err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, after)
		return err
	})
	if err != nil {
		e.T.Fatalf("plan of %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
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
	plan = e.explain(pg.InTx, "", "", "(ANALYZE, TIMING OFF) "+s.SQL, s.Args...)
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
