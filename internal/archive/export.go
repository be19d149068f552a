package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/failpoint"
	"ajo/internal/partition"
	"ajo/internal/pg"
)

// run exports the partition, reads the export back, and drops the partition.
func (a *attempt) run(ctx context.Context) (*Manifest, error) {
	ctx, release := a.hold(ctx)
	defer release()
	if err := a.checkStore(ctx); err != nil {
		return nil, caused(ctx, err)
	}
	m := a.manifest
	if m == nil {
		// before it is watched, which takes a lock, and after that, when no change is missed
		if err := mayNotMove(holdsOf(ctx, a.Pool, a.part)); err != nil {
			return nil, err
		}
		if err := a.watch(ctx); err != nil {
			return nil, err
		}
		if err := mayNotMove(holdsOf(ctx, a.Pool, a.part)); err != nil {
			return nil, err
		}
		var err error
		if m, err = a.export(ctx); err != nil {
			return nil, caused(ctx, err)
		}
	}
	if err := sameAs(ctx, a.store, m); err != nil {
		return nil, caused(ctx, err)
	}
	for try := 1; ; try++ {
		err := a.drop(ctx, m)
		if pg.Code(err) != lockNotAvailable || try == dropTries {
			return m, caused(ctx, err)
		}
		_ = clock.Sleep(ctx, a.Lease/20)
	}
}

// checkStore refuses a store that lacks what was archived last: a folder that is not mounted, or
// another bucket. [ErrOtherStore].
func (a *attempt) checkStore(ctx context.Context) error {
	var last record
	err := a.Pool.QueryRow(ctx, `SELECT manifest FROM archives WHERE status IN ('archived', 'restored') ORDER BY archived_at DESC, partition DESC LIMIT 1`).Scan(&last.Manifest)
	if err != nil {
		return pg.OrNone(err, nil)
	}
	m, err := last.manifest()
	if err != nil {
		return err
	}
	r, err := a.store.Get(ctx, m.name())
	if errors.Is(err, ErrNoObject) { // not wrapped: what was exported is not lost
		return fmt.Errorf("%w: %s", ErrOtherStore, m.name())
	}
	if err != nil {
		return err
	}
	return r.Close()
}

// lockNotAvailable is the SQLSTATE of a lock that was waited for in vain.
const lockNotAvailable = "55P03"

// dropTries is how often the table's lock is waited for, before it is left to the next run.
const dropTries = 10

// caused is why the context ended, if it has.
func caused(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w (%w)", why, err)
	}
	return err
}

// hold keeps the claim while the attempt lasts. The context ends when the claim is lost, or the
// store stands still.
func (a *attempt) hold(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		moved, since := int64(-1), time.Now()
		clock.Every(ctx, a.signOfLife(), func() {
			if now := a.store.moved.Load(); now != moved || a.store.busy.Load() == 0 {
				moved, since = now, time.Now()
			} else if time.Since(since) > a.Stall {
				cancel(errStalled)
				return
			}
			tag, err := a.Pool.Exec(ctx, `UPDATE archives SET leased_until = $3 WHERE partition = $1 AND attempt = $2`, a.part.Name, a.id, a.Clock.Now().Add(a.Lease))
			if err == nil && tag.RowsAffected() == 0 {
				cancel(errNoAttempt)
			}
		})
	}()
	return ctx, func() { cancel(nil); <-done }
}

// fail notes why the attempt ended. The next one need not wait for the end of the lease, and begins
// anew if the store does not have what was written: the object was damaged or removed, or the
// settings name another store by now.
func (a *attempt) fail(ctx context.Context, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	anew := errors.Is(why, ErrDamaged) || errors.Is(why, ErrNoObject)
	if _, err := a.Pool.Exec(ctx, `
		UPDATE archives SET leased_until = NULL, last_error = $3, status = CASE WHEN $4 AND attempt = $2 THEN 'exporting' ELSE status END,
			manifest = CASE WHEN $4 AND attempt = $2 THEN NULL ELSE manifest END
		WHERE partition = $1 AND status <> 'archived' AND (attempt = $2 OR attempt IS NULL)`,
		a.part.Name, a.id, why.Error(), anew); err != nil {
		a.Log.Warn("the reason why a partition was not archived could not be stored", slog.String("partition", a.part.Name), slog.Any("err", err))
	}
}

// watch makes every later change of the partition's rows end the attempt. The transactions that are
// changing it are waited for.
func (a *attempt) watch(ctx context.Context) error {
	err := pg.InTx(ctx, a.Pool, func(tx pg.Tx) error {
		var is bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1::regclass AND tgname = 'archive_changed')`, a.part.Name).Scan(&is); err != nil || is {
			return err
		}
		err := partition.Exec(ctx, tx,
			"CREATE TRIGGER archive_changed AFTER INSERT OR UPDATE OR DELETE ON "+a.part.Name+" FOR EACH ROW EXECUTE FUNCTION archive_changed()")
		failpoint.At("archive/before-watch-commit")
		return err
	})
	failpoint.At("archive/after-watch-commit")
	return err
}

// export writes the partition and its manifest to the store, and notes the manifest.
func (a *attempt) export(ctx context.Context) (*Manifest, error) {
	m := &Manifest{Partition: a.part.Name, Object: objectName(a.part.Table, a.part.Name, a.id)}
	m.FromID, m.ToID = partition.Floor(a.part.From), partition.Floor(a.part.To)
	if err := a.exportRange(ctx, a.store, m, a.part.Table, a.part.Name); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	failpoint.At("archive/before-note-commit")
	tag, err := a.Pool.Exec(ctx, `UPDATE archives SET status = 'exported', manifest = $3 WHERE partition = $1 AND attempt = $2 AND status = 'exporting'`, a.part.Name, a.id, text)
	failpoint.At("archive/after-note-commit")
	if err == nil && tag.RowsAffected() == 0 {
		err = errNoAttempt
	}
	return m, err
}

func objectName(table, name string, id uuid.UUID) string {
	return table + "/" + name + "-" + id.String() + objectEnd
}

// exportRange writes the rows of a relation (a partition, or its table) between the manifest's ids,
// completes the manifest, and writes that.
func (s *Service) exportRange(ctx context.Context, store Store, m *Manifest, table, relation string) error {
	m.Format, m.Table, m.At = formatOne, table, s.Clock.Now().UTC()
	m.From, m.To = partition.TimeOf(m.FromID), partition.TimeOf(m.ToID)
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	reader := beginner(conn)
	if m.Partition == "" { // nothing notices what changes meanwhile
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		// none of its partitions leaves from here on: one that left a moment ago is not exported
		// as if it had no rows
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		if err := refuseArchived(ctx, tx, table, m, ErrArchived); err != nil {
			return err
		}
		reader = tx
	}
	if m.Columns, err = columns(ctx, conn, table); err != nil {
		return err
	}
	if err = conn.QueryRow(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&m.Schema); err != nil {
		return err
	}
	if err := put(ctx, store, m, func(w io.Writer) (int64, error) { return s.copyRange(ctx, reader, m, relation, w) }); err != nil {
		return err
	}
	if err := s.sum(ctx, reader, m, relation); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	failpoint.At("archive/before-manifest")
	err = store.Put(ctx, m.name(), bytes.NewReader(append(text, '\n')))
	failpoint.At("archive/after-manifest")
	if err != nil {
		return fmt.Errorf("write %s: %w", m.name(), err)
	}
	return nil
}

// columns are a table's columns that hold what was stored; the others are made from them.
func columns(ctx context.Context, q pg.Querier, table string) ([]Column, error) {
	return pg.Collect(ctx, q, pgx.RowToStructByPos[Column], `
		SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`, table)
}

func names(columns []Column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Name
	}
	return strings.Join(list, ", ")
}

// beginner is a connection, or a transaction, of which savepoints are taken.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// reads runs fn in a transaction of its own, [unhurried].
func reads(ctx context.Context, from beginner, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, from, func(tx pgx.Tx) error {
		if err := unhurried(ctx, tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// copyRange writes the rows, some of them a transaction, so that none lasts. Nothing changes them
// meanwhile, or the attempt ends.
func (s *Service) copyRange(ctx context.Context, conn beginner, m *Manifest, relation string, w io.Writer) (rows int64, err error) {
	key, sort := keys(m.Table)
	for from, last := m.FromID, false; !last; {
		next := m.ToID
		err := reads(ctx, conn, func(tx pgx.Tx) error {
			err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT %[1]s FROM %[2]s WHERE %[1]s > $1 AND %[1]s < $2 ORDER BY %[1]s OFFSET $3 LIMIT 1`, key, relation), from, m.ToID, s.Rows-1).Scan(&next)
			if last = pg.IsNoRows(err); err != nil && !last {
				return err
			}
			tag, err := tx.Conn().PgConn().CopyTo(ctx, w, fmt.Sprintf(`COPY (SELECT %s FROM %s WHERE %[3]s >= '%[4]s' AND %[3]s < '%[5]s' ORDER BY %[6]s) TO STDOUT`,
				names(m.Columns), relation, key, from, next, sort))
			rows += tag.RowsAffected()
			return err
		})
		if err != nil {
			return rows, err
		}
		from = next
	}
	return rows, nil
}

// keys are the id by which a table is partitioned, and its primary key.
func keys(table string) (key, sort string) {
	switch table {
	case attempts:
		return "delivery_id", "delivery_id, attempt"
	case bodies:
		return "event_id", "event_id"
	}
	return "id", "id"
}

// sum notes the sums of the columns that hold money, and compares the number of rows with what was
// written.
func (s *Service) sum(ctx context.Context, conn beginner, m *Manifest, relation string) error {
	return reads(ctx, conn, func(tx pgx.Tx) error {
		rows, sums, err := sums(ctx, tx, m, relation)
		if err != nil {
			return err
		}
		if rows != m.Rows {
			return fmt.Errorf("%s has %d rows, %d were written: %w", relation, rows, m.Rows, errNoAttempt)
		}
		m.Sums = sums
		return nil
	})
}

func sums(ctx context.Context, q pg.Querier, m *Manifest, relation string) (rows int64, _ map[string]string, err error) {
	key, _ := keys(m.Table)
	list, into := "count(*)", []any{&rows}
	all := map[string]*string{}
	for _, c := range m.Columns {
		if c.Type == "naira" {
			all[c.Name] = new(string)
			list += ", coalesce(sum(" + c.Name + "), 0)::text"
			into = append(into, all[c.Name])
		}
	}
	err = q.QueryRow(ctx, fmt.Sprintf(`SELECT %s FROM %s WHERE %[3]s >= $1 AND %[3]s < $2`, list, relation, key), m.FromID, m.ToID).Scan(into...)
	if err != nil || len(all) == 0 {
		return rows, nil, err
	}
	found := map[string]string{}
	for name, sum := range all {
		found[name] = *sum
	}
	return rows, found, nil
}

// sameAs compares an object and its manifest in the store with what they must be.
func sameAs(ctx context.Context, store Store, m *Manifest) error {
	stored, err := readManifest(ctx, store, m.name())
	if err != nil {
		return err
	}
	want, err := json.Marshal(m)
	if err != nil {
		return err
	}
	got, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("%s: %w: %w", m.name(), ErrDamaged, errNotWritten)
	}
	return check(ctx, store, m)
}

// drop takes the partition out of its table and removes it, if it is as it was exported. It is
// locked before the row of archives is read: whoever changes a row locks them in the same order.
func (a *attempt) drop(ctx context.Context, m *Manifest) error {
	err := pg.InTx(ctx, a.Pool, func(tx pg.Tx) error {
		if err := partition.Exec(ctx, tx, "ALTER TABLE "+a.part.Table+" DETACH PARTITION "+a.part.Name); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE archives SET status = 'archived', attempt = NULL, leased_until = NULL, last_error = '', archived_at = $3, restored_at = NULL
			WHERE partition = $1 AND attempt = $2 AND status = 'exported' AND manifest ->> 'object' = $4`, a.part.Name, a.id, a.Clock.Now(), m.Object)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errNoAttempt
		}
		if err := mayNotMove(waits(ctx, tx, a.part, true)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DROP TABLE "+a.part.Name); err != nil {
			return err
		}
		failpoint.At("archive/before-drop-commit")
		return nil
	})
	failpoint.At("archive/after-drop-commit")
	return err
}

// watched counts what a store takes and gives, so that one that stands still is noticed.
type watched struct {
	Store
	moved atomic.Int64
	busy  atomic.Int32 // calls under way, and objects being read
}

func (w *watched) Put(ctx context.Context, name string, r io.Reader) error {
	w.busy.Add(1)
	defer w.busy.Add(-1)
	return w.Store.Put(ctx, name, &counted{Reader: r, moved: &w.moved})
}

func (w *watched) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	w.busy.Add(1)
	r, err := w.Store.Get(ctx, name)
	if err != nil {
		w.busy.Add(-1)
		return nil, err
	}
	return &counted{Reader: r, moved: &w.moved, close: func() error {
		w.busy.Add(-1)
		return r.Close()
	}}, nil
}

type counted struct {
	io.Reader
	moved *atomic.Int64
	close func() error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.moved.Add(int64(n) + 1)
	return n, err
}

func (c *counted) Close() error { return c.close() }
