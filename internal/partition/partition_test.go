package partition_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/migrations"
)

// fresh is a database as the migrations alone leave it: each table has one partition, for all.
func fresh(t *testing.T) *pg.Pool {
	url := testenv.EmptyDatabase(t)
	_, err := migrations.Up(t.Context(), url, migrations.Options{})
	require.NoError(t, err)
	pool, err := pg.Open(t.Context(), url, 4)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// ranges shows the partitions of a table.
func ranges(t *testing.T, pool *pg.Pool, table string) (all []string) {
	parts, err := partition.List(t.Context(), pool)
	require.NoError(t, err)
	day := func(at time.Time) string {
		if at.IsZero() {
			return "…"
		}
		require.Equal(t, at, at.Truncate(24*time.Hour))
		return at.Format("2006-01-02")
	}
	for _, p := range parts {
		if p.Table == table {
			all = append(all, strings.TrimPrefix(p.Name, table+"_")+" "+day(p.From)+" "+day(p.To))
		}
	}
	return all
}

func at(year, month, day int) time.Time {
	return time.Date(year, time.Month(month), day, 11, 30, 0, 0, time.UTC)
}

// addDelivery stores a delivery with an attempt, of an id made at the time.
func addDelivery(t *testing.T, pool *pg.Pool, made time.Time) uuid.UUID {
	id := partition.Floor(made)
	id[6], id[8], id[15] = 0x70, 0x80, byte(made.UnixNano())
	_, err := pool.Exec(t.Context(), `
		INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		VALUES ($1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'payment.received', 'https://example.com', '{}', 'pending', $2)`, id, made)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, error) VALUES ($1, 1, $2, 0, 'HTTP 500')`, id, made)
	require.NoError(t, err)
	return id
}

// place is the partition that has a delivery.
func place(t *testing.T, pool *pg.Pool, id uuid.UUID) (name string) {
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT d.tableoid::regclass || ' ' || a.tableoid::regclass FROM deliveries d JOIN delivery_attempts a ON a.delivery_id = d.id WHERE d.id = $1`, id).Scan(&name))
	return name
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	for size, want := range map[partition.Size][]string{
		partition.Month: {"earlier … 2026-10-01", "20261001 2026-10-01 2026-11-01", "20261101 2026-11-01 2026-12-01", "20261201 2026-12-01 2027-01-01", "later 2027-01-01 …"},
		partition.Week: {
			"earlier … 2026-10-26", "20261026 2026-10-26 2026-11-02", "20261102 2026-11-02 2026-11-09", "20261109 2026-11-09 2026-11-16",
			"20261116 2026-11-16 2026-11-23", "20261123 2026-11-23 2026-11-30", "later 2026-11-30 …",
		},
	} {
		pool := fresh(t)
		require.Equal(t, []string{"later … …"}, ranges(t, pool, "deliveries"))
		for range 2 { // the second time there is nothing to do
			require.NoError(t, partition.MakeAhead(t.Context(), pool, size, at(2026, 10, 31)))
			for _, table := range partition.Tables {
				require.Equal(t, want, ranges(t, pool, table.Name))
			}
		}
	}
}

// Another size holds for the partitions to come.
func TestSizeMayChange(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 10, 5)))
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Day, at(2026, 12, 20)))
	got := ranges(t, pool, "deliveries")
	require.Equal(t, "20261201 2026-12-01 2027-01-01", got[3])
	require.Equal(t, []string{"20270101 2027-01-01 2027-01-02", "20270102 2027-01-02 2027-01-03", "20270103 2027-01-03 2027-01-04", "20270104 2027-01-04 …"},
		append(got[4:7:7], strings.Replace(got[7], "later", "20270104", 1)))
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2027, 1, 1)))
	got = ranges(t, pool, "deliveries")
	require.Equal(t, []string{"20270104 2027-01-04 2027-02-01", "20270201 2027-02-01 2027-03-01", "20270301 2027-03-01 2027-04-01", "later 2027-04-01 …"}, got[7:])
}

// If nobody made partitions for months, rows go to the last one. It gets its end, and is not read
// while the table is locked; the rows stay where they are.
func TestRowsWithoutAPartitionMadeAhead(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
	inTime := addDelivery(t, pool, at(2026, 8, 31))
	var late []uuid.UUID
	for month := 9; month <= 11; month++ {
		late = append(late, addDelivery(t, pool, at(2026, month, 20)))
		require.Equal(t, "deliveries_later delivery_attempts_later", place(t, pool, late[len(late)-1]))
	}
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 11, 22)))
	require.Equal(t, []string{
		"earlier … 2026-06-01", "20260601 2026-06-01 2026-07-01", "20260701 2026-07-01 2026-08-01", "20260801 2026-08-01 2026-09-01",
		"20260901 2026-09-01 2027-02-01", "later 2027-02-01 …",
	}, ranges(t, pool, "deliveries"))
	require.Equal(t, "deliveries_20260801 delivery_attempts_20260801", place(t, pool, inTime))
	for _, id := range late {
		require.Equal(t, "deliveries_20260901 delivery_attempts_20260901", place(t, pool, id))
	}
	var checks int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_constraint WHERE conname = 'partition_range'`).Scan(&checks))
	require.Zero(t, checks)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 12, 1)))
	require.Equal(t, "20270201 2027-02-01 2027-03-01", ranges(t, pool, "deliveries")[5])
	require.Equal(t, "deliveries_20270201 delivery_attempts_20270201", place(t, pool, addDelivery(t, pool, at(2027, 2, 1))))
}

// Ids of a clock that is far ahead, or behind, have their place.
func TestIDsOfAWrongClock(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
	require.Equal(t, "deliveries_earlier delivery_attempts_earlier", place(t, pool, addDelivery(t, pool, at(1971, 1, 1))))
	ahead := addDelivery(t, pool, at(2031, 3, 3))
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 7, 10)))
	require.Equal(t, []string{"20260901 2026-09-01 2031-04-01", "later 2031-04-01 …"}, ranges(t, pool, "deliveries")[4:])
	require.Equal(t, "deliveries_20260901 delivery_attempts_20260901", place(t, pool, ahead))
}

// A reader that holds the table for long puts making partitions off, and nothing waits behind it
// for longer than a second.
func TestLongReaderPutsItOff(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
	before := ranges(t, pool, "deliveries")
	addDelivery(t, pool, at(2026, 9, 9))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM deliveries`)
	require.NoError(t, err)
	err = partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 9, 10))
	require.Equal(t, "55P03", pg.Code(err), "%v", err)
	require.Equal(t, before, ranges(t, pool, "deliveries"))
	addDelivery(t, pool, at(2030, 9, 9)) // no check is left over that would refuse it
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 9, 10)))
	require.NotEqual(t, before, ranges(t, pool, "deliveries"))
}

// Several processes may call at once; rows that come meanwhile wait, and none is refused.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
	done := make(chan error, 5)
	for n := range 4 {
		go func() { done <- partition.MakeAhead(context.Background(), pool, partition.Month, at(2026, 9, 10+n)) }()
	}
	go func() {
		for n := range 200 {
			id := partition.Floor(at(2026, 9, 10).Add(time.Duration(n) * time.Second))
			if _, err := pool.Exec(context.Background(), `INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, error) VALUES ($1, 1, now(), 0, 'HTTP 500')`, id); err != nil {
				done <- fmt.Errorf("attempt %d: %w", n, err)
				return
			}
		}
		done <- nil
	}()
	for range 5 {
		// on a busy machine a row may be under way for a second: then the call at the end does it
		if err := <-done; err != nil && (pg.Code(err) != "55P03" || strings.HasPrefix(err.Error(), "attempt ")) {
			require.ErrorContains(t, err, "the last one is in use") // one may have begun before the first row came
		}
	}
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 9, 10)))
	require.Len(t, ranges(t, pool, "deliveries"), 8)
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM delivery_attempts`).Scan(&rows))
	require.Equal(t, 200, rows)
}

// A partition that was made later is like the one of the migrations: columns, defaults, checks,
// indexes with their conditions and parameters, triggers, storage parameters.
func TestPartitionsAreAlike(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	describe := func(name string) (lines []string) {
		require.NoError(t, pool.QueryRow(t.Context(), `
			SELECT array_agg(line ORDER BY line) FROM (
				SELECT format('column %s %s %s %s %s', attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef d WHERE adrelid = attrelid AND adnum = attnum)) AS line
				FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0
				UNION ALL SELECT 'constraint ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::regclass
				UNION ALL SELECT 'index ' || regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \S+ ON \S+', '') || EXISTS (SELECT FROM pg_inherits WHERE inhrelid = indexrelid)::text FROM pg_index WHERE indrelid = $1::regclass
				UNION ALL SELECT 'trigger ' || replace(pg_get_triggerdef(oid), $1::regclass::text, '') || tgenabled::text FROM pg_trigger WHERE tgrelid = $1::regclass
				UNION ALL SELECT 'options ' || coalesce(reloptions::text, '') || relpersistence::text || relreplident::text FROM pg_class WHERE oid = $1::regclass) AS l`, name).Scan(&lines), name)
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], "public.", "")
		}
		return lines
	}
	for _, table := range partition.Tables {
		model := describe(table.Name + "_later")
		require.GreaterOrEqual(t, len(model), 6, "columns, constraint, index, trigger, options")
		require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
		for _, name := range []string{"_earlier", "_20260601", "_20260801", "_later"} {
			require.Equal(t, model, describe(table.Name+name), name)
		}
	}
	addDelivery(t, pool, at(2026, 10, 1))
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 10, 1)))
	for _, table := range partition.Tables {
		require.Equal(t, describe(table.Name+"_20260601"), describe(table.Name+"_20260901"), "the one that had rows")
		require.Equal(t, describe(table.Name+"_20260601"), describe(table.Name+"_later"))
	}
}

// The guards hold in each partition.
func TestGuardsHold(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Month, at(2026, 6, 10)))
	for _, made := range []time.Time{at(2020, 1, 1), at(2026, 6, 1), at(2026, 8, 1), at(2028, 1, 1)} {
		id := addDelivery(t, pool, made)
		_, err := pool.Exec(t.Context(), `UPDATE deliveries SET status = 'delivered', delivered_at = now() WHERE id = $1`, id)
		require.NoError(t, err)
		for _, sql := range []string{
			`DELETE FROM deliveries WHERE id = $1`, `UPDATE deliveries SET status = 'dead_letter', delivered_at = NULL WHERE id = $1`,
			`DELETE FROM delivery_attempts WHERE delivery_id = $1`, `UPDATE delivery_attempts SET error = 'x' WHERE delivery_id = $1`,
		} {
			_, err := pool.Exec(t.Context(), sql, id)
			require.Error(t, err, sql)
		}
	}
}

// Each partition and each of its indexes takes a lock while a statement is planned.
func TestTooManyPartitionsForTheLocks(t *testing.T) {
	t.Parallel()
	pool := fresh(t)
	require.NoError(t, partition.MakeAhead(t.Context(), pool, partition.Day, at(2026, 6, 10)))
	why, err := partition.Crowded(t.Context(), pool)
	require.NoError(t, err)
	require.Empty(t, why)
	var room, locks int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int`).Scan(&room))
	require.NoError(t, pg.InTx(t.Context(), pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT FROM deliveries WHERE transaction_group_id = gen_random_uuid()`); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE 'deliveries\_%'`).Scan(&locks)
	}))
	most := int64(room / locks)
	why, err = partition.CrowdedBy(t.Context(), pool, most)
	require.NoError(t, err)
	require.Empty(t, why)
	why, err = partition.CrowdedBy(t.Context(), pool, most+1)
	require.NoError(t, err)
	require.Contains(t, why, fmt.Sprintf("deliveries has 17 partitions: a statement may take %d locks, and Postgres has room for %d; set max_locks_per_transaction to ", locks, room))
}
