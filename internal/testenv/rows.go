package testenv

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Touches runs do, and fails the test if a row has changed or is gone that has none of the words in
// its text, as "table (column,column,…)". So it notices a statement that has forgotten whose rows
// it is about.
func (e *Env) Touches(do func(), words ...string) {
	e.T.Helper()
	before := e.rows()
	do()
	after := e.rows()
	for row := range before {
		if !after[row] && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(row, w) }) {
			e.T.Errorf("testenv: this row has changed, or is gone: %s", row)
		}
	}
}

// Untouched fails the test at its end if one of the rows that are there now and have one of the
// words in their text has changed by then, or is gone: those of a neighbour, whom the test is not
// about.
func (e *Env) Untouched(words ...string) {
	e.T.Helper()
	before := e.rows()
	e.T.Cleanup(func() {
		if e.T.Failed() {
			return
		}
		after := e.rows()
		for row := range before {
			if !after[row] && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(row, w) }) {
				e.T.Errorf("testenv: this row of a neighbour has changed, or is gone: %s", row)
			}
		}
	})
}

// filledSQL lists the tables that have a page. To read the others too, Postgres would have to look
// up all their columns, indexes and partitions.
const filledSQL = `
	SELECT DISTINCT coalesce(p.relname, c.relname)
	FROM pg_class c LEFT JOIN (pg_inherits i JOIN pg_class p ON p.oid = i.inhparent) ON i.inhrelid = c.oid
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND (pg_stat_file(pg_relation_filepath(c.oid))).size > 0`

// rows are the rows of all tables.
func (e *Env) rows() map[string]bool {
	e.T.Helper()
	ctx := context.Background()
	tables, err := pg.Collect(ctx, e.Pool, pgx.RowTo[string], filledSQL)
	must(e.T, err)
	parts := make([]string, len(tables))
	for i, table := range tables {
		parts[i] = "SELECT '" + table + " ' || r::text FROM " + pgx.Identifier{table}.Sanitize() + " r"
	}
	all := map[string]bool{}
	if len(parts) == 0 {
		return all
	}
	found, err := pg.Collect(ctx, e.Pool, pgx.RowTo[string], strings.Join(parts, " UNION ALL "))
	must(e.T, err)
	for _, row := range found {
		all[row] = true
	}
	return all
}
