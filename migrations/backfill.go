package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"ajo/internal/clock"
)

const (
	sliceRows = 1000
	sayEvery  = 5 * time.Second
)

// backfill changes the rows of a large table a slice at a time, each in a transaction of its own
// that also records how far it came, so that a run that was killed goes on there. Between two
// slices it rests for as long as the one before took. Its file names the table and its key in a
// line `-- +ajo BACKFILL table key`, and has one statement, of which $1 and $2 are the first and
// the last key of a slice.
type backfill struct {
	version    int64
	name       string
	table, key string
	statement  string
}

var backfillLine = regexp.MustCompile(`(?m)^-- \+ajo BACKFILL (\w+) (\w+)$`)

func backfillOf(version int64, name, text string) (backfill, bool) {
	m := backfillLine.FindStringSubmatch(text)
	if m == nil {
		return backfill{}, false
	}
	return backfill{version: version, name: name, table: m[1], key: m[2], statement: text}, true
}

func (b backfill) run(ctx context.Context, db *sql.DB, log func(string, ...any)) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var last sql.NullString
	var done int64
	err = conn.QueryRowContext(ctx, `SELECT last_key, row_count FROM backfills WHERE version = $1`, b.version).Scan(&last, &done)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if last.Valid {
		log("%s: going on after %d rows of %s", b.name, done, b.table)
	}
	for said := time.Now(); ; {
		begin := time.Now()
		rows, err := b.slice(ctx, conn, &last)
		switch {
		case isLocked(err):
			log("%s: a row was locked for %s; trying again", b.name, LockTimeout)
		case err != nil:
			return err
		case rows == 0:
			log("%s: all %d rows of %s", b.name, done, b.table)
			return nil
		}
		if done += rows; time.Since(said) > sayEvery {
			said = time.Now()
			log("%s: %d rows of %s", b.name, done, b.table)
		}
		if err := clock.Sleep(ctx, time.Since(begin)); err != nil {
			return err
		}
	}
}

// slice changes the rows after the key last, moves last on, and returns how many rows it looked at.
func (b backfill) slice(ctx context.Context, conn *sql.Conn, last *sql.NullString) (rows int64, err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	after, args := "", []any{sliceRows}
	if last.Valid {
		after, args = "WHERE "+b.key+" > $2", append(args, last.String)
	}
	var from, to sql.NullString
	err = tx.QueryRowContext(ctx, fmt.Sprintf(`
		SELECT count(*), (array_agg(key))[1]::text, (array_agg(key))[count(*)]::text
		FROM (SELECT %s AS key FROM %s %s ORDER BY 1 LIMIT $1) slice`, b.key, b.table, after), args...).Scan(&rows, &from, &to)
	if err != nil || rows == 0 {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, b.statement, from.String, to.String); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO backfills (version, last_key, row_count, updated_at) VALUES ($1, $2, $3, now())
		ON CONFLICT (version) DO UPDATE SET last_key = excluded.last_key, row_count = backfills.row_count + excluded.row_count, updated_at = now()`,
		b.version, to.String, rows); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	*last = to
	return rows, nil
}
