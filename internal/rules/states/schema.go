package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/migrations"
)

// references are the columns that name a row of another table without a foreign key.
var references = map[string][]string{
	"account_id": {"accounts"}, "delivery_id": {"deliveries"}, "event_id": {"inbound_events"}, "look_alike_of": {"inbound_events"},
	"replaces": {"inbound_events"}, "transaction_group_id": {"inbound_events", "transfers"},
}

type column struct {
	Table, About string // About is the table's comment
	Name, Type   string
	Key, Null    bool
	Parent       string // of its foreign key
	Check        string // the constraint that lists its values
	Comment      string
}

// columns reads the catalogue of a database that has been migrated for it.
func columns(ctx context.Context) ([]column, error) {
	dir, err := os.MkdirTemp("", "ajo-schema-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := stack.Start(ctx, stack.Options{Dir: dir, Ephemeral: true, Install: true})
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	if _, err := migrations.Up(ctx, s.DatabaseURL, migrations.Options{}); err != nil {
		return nil, err
	}
	pool, err := pg.Open(ctx, s.DatabaseURL, 2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return pg.Collect(ctx, pool, pgx.RowToStructByName[column], `
		SELECT c.relname AS table, coalesce(obj_description(c.oid, 'pg_class'), '') AS about, a.attname AS name,
			replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz') AS type,
			EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p' AND a.attnum = ANY(k.conkey)) AS key,
			NOT a.attnotnull AS null,
			coalesce((SELECT k.confrelid::regclass::text FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.conkey = ARRAY[a.attnum]), '') AS parent,
			coalesce((SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
				WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum] AND pg_get_constraintdef(k.oid) LIKE '% = ANY (ARRAY[%' LIMIT 1), '') AS check,
			coalesce(col_description(c.oid, a.attnum), '') AS comment
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname, a.attnum`)
}

const schemaHead = `# Schema

Generated from the migrations and the comments in them by ` + "`make generate`" + `. Every fact is a row with a status; Redis holds nothing that is
not here. ` + "`naira`" + ` is a sum with at most two decimals. *null*: the column may be empty. In the pictures a dotted line is a reference without
a foreign key; those to ` + "`tenants`" + `, which nearly every table has, are left out.

`

var (
	created = regexp.MustCompile(`(?m)^CREATE TABLE (\w+) \(`)
	quoted  = regexp.MustCompile(`'([^']*)'::text`)
)

// schema is a chapter for each migration: a picture of its tables, and a line for each column.
func schema(ctx context.Context) (string, error) {
	all, err := columns(ctx)
	if err != nil {
		return "", err
	}
	tables := map[string][]column{}
	for _, c := range all {
		tables[c.Table] = append(tables[c.Table], c)
	}
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return "", err
	}
	var list, chapters strings.Builder
	for _, f := range files {
		sql, err := fs.ReadFile(migrations.Files, f)
		if err != nil {
			return "", err
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(f, ".sql"), "_")
		title := strings.ToUpper(name[:1]) + name[1:]
		about, _, _ := strings.Cut(string(sql), "\n-- +goose Up")
		about, _, _ = strings.Cut(strings.ReplaceAll("\n"+about, "\n-- ", "\n"), "\n--\n")
		var picture, lines strings.Builder
		for _, m := range created.FindAllSubmatch(sql, -1) {
			t := tables[string(m[1])]
			if len(t) == 0 || t[0].About == "" {
				return "", fmt.Errorf("%s makes the table %s, which the database does not have, or without a COMMENT", f, m[1])
			}
			delete(tables, t[0].Table)
			draw(&picture, t)
			describe(&lines, t)
			fmt.Fprintf(&list, "| [%s](#%s) | [`%s`](#table-%s) | %s |\n", title, name, t[0].Table, t[0].Table, t[0].About)
		}
		fmt.Fprintf(&chapters, "\n## %s\n%s\n\n```mermaid\nerDiagram\n%s```\n%s", title, about, &picture, &lines)
	}
	if delete(tables, "goose_db_version"); len(tables) > 0 {
		return "", fmt.Errorf("no migration makes the tables %v", tables)
	}
	return schemaHead + "| capability | table | what a row is |\n|---|---|---|\n" + list.String() + chapters.String(), nil
}

// parents are the tables whose rows the column names, and whether a foreign key says so.
func (c column) parents() ([]string, bool) {
	if c.Parent != "" {
		return []string{c.Parent}, true
	}
	return references[c.Name], false
}

// draw has of a table its keys, its references and its status.
func draw(b *strings.Builder, t []column) {
	var edges []string
	fmt.Fprintf(b, "    %s {\n", t[0].Table)
	for _, c := range t {
		parents, foreign := c.parents()
		line := "}o..||"
		if foreign {
			line = "}o--||"
		}
		for _, p := range parents {
			edges = append(edges, fmt.Sprintf("    %s %s %s : %s\n", c.Table, line, p, c.Name))
		}
		switch {
		case c.Key:
			fmt.Fprintf(b, "        %s %s PK\n", c.Type, c.Name)
		case foreign:
			fmt.Fprintf(b, "        %s %s FK\n", c.Type, c.Name)
		case len(parents) > 0 || strings.HasSuffix(c.Name, "status"):
			fmt.Fprintf(b, "        %s %s\n", c.Type, c.Name)
		}
	}
	b.WriteString("    }\n" + strings.Join(edges, ""))
}

func describe(b *strings.Builder, t []column) {
	fmt.Fprintf(b, "\n### Table %s\n\n%s\n\n| column | type | |\n|---|---|---|\n", t[0].Table, t[0].About)
	for _, c := range t {
		var about []string
		if parents, _ := c.parents(); len(parents) > 0 {
			about = append(about, "→ "+strings.Join(parents, " or "))
		}
		if i := slices.IndexFunc(machines, func(m machine) bool { return m.table == c.Table && m.column == c.Name }); i >= 0 {
			about = append(about, fmt.Sprintf("[its states](states.md#%s)", anchor(machines[i].name)))
		} else if values := quoted.FindAllStringSubmatch(c.Check, -1); values != nil {
			var names []string
			for _, v := range values {
				if v[1] != "" {
					names = append(names, "`"+v[1]+"`")
				}
			}
			about = append(about, strings.Join(names, ", "))
		}
		if c.Comment != "" {
			about = append(about, strings.ReplaceAll(c.Comment, "|", `\|`))
		}
		kind := c.Type
		if c.Key {
			kind += " (key)"
		} else if c.Null {
			kind += " *null*"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", c.Name, kind, strings.Join(about, "; "))
	}
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}
