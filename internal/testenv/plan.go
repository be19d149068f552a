package testenv

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// BatchPlan is how Postgres would run a statement of a batch ([pg.InBatch]): planned once for all
// values, on the tables as they are, which in a test are empty. That is when the planner has least
// to go by, and what it chooses then stays for a connection's life.
func (e *Env) BatchPlan(sql string) string {
	e.T.Helper()
	params := 0
	for strings.Contains(sql, fmt.Sprintf("$%d", params+1)) {
		params++
	}
	var lines []string
	err := pg.InBatch(e.T.Context(), e.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(e.T.Context(), "PREPARE looked_at AS "+sql); err != nil {
			return err
		}
		rows, err := tx.Query(e.T.Context(), "EXPLAIN EXECUTE looked_at ("+strings.TrimSuffix(strings.Repeat("NULL, ", params), ", ")+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		_, err = tx.Exec(e.T.Context(), "DEALLOCATE looked_at")
		return err
	})
	if err != nil {
		e.T.Fatalf("plan of %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}
