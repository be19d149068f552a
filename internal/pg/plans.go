package pg

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// How the statements of a batch are planned, and what they do to be planned well.
//
// A single statement is planned anew each time (force_custom_plan, in [Open]). A plan that is kept
// goes by the tables' sizes at the time it was made. If that was on a young database it reads whole
// tables until the next ANALYZE, and planning costs less than that.
//
// Nothing is compiled to machine code (jit is off, in [Open]): a statement would be compiled anew
// with each plan, which took longer than to run it, up to a second for each check of the books.
//
// A batch's statements reach each row by a key that the batch names. One plan is right for any
// number of rows and any size of the tables, so it is made once per connection (a seventh of what
// a batch costs the server was planning). It must be right even though it is made while the tables
// are empty, and the planner has nothing to go by:
//
//   - Sequential scans, hash joins and merge joins are off, so that no table is read whole.
//   - "t.id = ANY(ARRAY[m.id])" instead of "t.id = m.id", where the planner must have no choice but
//     the lookup by key: on a table of less than a hundred rows it reads the whole index otherwise.
//   - coalesce(w.due_at, 'infinity') <= $3 hides the due time. The planner would use the
//     index of all that is due, and read a whole backlog for each batch.
//   - CASE t.status WHEN 'pending' THEN … hides a status for the same reason, where an index has
//     it.
//   - A condition that a partial unique index needs (that a reference is not empty) is asked of the
//     table's row, not of the row that is looked for: only so does the planner see that the index
//     applies.
//   - "FROM unnest($1::uuid[]) AS m (id) JOIN t ON t.id = ANY(ARRAY[m.id])" instead of
//     "FROM t WHERE t.id = ANY($1)", where the table is partitioned by the id: each row is looked
//     up in its own partition. By an array each id would be looked up in every one. (The range of
//     the ids as a condition more would leave the others out, but the planner may read the range.)
//   - Rows that come from unnest are taken in their order, by a nested loop. An UPDATE … FROM
//     unnest(…) therefore locks in the order of the items, which a [Batcher] has sorted: no
//     SELECT … FOR UPDATE is needed first.
//
// A table whose rows all go again (work) has no index with the id behind other columns. To look an
// id up there is as cheap as in the primary key, as long as the table is empty; later it reads the
// whole index for each id.
//
// Each test asks Postgres for the plan of every batch statement that it ran, on empty tables
// (package testenv, batchplans.go).
const (
	beginBatch   = `begin` + planSettings
	beginReading = `begin read only` + planSettings
	// the same for what one round trip asks
	setPlans     = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	planSettings = `; set local plan_cache_mode = force_generic_plan; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off`
)

// PlanAsBatch has the statements that follow in a transaction planned as a batch's.
func PlanAsBatch(ctx context.Context, tx Tx) error {
	_, err := tx.Conn().PgConn().Exec(ctx, planSettings[2:]).ReadAll()
	return err
}

// CollectAsBatch is [Collect] with a statement that is planned as a batch's, in a transaction of
// its own. It takes one round trip, as Collect does. It serves a query whose planning costs more
// than its work, and which is asked for with each request.
func CollectAsBatch[T any](ctx context.Context, pool *Pool, row pgx.RowToFunc[T], sql string, args ...any) (list []T, err error) {
	var b pgx.Batch
	b.Queue(setPlans)
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		list, err = pgx.CollectRows(rows, row)
		return err
	})
	return list, pool.SendBatch(ctx, &b).Close()
}
