package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
	"ajo/migrations"
)

// initial is the last migration that is only ever run on an empty database.
const initial = 7

// Every migration runs beside payments. Each file after the first ones is applied to tables that
// have rows, and what Postgres then did decides: which locks the file took, what it read and
// changed under them, and what it wrote anew.
func TestMigrationsLeavePaymentsAlone(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	for _, name := range sqlFiles(t, migrations.Files) {
		if version(t, name) > initial {
			require.Empty(t, l.wrong(textOf(t, migrations.Files, name), true), name)
		}
	}
}

func TestTheCheckOfMigrationsItself(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	const up, outside = "-- +goose Up\n", "-- +goose NO TRANSACTION\n-- +goose Up\n"
	for sql, says := range map[string]string{
		"CREATE INDEX x1 ON transfers (tenant_id);":                                                                                     "reads a table while",
		"CREATE UNIQUE INDEX x2\n    ON transfers (id);":                                                                                "reads a table while",
		"CREATE INDEX CONCURRENTLY x3 ON transfers (tenant_id);":                                                                        "cannot run inside a transaction block",
		"REINDEX TABLE transfers;":                                                                                                      "rewrites transfers_",
		"CLUSTER transfers USING transfers_pkey;":                                                                                       "rewrites transfers",
		"ALTER TABLE transfers ALTER COLUMN narration TYPE varchar(200);":                                                               "rewrites transfers",
		"ALTER TABLE transfers ALTER ask_count SET DATA TYPE bigint;":                                                                   "rewrites transfers",
		"ALTER TABLE transfers ALTER COLUMN submitted_at SET NOT NULL;":                                                                 "reads a table while",
		"ALTER TABLE transfers ADD COLUMN x uuid NOT NULL DEFAULT gen_random_uuid();":                                                   "rewrites transfers",
		"ALTER TABLE transfers ADD COLUMN x boolean GENERATED ALWAYS AS (status = 'x') STORED;":                                         "rewrites transfers",
		"ALTER TABLE transfers ADD COLUMN x bigserial;":                                                                                 "rewrites transfers",
		"ALTER TABLE ledger_entries ADD CONSTRAINT x CHECK (amount > -1);":                                                              "reads a table while",
		"ALTER TABLE ledger_entries ADD CONSTRAINT x CHECK (amount > -1) NOT VALID;\nALTER TABLE ledger_entries VALIDATE CONSTRAINT x;": "reads a table while",
		"ALTER TABLE accounts ADD CONSTRAINT x FOREIGN KEY (tenant_id) REFERENCES tenants (id);":                                        "reads a table while",
		"ALTER TABLE transfers ADD COLUMN x uuid UNIQUE; ALTER TABLE transfers ADD UNIQUE (id, narration);":                             "reads a table while",
		"ALTER TABLE transfers SET UNLOGGED;":                                                                                           "rewrites transfers",
		"CREATE TABLE p (LIKE audit_log) PARTITION BY RANGE (id);\nALTER TABLE p ATTACH PARTITION audit_log FOR VALUES FROM ('00000000-0000-0000-0000-000000000000') TO ('ffffffff-0000-0000-0000-000000000000');": "reads a table while",
		"UPDATE transfers SET last_error = 'x';":                              "changes rows",
		"DELETE FROM sessions;":                                               "changes rows",
		"DO $$ BEGIN UPDATE transfers SET last_error = 'x; y'; END $$;":       "changes rows",
		"TRUNCATE sessions;":                                                  "rewrites sessions",
		"SET lock_timeout = '1min'; ALTER TABLE transfers ADD COLUMN x text;": "lock_timeout",
		"LOCK TABLE sessions, accounts, transfers;":                           "locks 3 tables",
	} {
		require.Contains(t, strings.Join(l.wrong(up+sql, false), "\n"), says, sql)
	}
	for sql, says := range map[string]string{
		"CREATE INDEX y1 ON transfers (tenant_id);":                            "CONCURRENTLY",
		"ALTER TABLE transfers ADD COLUMN y2 text;":                            "CONCURRENTLY",
		"CREATE INDEX CONCURRENTLY y3 ON transfers (tenant_id);":               "a second time",
		"CREATE INDEX CONCURRENTLY IF NOT EXISTS y4 ON transfers (tenant_id);": "y4 was left invalid",
		"VACUUM FULL sessions;":                                                "rewrites sessions",
	} {
		require.Contains(t, strings.Join(l.wrong(outside+sql, false), "\n"), says, sql)
	}
	for sql, says := range map[string]string{
		"-- +ajo BACKFILL transfers id\nUPDATE transfers SET last_error = 'x' WHERE id >= $1 OR id = $2;": "outside of",
		"-- +ajo BACKFILL transfers id\nALTER TABLE transfers ADD COLUMN x text;":                         "no statement",
	} {
		require.Contains(t, strings.Join(l.wrong(sql, false), "\n"), says, sql)
	}
	for _, sql := range []string{
		"CREATE TABLE z1 (id uuid PRIMARY KEY, a text NOT NULL DEFAULT '');\nCREATE INDEX z2 ON z1 (a);\nALTER TABLE z1 ADD CHECK (a <> '');",
		"ALTER TABLE transfers ADD COLUMN x text NOT NULL DEFAULT '';",
		"ALTER TABLE transfers ADD COLUMN x timestamptz; -- then UPDATE transfers SET x = 1; in slices",
		"ALTER TABLE accounts ADD CONSTRAINT x FOREIGN KEY (tenant_id) REFERENCES tenants (id) NOT VALID;",
		"ALTER TABLE sessions ALTER COLUMN token_hash SET STATISTICS 500;",
		"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE transfers SET x = 1; RETURN NEW; END $$;",
		"COMMENT ON TABLE transfers IS 'sent; or not -- yet';",
	} {
		require.Empty(t, l.wrong(up+sql, false), sql)
	}
	examples := os.DirFS("testdata/live")
	for _, name := range sqlFiles(t, examples) {
		require.Empty(t, l.wrong(textOf(t, examples, name), true), name)
	}
}

// live is a database as the first migrations make it, with a row in each table.
type live struct {
	t      *testing.T
	conn   *pgx.Conn
	tables []uint32 // that were there before the file; one that it makes itself is nobody's yet
}

func newLive(t *testing.T) *live {
	url := testenv.EmptyDatabase(t)
	first := fstest.MapFS{}
	for _, name := range sqlFiles(t, migrations.Files) {
		if version(t, name) <= initial {
			first[name] = &fstest.MapFile{Data: []byte(textOf(t, migrations.Files, name))}
		}
	}
	_, err := migrations.Up(t.Context(), url, migrations.Options{Files: first})
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	l := &live{t: t, conn: conn}
	l.exec(rowInEachTable)
	l.exec(fmt.Sprintf("SET lock_timeout = %d", migrations.LockTimeout.Milliseconds()))
	return l
}

// rowInEachTable is enough to see what a statement reads, changes and rewrites. What the columns'
// checks want does not matter here, so they keep their names alone.
const rowInEachTable = `
DO $$
DECLARE t record; c record; names text; row_values text;
BEGIN
	SET LOCAL session_replication_role = replica;
	FOR t IN SELECT oid, oid::regclass::text AS name FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'goose_db_version'
	LOOP
		FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = t.oid AND contype = 'c' LOOP
			EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I CHECK (true)', t.name, c.conname, c.conname);
		END LOOP;
		SELECT string_agg(quote_ident(attname), ', '), string_agg(CASE CASE WHEN y.typcategory = 'A' THEN 'array' ELSE coalesce(b.typname, y.typname) END
			WHEN 'uuid' THEN '''018f0000-0000-7000-8000-000000000001''' WHEN 'bytea' THEN '''\x00''' WHEN 'jsonb' THEN '''{}''' WHEN 'timestamptz' THEN 'now()'
			WHEN 'date' THEN 'current_date' WHEN 'inet' THEN '''::1''' WHEN 'bool' THEN 'true' WHEN 'array' THEN '''{}''' ELSE '''1''' END, ', ')
		INTO names, row_values
		FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = y.typbasetype
		WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity = '';
		EXECUTE format('INSERT INTO %s (%s) VALUES (%s)', t.name, names, row_values);
	END LOOP;
END $$`

// wrong applies a file and returns what would stop payments. Without keep it undoes the file,
// unless that runs outside of a transaction.
func (l *live) wrong(text string, keep bool) (wrong []string) {
	l.t.Helper()
	rows, err := l.conn.Query(l.t.Context(), `SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
		AND relname NOT IN ('goose_db_version', 'backfills', 'hash_keys')`) // these are small for ever
	require.NoError(l.t, err)
	l.tables, err = pgx.CollectRows(rows, pgx.RowTo[uint32])
	require.NoError(l.t, err)
	if strings.Contains(text, "+goose Down") {
		return []string{"has a way back: migrations go forward only"}
	}
	if strings.Contains(text, "+goose NO TRANSACTION") {
		return l.wrongOutside(text)
	}
	l.exec("BEGIN")
	if m := backfillLine.FindStringSubmatch(text); m != nil {
		wrong = l.wrongSlice(text, m[1], m[2])
	} else {
		wrong = l.wrongTransaction(text)
	}
	if keep && len(wrong) == 0 {
		l.exec("COMMIT")
	} else {
		l.exec("ROLLBACK")
	}
	return wrong
}

var backfillLine = regexp.MustCompile(`(?m)^-- \+ajo BACKFILL (\w+) (\w+)$`)

func (l *live) wrongTransaction(text string) (wrong []string) {
	before := l.look()
	for _, sql := range split(text) {
		if _, err := l.conn.Exec(l.t.Context(), sql); err != nil {
			return append(wrong, fmt.Sprintf("%s: %v", sql, err))
		}
		after := l.look()
		wrong = append(wrong, after.since(before, sql)...)
		before = after
	}
	return wrong
}

// wrongOutside runs each statement by itself, and the whole file twice, as after a kill. There, a
// request for a lock is never given up, so none may be one that payments wait for.
func (l *live) wrongOutside(text string) (wrong []string) {
	before := l.look()
	for _, sql := range split(text) {
		l.exec("BEGIN")
		begun := l.look()
		if _, err := l.conn.Exec(l.t.Context(), sql); err == nil { // it can be undone
			at := l.look()
			if wrong = append(wrong, at.since(begun, sql)...); len(at.locks) > 0 {
				wrong = append(wrong, sql+": belongs into a file with a transaction, or wants CONCURRENTLY")
			}
		}
		l.exec("ROLLBACK")
		if _, err := l.conn.Exec(l.t.Context(), sql); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", sql, err))
		}
	}
	wrong = append(wrong, l.look().rewrites(before, text)...)
	// as if the process had died while it made the indexes
	indexes := slices.Collect(maps.Keys(before.files))
	l.exec(`UPDATE pg_index SET indisvalid = false WHERE indrelid = ANY($1) AND indexrelid <> ALL($2)`, l.tables, indexes)
	for _, sql := range split(text) {
		if _, err := l.conn.Exec(l.t.Context(), sql); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: a second time, as after a kill: %v", sql, err))
		}
	}
	if invalid := l.value(`SELECT coalesce(string_agg(indexrelid::regclass::text, ' '), '') FROM pg_index WHERE NOT indisvalid`); invalid != "" {
		wrong = append(wrong, invalid+" was left invalid by a kill, and stays so: DROP INDEX CONCURRENTLY IF EXISTS first")
		l.exec(`UPDATE pg_index SET indisvalid = true`)
	}
	return wrong
}

// wrongSlice runs a backfill's statement for one key, and for one that no row has.
func (l *live) wrongSlice(text, table, key string) (wrong []string) {
	l.exec(`SET LOCAL session_replication_role = replica`)
	row := l.value(fmt.Sprintf(`SELECT %s::text FROM %s LIMIT 1`, key, table))
	for k, rows := range map[string]int64{row: 1, row[:len(row)-1] + "0": 0} {
		tag, err := l.conn.Exec(l.t.Context(), text, k, k)
		if err != nil {
			return []string{fmt.Sprintf("is no statement of a backfill: %v", err)}
		}
		if tag.RowsAffected() > rows {
			wrong = append(wrong, "changes rows outside of $1 to $2")
		}
	}
	if locks := l.look().locks; len(locks) > 0 {
		wrong = append(wrong, "locks "+strings.Join(locks, ", "))
	}
	return wrong
}

func (l *live) exec(sql string, args ...any) {
	l.t.Helper()
	_, err := l.conn.Exec(l.t.Context(), sql, args...)
	require.NoError(l.t, err, sql)
}

func (l *live) value(sql string, args ...any) (v string) {
	l.t.Helper()
	require.NoError(l.t, l.conn.QueryRow(l.t.Context(), sql, args...).Scan(&v), sql)
	return v
}

// looked is what the transaction has done so far to the tables that were there before it.
type looked struct {
	read, changed int64
	locks         []string          // tables that payments would wait for
	files         map[uint32]string // of tables and indexes
	wait          string            // for a lock
}

func (l *live) look() (at looked) {
	l.t.Helper()
	ctx, is := l.t.Context(), require.New(l.t)
	is.NoError(l.conn.QueryRow(ctx, `
		SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint, coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint, current_setting('lock_timeout')
		FROM pg_stat_xact_user_tables WHERE relid = ANY($1)`, l.tables).Scan(&at.read, &at.changed, &at.wait))
	rows, err := l.conn.Query(ctx, `
		SELECT DISTINCT coalesce(pg_partition_root(relation), relation)::regclass::text FROM pg_locks
		WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = ANY($1)
			AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`, l.tables)
	is.NoError(err)
	at.locks, err = pgx.CollectRows(rows, pgx.RowTo[string])
	is.NoError(err)
	rows, err = l.conn.Query(ctx, `
		SELECT c.oid, c.oid::regclass::text || ' ' || relfilenode FROM pg_class c LEFT JOIN pg_index ON indexrelid = c.oid
		WHERE c.oid = ANY($1) OR indrelid = ANY($1)`, l.tables)
	is.NoError(err)
	at.files = map[uint32]string{}
	var oid uint32
	var file string
	_, err = pgx.ForEachRow(rows, []any{&oid, &file}, func() error { at.files[oid] = file; return nil })
	is.NoError(err)
	return at
}

// since is what is wrong with the statement that was run between the two.
func (at looked) since(before looked, sql string) (wrong []string) {
	if at.read > before.read && len(at.locks) > 0 {
		wrong = append(wrong, sql+": reads a table while payments wait for "+strings.Join(at.locks, ", "))
	}
	if at.changed > before.changed {
		wrong = append(wrong, sql+": changes rows of a table in one transaction: that is a backfill")
	}
	if at.wait != before.wait {
		wrong = append(wrong, sql+": changes lock_timeout, which ajo migrate sets")
	}
	if len(at.locks) > 2 { // each may be waited for while the others are held
		wrong = append(wrong, fmt.Sprintf("%s: locks %d tables in one transaction", sql, len(at.locks)))
	}
	return append(wrong, at.rewrites(before, sql)...)
}

func (at looked) rewrites(before looked, sql string) (wrong []string) {
	for oid, was := range before.files {
		if is, there := at.files[oid]; there && strings.Fields(is)[1] != strings.Fields(was)[1] {
			wrong = append(wrong, sql+": rewrites "+strings.Fields(is)[0])
		}
	}
	return wrong
}

var tokens = regexp.MustCompile(`(?s)--[^\n]*|'(?:[^']|'')*'|"[^"]*"|\$\$.*?\$\$|;|.`)

// split returns the statements of a file.
func split(text string) (statements []string) {
	var sql strings.Builder
	end := func() {
		if s := strings.TrimSpace(sql.String()); s != "" {
			statements = append(statements, s)
		}
		sql.Reset()
	}
	for _, token := range tokens.FindAllString(text, -1) {
		switch {
		case token == ";":
			end()
		case !strings.HasPrefix(token, "--"):
			sql.WriteString(token)
		}
	}
	end()
	return statements
}

func sqlFiles(t *testing.T, files fs.FS) []string {
	t.Helper()
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

func textOf(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(files, name)
	require.NoError(t, err)
	return string(text)
}

func version(t *testing.T, name string) int64 {
	t.Helper()
	n, err := goose.NumericComponent(name)
	require.NoError(t, err)
	return n
}
