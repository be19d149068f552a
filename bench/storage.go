package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// table is what one table takes, with its indexes and its free space, and how many rows it has had
// that only a vacuum removes: deleted ones, and updated ones that have left their page (not HOT).
type table struct {
	Name       string
	Size, Dead int64
}

// A partition counts for its table.
const tablesSQL = `SELECT coalesce(pg_partition_root(relid), relid)::regclass::text, sum(pg_total_relation_size(relid))::bigint,
	sum(n_tup_upd - n_tup_hot_upd + n_tup_del)::bigint FROM pg_stat_user_tables GROUP BY 1`

// tables are those of the world's database, after a vacuum. What runs in the roles is not yet
// counted by Postgres.
func (w *world) tables(ctx context.Context) (map[string]table, error) {
	if err := patiently(ctx, w.pool, "VACUUM"); err != nil {
		return nil, err
	}
	rows, err := w.pool.Query(ctx, tablesSQL)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	found := map[string]table{}
	for _, t := range all {
		found[t.Name] = t
	}
	return found, err
}

// stored adds what each of n payments has taken since the tables were as before: of the disk, of
// the write-ahead log, and of a vacuum's work. It ends the roles, so that Postgres has counted all.
func (r *run) stored(ctx context.Context, f *flow, row string, before map[string]table, u usage, n int) error {
	f.worker.Stop(syscall.SIGTERM, stopLimit)
	f.api.Stop(syscall.SIGTERM, stopLimit)
	after, err := f.tables(ctx)
	if err != nil {
		return err
	}
	var sum table
	var sizes, dead []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		size, left := after[name].Size-before[name].Size, after[name].Dead-before[name].Dead
		sum.Size += size
		if name != "work" { // its rows are removed by design
			sum.Dead += left
		}
		if each := float64(size) / float64(n); each >= 1 {
			sizes = append(sizes, fmt.Sprintf("%s %.0f", name, each))
		}
		if each := float64(left) / float64(n); each >= 0.005 {
			dead = append(dead, fmt.Sprintf("%s %.2f", name, each))
		}
	}
	each := func(what, unit string, sum int64, goal float64, note string) {
		r.add(figure{Row: row, What: what, Unit: unit, Value: float64(sum) / float64(n), Goal: goal, AtMost: true, Note: note})
	}
	of := fmt.Sprintf("of %d payments", n)
	each("disk a payment, indexes and free space included", "B", sum.Size, 3000, of+", after a vacuum: "+strings.Join(sizes, ", "))
	each("WAL a payment", "B", u.wal, 8000, of+" after a checkpoint")
	each("dead rows a payment, but for those of work", "", sum.Dead, 0.5, of+", deleted, or updated and not HOT: "+strings.Join(dead, ", "))
	return nil
}
