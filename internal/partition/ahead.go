package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// Size is how much time a partition covers, in UTC.
type Size string

// The sizes.
const (
	Month Size = "month"
	Week  Size = "week" // from Monday
	Day   Size = "day"
)

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(b []byte) error {
	switch *s = Size(b); *s {
	case Month, Week, Day:
		return nil
	}
	return errors.New("must be month, week or day")
}

// start is the beginning of the period that t lies in.
func (s Size) start(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	switch s {
	case Month:
		d = 1
	case Week:
		d -= (int(t.UTC().Weekday()) + 6) % 7
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// next is the end of the period that t lies in.
func (s Size) next(t time.Time) time.Time {
	t = s.start(t)
	switch s {
	case Month:
		return t.AddDate(0, 1, 0)
	case Week:
		return t.AddDate(0, 0, 7)
	}
	return t.AddDate(0, 0, 1)
}

// ahead is how many periods after the present one have their partitions.
func (s Size) ahead() int {
	return map[Size]int{Month: 2, Week: 4, Day: 14}[s]
}

// end is up to when partitions are made ahead.
func (s Size) end(now time.Time) time.Time {
	t := s.next(now)
	for range s.ahead() {
		t = s.next(t)
	}
	return t
}

// Newest is the size of the newest partition that has two ends; [Month] while there is none.
func Newest(ctx context.Context, q pg.Querier) (Size, error) {
	parts, err := Tables[0].list(ctx, q)
	for _, p := range slices.Backward(parts) {
		if p.From.IsZero() || p.To.IsZero() {
			continue
		}
		switch p.To.Sub(p.From) {
		case 24 * time.Hour:
			return Day, err
		case 7 * 24 * time.Hour:
			return Week, err
		}
		break
	}
	return Month, err
}

// lockTimeout bounds how long others wait behind a wait for the table: making partitions needs it
// alone for some milliseconds, and a long read (pg_dump, ajo ledger verify) holds it. Then the next
// call tries again; there is time.
const lockTimeout = "1s"

// aheadLock is taken while partitions are made: any number that nothing else locks.
const aheadLock = 7102

// MakeAhead makes the partitions of all tables that are missing up to some periods after now,
// unless another process is doing so. Rows that went to the last partition, because none was made
// in time, get theirs. If one table fails, the others still go on. It takes two connections of the
// pool.
func MakeAhead(ctx context.Context, pool *pg.Pool, size Size, now time.Time) error {
	var failed error
	err := pg.InTx(ctx, pool, func(tx pg.Tx) error { // which does nothing but hold the lock
		failed = nil
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		var ours bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, aheadLock).Scan(&ours); err != nil || !ours {
			return err
		}
		for _, t := range Tables {
			if err := t.makeAhead(ctx, pool, size, now); err != nil {
				failed = errors.Join(failed, fmt.Errorf("partitions of %s: %w", t.Name, err))
			}
		}
		return nil
	})
	return errors.Join(failed, err)
}

func (t Table) makeAhead(ctx context.Context, pool *pg.Pool, size Size, now time.Time) error {
	parts, err := t.list(ctx, pool)
	if err != nil {
		return err
	}
	if len(parts) == 0 || !parts[len(parts)-1].To.IsZero() {
		return errors.New("the last one has an end")
	}
	last, until := parts[len(parts)-1], size.end(now)
	if !last.From.Before(until) {
		return nil
	}
	ended, err := t.prepareEnd(ctx, pool, size, last, until)
	if err == nil {
		err = pg.InTx(ctx, pool, func(tx pg.Tx) error { return t.split(ctx, tx, size, last, ended, size.start(now), until) })
	}
	if err != nil { // a check that stays would refuse rows one day
		return errors.Join(err, run(ctx, pool, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", last.Name, rangeCheck)))
	}
	return nil
}

// prepareEnd looks for rows in the last partition. If there are any, it returns when that partition
// is to end, and has all rows checked against that, while rows come and go: it is not read once
// more while the table is locked.
func (t Table) prepareEnd(ctx context.Context, pool *pg.Pool, size Size, last Partition, until time.Time) (end time.Time, err error) {
	var newest uuid.UUID
	err = pool.QueryRow(ctx, fmt.Sprintf(`SELECT %[1]s FROM %[2]s ORDER BY %[1]s DESC LIMIT 1`, t.Key, last.Name)).Scan(&newest)
	if err != nil {
		return time.Time{}, pg.OrNone(err, nil)
	}
	if end = until; !TimeOf(newest).Before(end) {
		end = size.next(TimeOf(newest)) // made by a clock that is ahead
	}
	if end.UnixMilli() >= 1<<48 {
		return time.Time{}, fmt.Errorf("id %s is not a UUIDv7", newest)
	}
	check := fmt.Sprintf("CHECK (%s < %s)", t.Key, bound(Floor(end), ""))
	if !last.From.IsZero() {
		check = fmt.Sprintf("CHECK (%[1]s >= %[2]s AND %[1]s < %[3]s)", t.Key, bound(Floor(last.From), ""), bound(Floor(end), ""))
	}
	err = run(ctx, pool,
		fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s, ADD CONSTRAINT %[2]s %s NOT VALID", last.Name, rangeCheck, check))
	if err == nil {
		err = run(ctx, pool, "SET LOCAL statement_timeout = 0", fmt.Sprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", last.Name, rangeCheck))
	}
	return end, err
}

// rangeCheck is the name of a constraint that a partition has while it gets its end.
const rangeCheck = "partition_range"

func run(ctx context.Context, pool *pg.Pool, statements ...string) error {
	return pg.InTx(ctx, pool, func(tx pg.Tx) error { return Exec(ctx, tx, statements...) })
}

// Exec runs statements that lock tables for a moment: none waits longer than [lockTimeout].
func Exec(ctx context.Context, tx pg.Tx, statements ...string) error {
	for _, sql := range append([]string{"SET LOCAL lock_timeout = '" + lockTimeout + "'"}, statements...) {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// split makes the partitions from the last one's beginning up to until, with a new last one behind
// them. If the last one has rows, it ends at the given time and keeps them. What is older than
// first has one partition.
func (t Table) split(ctx context.Context, tx pg.Tx, size Size, last Partition, ended, first, until time.Time) error {
	if err := Exec(ctx, tx, fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s", t.Name, last.Name)); err != nil {
		return err
	}
	options, err := optionsOf(ctx, tx, last.Name)
	if err != nil {
		return err
	}
	model, from := last.Name, last.From
	var statements []string
	attach := func(name string, to time.Time) {
		statements = append(statements, attachSQL(t.Name, name, Floor(from), Floor(to)))
		from = to
	}
	create := func(name string) {
		statements = append(statements, createSQL(name, model, options)...)
	}
	if !ended.IsZero() {
		model = t.partition(from)
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s RENAME TO %s", last.Name, model))
		attach(model, ended)
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", model, rangeCheck))
	} else {
		if err := t.stillEmpty(ctx, tx, last.Name); err != nil {
			return err
		}
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", model, rangeCheck))
	}
	for from.Before(until) {
		name := t.partition(from)
		create(name)
		if from.IsZero() {
			attach(name, first)
		} else {
			attach(name, size.next(from))
		}
	}
	if !ended.IsZero() {
		create(last.Name)
	}
	attach(last.Name, time.Time{})
	return Exec(ctx, tx, statements...)
}

// errFilled says that rows have come into the last partition meanwhile; the next call goes on.
var errFilled = errors.New("the last one is in use")

func (t Table) stillEmpty(ctx context.Context, tx pg.Tx, name string) error {
	var filled bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+name+`)`).Scan(&filled); err != nil {
		return err
	}
	if filled {
		return errFilled
	}
	return nil
}

// partition is the name of the partition that begins at the given time.
func (t Table) partition(from time.Time) string {
	if from.IsZero() {
		return t.Name + "_earlier"
	}
	return t.Name + "_" + from.Format("20060102")
}
