package rules

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/migrations"
)

// initial is the last migration that is only ever run on an empty database.
const initial = 7

// refused are the statements that rewrite a table, read all of it under a lock, or wait for a lock
// that payments need, and what to write in their place. They are matched against a statement
// without comments, in lower case, its white space made one blank each.
var refused = []struct {
	form    *regexp.Regexp
	unless  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`^create (unique )?index `), regexp.MustCompile(`^create (unique )?index concurrently `), "CREATE INDEX CONCURRENTLY, in a file with -- +goose NO TRANSACTION"},
	{regexp.MustCompile(`^drop index `), regexp.MustCompile(`^drop index concurrently `), "DROP INDEX CONCURRENTLY"},
	{regexp.MustCompile(`^reindex `), regexp.MustCompile(`^reindex (\([^)]*\) )?(index|table) concurrently `), "REINDEX … CONCURRENTLY"},
	{regexp.MustCompile(`^(vacuum( \(| )?full|vacuum \([^)]*full|cluster|lock) ?`), nil, "nothing: it locks the table"},
	{regexp.MustCompile(`^alter table .*\balter (column )?\S+ (set data )?type `), nil, "another column, filled in slices"},
	{regexp.MustCompile(`^alter table .*\balter (column )?\S+ set not null`), nil, "CHECK (… IS NOT NULL) NOT VALID, and VALIDATE CONSTRAINT in the next file"},
	{
		regexp.MustCompile(`^alter table .*\badd (column )?(if not exists )?\S+ .*(\bdefault [^,]*(random|clock_timestamp|nextval|uuidv7|uuid_generate)|\bgenerated |\b(small|big)?serial\b)`),
		nil, "a column without a value, filled in slices",
	},
	{regexp.MustCompile(`^alter table .*\badd (constraint \S+ )?(check|foreign key)\b`), regexp.MustCompile(` not valid$`), "NOT VALID, and VALIDATE CONSTRAINT in the next file"},
	{regexp.MustCompile(`^alter table .*\badd (column )?(if not exists )?\S+ .*\breferences `), nil, "the column alone, and FOREIGN KEY … NOT VALID"},
	{regexp.MustCompile(`^alter table .*\badd (constraint \S+ )?(unique|primary key|exclude)\b`), regexp.MustCompile(` using index `), "CREATE UNIQUE INDEX CONCURRENTLY, and ADD CONSTRAINT … USING INDEX"},
	{regexp.MustCompile(`^alter table .*\badd (column )?(if not exists )?\S+ .*\b(unique|primary key)\b`), regexp.MustCompile(` using index `), "CREATE UNIQUE INDEX CONCURRENTLY, and ADD CONSTRAINT … USING INDEX"},
	{regexp.MustCompile(`^alter table .*\bset (logged|unlogged|tablespace|access method)\b`), nil, "nothing: it rewrites the table"},
	{regexp.MustCompile(`^alter table .*\battach partition `), nil, "a CHECK that is NOT VALID, validated in the file before; say so in this list"},
	{regexp.MustCompile(`^alter table .*\bdetach partition `), regexp.MustCompile(` concurrently$`), "DETACH PARTITION … CONCURRENTLY"},
	{regexp.MustCompile(`^(update|delete from|truncate|merge into|with .*\b(update|delete from) )`), nil, "a backfill in slices, by a command or a worker"},
	{regexp.MustCompile(`^refresh materialized view `), regexp.MustCompile(`^refresh materialized view concurrently `), "REFRESH … CONCURRENTLY"},
}

// A migration runs beside payments that go on: what would stop them is refused. A table that the
// same file creates is empty, and nobody waits for it.
func TestMigrationsNeitherRewriteNorLockATable(t *testing.T) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(names), initial)
	for _, name := range names {
		number, err := strconv.Atoi(name[:4])
		require.NoError(t, err, name)
		if number <= initial {
			continue
		}
		text, err := fs.ReadFile(migrations.Files, name)
		require.NoError(t, err)
		require.Empty(t, lintMigration(string(text)), name)
	}
}

var (
	lineComments = regexp.MustCompile(`(?m)--.*$`)
	createsTable = regexp.MustCompile(`^create table (?:if not exists )?(\S+)`)
	ofTable      = regexp.MustCompile(`^(?:create (?:unique )?index .*? on|alter table(?: if exists)?(?: only)?|update(?: only)?|delete from(?: only)?|truncate(?: table)?) (\S+)`)
)

// lintMigration returns what is wrong with a migration.
func lintMigration(text string) (wrong []string) {
	created := map[string]bool{}
	waits, alone := false, strings.Contains(text, "+goose NO TRANSACTION")
	for _, s := range statementsOf(text) {
		waits = waits || strings.HasPrefix(s, "set lock_timeout") || strings.HasPrefix(s, "set local lock_timeout")
		if m := createsTable.FindStringSubmatch(s); m != nil {
			created[m[1]] = true
		}
		if strings.Contains(s, " concurrently ") && !alone {
			wrong = append(wrong, s+": CONCURRENTLY needs -- +goose NO TRANSACTION")
		}
		if m := ofTable.FindStringSubmatch(s); m != nil && created[m[1]] {
			continue
		}
		for _, r := range refused {
			if r.form.MatchString(s) && (r.unless == nil || !r.unless.MatchString(s)) {
				wrong = append(wrong, s+": in place of this "+r.instead)
			}
		}
	}
	if !waits {
		wrong = append(wrong, "it does not SET lock_timeout: it would make payments wait behind it")
	}
	return wrong
}

// statementsOf splits a migration at the semicolons outside of function bodies.
func statementsOf(text string) (out []string) {
	parts := strings.Split(lineComments.ReplaceAllString(text, ""), "$$")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "body"
	}
	for _, s := range strings.Split(strings.Join(parts, " "), ";") {
		if s = strings.ToLower(strings.Join(strings.Fields(s), " ")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func TestTheRuleOfMigrationsItself(t *testing.T) {
	const timeout = "SET lock_timeout = '5s';\n"
	for _, bad := range []string{
		"CREATE INDEX x ON deliveries (tenant_id);",
		"CREATE UNIQUE INDEX x\n    ON deliveries (tenant_id);",
		"CREATE INDEX CONCURRENTLY x ON deliveries (tenant_id);", // in a transaction
		"DROP INDEX x;",
		"REINDEX TABLE deliveries;",
		"VACUUM FULL deliveries;", "VACUUM (FULL) deliveries;", "CLUSTER deliveries USING x;", "LOCK TABLE deliveries;",
		"ALTER TABLE deliveries ALTER COLUMN body TYPE text;", "ALTER TABLE deliveries ALTER body SET DATA TYPE text;",
		"ALTER TABLE deliveries ALTER COLUMN body SET NOT NULL;",
		"ALTER TABLE deliveries ADD COLUMN x uuid NOT NULL DEFAULT gen_random_uuid();",
		"ALTER TABLE deliveries ADD COLUMN x boolean GENERATED ALWAYS AS (status = 'x') STORED;",
		"ALTER TABLE deliveries ADD COLUMN x bigserial;",
		"ALTER TABLE deliveries ADD CONSTRAINT x CHECK (amount > 0);", "ALTER TABLE deliveries ADD CHECK (amount > 0);",
		"ALTER TABLE deliveries ADD CONSTRAINT x FOREIGN KEY (tenant_id) REFERENCES tenants (id);",
		"ALTER TABLE deliveries ADD COLUMN x uuid REFERENCES tenants (id);",
		"ALTER TABLE deliveries ADD CONSTRAINT x UNIQUE (tenant_id);", "ALTER TABLE deliveries ADD COLUMN x uuid UNIQUE;",
		"ALTER TABLE deliveries SET UNLOGGED;", "ALTER TABLE deliveries SET TABLESPACE x;",
		"ALTER TABLE deliveries ATTACH PARTITION x FOR VALUES FROM (1) TO (2);", "ALTER TABLE deliveries DETACH PARTITION x;",
		"UPDATE deliveries SET x = 1;", "DELETE FROM deliveries WHERE x = 1;", "WITH a AS (SELECT 1) UPDATE deliveries SET x = 1;", "TRUNCATE deliveries;",
		"REFRESH MATERIALIZED VIEW x;",
		"CREATE TABLE other (id uuid); CREATE INDEX x ON deliveries (tenant_id);",
	} {
		require.NotEmpty(t, lintMigration("-- +goose Up\n"+timeout+bad), bad)
	}
	for _, good := range []string{
		"-- +goose NO TRANSACTION\n" + timeout + "CREATE INDEX CONCURRENTLY x ON deliveries (tenant_id);\nDROP INDEX CONCURRENTLY y;",
		timeout + "CREATE TABLE x (id uuid PRIMARY KEY, a text NOT NULL DEFAULT '');\nCREATE INDEX y ON x (a);\nALTER TABLE x ADD CHECK (a <> '');",
		timeout + "ALTER TABLE deliveries ADD COLUMN x text NOT NULL DEFAULT '';",
		timeout + "ALTER TABLE deliveries ADD COLUMN x timestamptz; -- then UPDATE deliveries SET x = 1; in slices",
		timeout + "ALTER TABLE deliveries ADD CONSTRAINT x CHECK (amount > 0) NOT VALID;",
		timeout + "ALTER TABLE deliveries VALIDATE CONSTRAINT x;",
		timeout + "ALTER TABLE deliveries ADD CONSTRAINT x UNIQUE USING INDEX y;",
		timeout + "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE deliveries SET x = 1; RETURN NEW; END $$;",
	} {
		require.Empty(t, lintMigration("-- +goose Up\n"+good), good)
	}
	require.NotEmpty(t, lintMigration("-- +goose Up\nALTER TABLE deliveries ADD COLUMN x text;"), "without lock_timeout")
}
