package partition

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// Archived is the partition, now archived, in which the row of an id stands if there ever was one;
// empty: no partition with that id is archived. Package archive takes them away and brings them
// back.
func Archived(ctx context.Context, q pg.Querier, table string, id uuid.UUID) (name string, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(archived_in($1, $2), '')`, table, id).Scan(&name)
	return name, err
}

// ArchivedBefore is the end of the newest archived partition of a table: older rows may be in the
// archive. nil: all are here.
func ArchivedBefore(ctx context.Context, q pg.Querier, table string) (*time.Time, error) {
	var end uuid.NullUUID
	err := q.QueryRow(ctx, `SELECT to_id FROM archives WHERE table_name = $1 AND status = 'archived' ORDER BY from_id DESC LIMIT 1`, table).Scan(&end)
	if err != nil {
		return nil, pg.OrNone(err, nil)
	}
	at := TimeOf(end.UUID)
	return &at, nil
}

// Create makes a table with the columns, indexes and constraints of a table's partitions. It is
// none until [Attach].
func Create(ctx context.Context, tx pg.Tx, table, name string) error {
	model := table + "_later"
	options, err := optionsOf(ctx, tx, model)
	if err != nil {
		return err
	}
	return Exec(ctx, tx, createSQL(name, model, options)...)
}

// Attach makes a table of [Create] the partition for the ids from (inclusive; the nil id: from the
// beginning) to (exclusive), with the guards of the others. A row outside is refused.
func Attach(ctx context.Context, tx pg.Tx, table, name string, from, to uuid.UUID) error {
	return Exec(ctx, tx, attachSQL(table, name, from, to))
}

// optionsOf are a table's settings of storage.
func optionsOf(ctx context.Context, tx pg.Tx, table string) (options string, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(array_to_string(reloptions, ', '), '') FROM pg_class WHERE oid = $1::regclass`, table).Scan(&options)
	return options, err
}

func createSQL(name, model, options string) []string {
	statements := []string{fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL)", name, model)}
	if options != "" {
		statements = append(statements, fmt.Sprintf("ALTER TABLE %s SET (%s)", name, options))
	}
	return statements
}

func attachSQL(table, name string, from, to uuid.UUID) string {
	return fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)", table, name, bound(from, "MINVALUE"), bound(to, "MAXVALUE"))
}
