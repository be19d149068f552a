package testenv

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"ajo/internal/partition"
	"ajo/internal/pg"
)

// batched notes what the batches of a test's pool ask Postgres.
type batched struct {
	mu  sync.Mutex
	in  map[*pgx.Conn]bool // the connections that are in a batch's transaction
	new []string
}

// asked are the statements that some test of this process has had checked.
var asked sync.Map

// note is a [tracer].
func (b *batched) note(c *pgx.Conn, q pgx.TraceQueryStartData) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(q.SQL)), " "); word {
	case "begin", "begin;":
		b.in[c] = strings.Contains(q.SQL, "force_generic_plan")
	case "commit", "rollback":
		delete(b.in, c)
	case "select", "insert", "update", "delete", "with":
		if strings.Contains(q.SQL, "force_generic_plan") { // [pg.CollectAsBatch]
			b.in[c] = true
			break
		}
		if !b.in[c] {
			break
		}
		if _, known := asked.LoadOrStore(q.SQL, true); !known {
			b.new = append(b.new, q.SQL)
		}
	}
}

// emptied are the tables whose rows all go again and again, and which vacuum finds empty then.
const emptied = "work, idempotency_keys, confirm_lists, reconcile_items, sessions"

// planDatabases are the databases in which all test processes ask for plans, by what follows the
// template's name: one as it was migrated, and one that vacuum has found empty.
var planDatabases = []string{"_new", vacuumedPlans}

const vacuumedPlans = "_vacuumed"

const undefinedTable = "42P01"

// allPartitions is a setting with which a plan shows the scans of all partitions.
const allPartitions = "SET LOCAL enable_partition_pruning = off"

// passed is the set, in the Redis of all test processes, of the statements whose plans have passed
// on this template.
func passed() string { return "ajo:testenv:planned:" + templateName }

// unplanned are the statements whose plans have not passed yet, in any process.
func unplanned(t testing.TB, c *redis.Client, statements []string) []string {
	t.Helper()
	ctx := context.Background()
	known := make([]*redis.BoolCmd, len(statements))
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, sql := range statements {
			known[i] = p.SIsMember(ctx, passed(), sql)
		}
		return nil
	}); err != nil {
		t.Fatalf("testenv: redis: %v", err)
	}
	var left []string
	for i, sql := range statements {
		if !known[i].Val() {
			left = append(left, sql)
		}
	}
	return left
}

// check asks for the plan of each statement that no test of the run has had checked yet, on tables
// without rows: a plan that a connection made then may serve a flood (package pg, plans.go). Each
// index must be read by its first column. By another it is read whole, which costs nothing as long
// as it is empty. What has passed in one process need not pass again in another.
func (b *batched) check(t testing.TB) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.new) == 0 || t.Failed() {
		return
	}
	ctx := context.Background()
	shared, _ := sharedRedis(t)
	statements := unplanned(t, shared, b.new)
	if len(statements) == 0 {
		return
	}
	for _, database := range planDatabases {
		pool, err := pg.Open(ctx, withDatabase(t, serverURL(t, "AJO_TEST_DATABASE_URL"), templateName+database), 1)
		must(t, err)
		defer pool.Close()
		firstOnce.Do(func() { first, errFirst = firstColumns(ctx, pool) })
		must(t, errFirst)
		for _, sql := range statements {
			plan, err := explainBatch(ctx, pool, sql, allPartitions)
			if pg.Code(err) == undefinedTable || strings.Contains(sql, "FROM pg_") {
				continue // of a table that the test made itself, or of Postgres
			}
			if err != nil {
				t.Errorf("testenv: plan of %s: %v", sql, err)
			} else if why := readsWhole(plan, first); why != "" {
				t.Errorf("testenv: on empty tables (%s) a batch reads %s:\n%s\n%s", database[1:], why, strings.TrimSpace(sql), plan)
			}
		}
	}
	if t.Failed() {
		return
	}
	members := make([]any, len(statements))
	for i, sql := range statements {
		members[i] = sql
	}
	must(t, shared.SAdd(ctx, passed(), members...).Err())
}

var (
	firstOnce sync.Once
	first     map[string]string
	errFirst  error
)

// firstColumns are the first columns, or expressions, of the indexes.
func firstColumns(ctx context.Context, q pg.Querier) (map[string]string, error) {
	rows := pg.Rows(ctx, q, `SELECT c.relname, pg_get_indexdef(c.oid, 1, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid`)
	first := map[string]string{}
	var index, column string
	_, err := pgx.ForEachRow(rows, []any{&index, &column}, func() error {
		first[index] = column
		return nil
	})
	return first, err
}

// explainBatch asks for the plan of a statement of a batch, after a setting ("": none).
func explainBatch(ctx context.Context, pool *pg.Pool, sql, setting string) (plan string, err error) {
	b := pg.NewBatcher(pool, pg.BatchOptions[int]{Max: 1}, func(ctx context.Context, tx pg.Tx, _ []int) ([]int, error) {
		if _, err := tx.Exec(ctx, setting); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, "PREPARE explained AS "+sql); err != nil {
			return nil, err
		}
		if plan, err = explained(ctx, tx, "EXECUTE explained"+nulls(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
		_, err := tx.Exec(ctx, "DEALLOCATE explained")
		return []int{0}, err
	})
	defer b.Close()
	_, err = b.Do(ctx, 0)
	return plan, err
}

// nulls are values for the parameters of a statement.
func nulls(sql string) string {
	params := 0
	for strings.Contains(sql, fmt.Sprintf("$%d", params+1)) {
		params++
	}
	if params == 0 {
		return ""
	}
	return " (" + strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ") + ")"
}

var scanned = regexp.MustCompile(`(?:Index (?:Only )?Scan (?:Backward )?using|Bitmap Index Scan on) (\S+)[^\n]*\n(?:\s+Index Cond: ([^\n]*))?`)

// partitionScan is a scan of a partition, with its condition.
var partitionScan = regexp.MustCompile(`Scan (?:using \S+ )?on (` + func() string {
	var names []string
	for _, table := range partition.Tables {
		names = append(names, table.Name)
	}
	return strings.Join(names, "|")
}() + `)_\w+ [^\n]*\n(?:\s+Index Cond: ([^\n]*))?`)

// readsWhole says what a plan reads whole: an index of which no condition names the first column,
// or a table.
func readsWhole(plan string, first map[string]string) string {
	for _, m := range scanned.FindAllStringSubmatch(plan, -1) {
		if column := first[m[1]]; !regexp.MustCompile(`\b` + regexp.QuoteMeta(column) + `\b`).MatchString(m[2]) {
			return fmt.Sprintf("all of %s, whose first column is %s", m[1], column)
		}
	}
	if strings.Contains(plan, "Seq Scan") {
		return "all of a table"
	}
	for _, m := range partitionScan.FindAllStringSubmatch(plan, -1) {
		if !strings.Contains(m[2], "ANY (ARRAY[") {
			return "every partition of " + m[1] + ", as it does not look each id up by ANY(ARRAY[id])"
		}
	}
	return ""
}
