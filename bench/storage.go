package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// table is what one table takes, with its indexes and its free space, and how many rows it has had
// that only a vacuum removes: deleted ones, and updated ones that have left their page (not HOT).
type table struct {
	Name       string
	Size, Dead int64
	Rows       int64            // bytes of the pages without the indexes
	Indexes    map[string]int64 // bytes, by what follows the table's name in the index's
}

// A partition counts for its table, and its indexes for the table's.
const tablesSQL = `
	WITH t AS (
		SELECT relid, coalesce(pg_partition_root(relid), relid)::regclass::text AS name, n_tup_upd - n_tup_hot_upd + n_tup_del AS dead FROM pg_stat_user_tables),
	i AS (
		SELECT t.name, CASE WHEN r.root IS NULL THEN replace(x.indexrelname, x.relname || '_', '') ELSE replace(r.root::text, t.name || '_', '') END AS part,
			sum(pg_relation_size(x.indexrelid)) AS bytes
		FROM t JOIN pg_stat_user_indexes x USING (relid) CROSS JOIN LATERAL (SELECT pg_partition_root(x.indexrelid)::regclass AS root) r
		GROUP BY 1, 2)
	SELECT name, sum(pg_total_relation_size(relid))::bigint, sum(dead)::bigint, sum(pg_table_size(relid))::bigint,
		coalesce((SELECT jsonb_object_agg(part, bytes) FROM i WHERE i.name = t.name), '{}')
	FROM t GROUP BY name`

// tables are those of the world's database, after a vacuum. What runs in the roles is not yet
// counted by Postgres.
func (w *world) tables(ctx context.Context) (map[string]table, error) {
	if err := patiently(ctx, w.pool, "VACUUM"); err != nil {
		return nil, err
	}
	all, err := pg.Collect(ctx, w.pool, pgx.RowToStructByPos[table], tablesSQL)
	found := map[string]table{}
	for _, t := range all {
		found[t.Name] = t
	}
	return found, err
}

// stored adds what each of n payments has taken since the tables were as before: of the disk, of
// the write-ahead log, and of a vacuum's work. It ends the roles, so that Postgres has counted all.
// The disk is that of the tables whose rows stay.
func (r *run) stored(ctx context.Context, f *flow, row string, before map[string]table, u usage, n int) error {
	f.worker.Stop(syscall.SIGTERM, stopLimit)
	f.api.Stop(syscall.SIGTERM, stopLimit)
	after, err := f.tables(ctx)
	if err != nil {
		return err
	}
	var sum table
	var pending int64
	var sizes, dead []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		size, left := after[name].Size-before[name].Size, after[name].Dead-before[name].Dead
		// its rows are removed by design, and their space is used again: it grows until the second
		// vacuum (docs/scale.md)
		if name == "work" {
			pending = size
		} else {
			sum.Size += size
			sum.Dead += left
		}
		if size >= int64(n) {
			sizes = append(sizes, fmt.Sprintf("%s %.0f%s", name, float64(size)/float64(n), after[name].parts(before[name], n)))
		}
		if each := float64(left) / float64(n); each >= 0.005 {
			dead = append(dead, fmt.Sprintf("%s %.2f", name, each))
		}
	}
	each := func(what, unit string, sum int64, goal float64, note string) {
		r.add(figure{Row: row, What: what, Unit: unit, Value: float64(sum) / float64(n), Goal: goal, AtMost: true, Note: note})
	}
	of := fmt.Sprintf("of %d payments", n)
	each("disk a payment, indexes and free space included", "B", sum.Size, 3000,
		fmt.Sprintf("%s, after a vacuum: %s; not counted: work, whose space is used again, has grown by %d bytes in all", of, strings.Join(sizes, ", "), pending))
	each("WAL a payment", "B", u.wal, 8000, of+" after a checkpoint")
	each("dead rows a payment, but for those of work", "", sum.Dead, 0.5, of+", deleted, or updated and not HOT: "+strings.Join(dead, ", "))
	return nil
}

// parts are the bytes that each of n payments has added to the rows and to each index.
func (t table) parts(before table, n int) string {
	parts := []string{fmt.Sprintf("rows %.0f", float64(t.Rows-before.Rows)/float64(n))}
	for _, index := range slices.Sorted(maps.Keys(t.Indexes)) {
		if size := t.Indexes[index] - before.Indexes[index]; size >= int64(n) {
			parts = append(parts, fmt.Sprintf("%s %.0f", index, float64(size)/float64(n)))
		}
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
