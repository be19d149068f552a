// Package partition makes and lists the partitions of the tables that grow with each payment and
// can be emptied by age: the bank's events and their bodies, deliveries and their attempts.
//
// Their ids are UUIDv7, whose first 48 bits are a time in milliseconds, so a range of ids is a
// range of time. The partitions of a table follow each other without a gap: the first has no
// beginning, the last has no end (and is named table_later). There is no DEFAULT partition, so a
// list in the order of ids reads one partition after the other and stops at its limit. And a row
// always has a place: if no partition was made ahead in time, rows go to the last one, which gets
// its end, with the rows in it, when partitions are made again.
package partition

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Table is a table that is partitioned by ranges of an id.
type Table struct {
	Name string
	Key  string // the column
}

// Tables are the partitioned tables. All are made by the migrations with one partition,
// table_later, which holds everything.
var Tables = []Table{{"inbound_events", "id"}, {"event_bodies", "event_id"}, {"deliveries", "id"}, {"delivery_attempts", "delivery_id"}}

// Partition is a partition of a table: the rows whose ids were made in [From, To).
type Partition struct {
	Table string
	Name  string
	From  time.Time // zero: from the beginning
	To    time.Time // zero: without an end
	Bytes int64     // on disk, with indexes
	Rows  int64     // as of the last vacuum or ANALYZE; -1: not known
}

// Floor is the least id of a time; the nil id of the zero time, which is no bound.
func Floor(t time.Time) (id uuid.UUID) {
	if t.IsZero() {
		return uuid.Nil
	}
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// TimeOf is when an id was made, in milliseconds.
func TimeOf(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

const listSQL = `
	SELECT p.relname::text, c.relname::text, coalesce(pg_get_expr(c.relpartbound, c.oid), ''), coalesce(pg_total_relation_size(c.oid), 0), c.reltuples::bigint
	FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
	WHERE p.oid = ANY($1::regclass[]) AND c.relkind = 'r' AND NOT i.inhdetachpending`

// bounds has '\S+' in it: either an id in quotes, or MINVALUE or MAXVALUE.
var bounds = regexp.MustCompile(`^FOR VALUES FROM \((\S+)\) TO \((\S+)\)$`)

// List lists all partitions: the tables in the order of [Tables], the oldest partition first.
func List(ctx context.Context, pool *pg.Pool) ([]Partition, error) {
	var all []Partition
	for _, t := range Tables {
		parts, err := t.list(ctx, pool)
		if err != nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

func (t Table) list(ctx context.Context, q pg.Querier) ([]Partition, error) {
	parts, err := pg.Collect(ctx, q, func(r pgx.CollectableRow) (p Partition, err error) {
		var bound string
		if err = r.Scan(&p.Table, &p.Name, &bound, &p.Bytes, &p.Rows); err != nil {
			return p, err
		}
		if bound == "" { // dropped at this moment
			return Partition{}, nil
		}
		m := bounds.FindStringSubmatch(bound)
		if m == nil {
			return p, fmt.Errorf("partition %s: bounds %q are no range of ids", p.Name, bound)
		}
		if p.From, err = readBound(m[1], "MINVALUE"); err == nil {
			p.To, err = readBound(m[2], "MAXVALUE")
		}
		return p, err
	}, listSQL, []string{t.Name})
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", t.Name, err)
	}
	parts = slices.DeleteFunc(parts, func(p Partition) bool { return p.Name == "" })
	slices.SortFunc(parts, func(a, b Partition) int { return a.From.Compare(b.From) })
	return parts, nil
}

func readBound(s, open string) (time.Time, error) {
	if s == open {
		return time.Time{}, nil
	}
	id, err := uuid.Parse(s[1 : len(s)-1])
	return TimeOf(id), err
}

// bound is the SQL of a bound.
func bound(id uuid.UUID, open string) string {
	if id == uuid.Nil {
		return open
	}
	return "'" + id.String() + "'"
}
