package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/partition"
	"ajo/internal/pg"
)

// Refusals of bringing something back.
var (
	ErrNotArchived = errs.New(errs.Unprocessable, "the partition is not archived")
	ErrAttempts    = errs.New(errs.Unprocessable, "bring the attempts of these deliveries back first")
	ErrArchived    = errs.New(errs.Unprocessable, "a part of the range is archived: bring it back first, or copy its objects from the store")
)

// Find returns what is known of a partition that is or was archived: [ErrPartition].
func (s *Service) Find(ctx context.Context, name string) (Entry, error) {
	all, err := s.List(ctx, false)
	if err != nil {
		return Entry{}, err
	}
	for _, e := range all {
		if e.Partition == name {
			return e, nil
		}
	}
	return Entry{}, ErrPartition
}

// Restore puts an archived partition back, with all its rows, indexes and guards, in one
// transaction. The object is compared with its manifest while it is read, and the rows once more in
// the table. One that is back already is left alone. [ErrNotArchived], [ErrAttempts], [ErrDamaged].
func (s *Service) Restore(ctx context.Context, name string, by audit.By) (*Manifest, error) {
	if s.Store == nil {
		return nil, ErrNoStore
	}
	var m *Manifest
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		r, err := pg.One(ctx, tx, pgx.RowToStructByPos[record], ErrPartition, recordColumns+` WHERE partition = $1 FOR UPDATE`, name)
		if err != nil {
			return err
		}
		if m, err = r.manifest(); err != nil || r.Status == statusRestored {
			return err
		}
		if r.Status != statusArchived {
			return ErrNotArchived
		}
		if err := s.attach(ctx, tx, m); err != nil {
			return err
		}
		now := s.Clock.Now()
		if _, err := tx.Exec(ctx, `UPDATE archives SET status = 'restored', restored_at = $2 WHERE partition = $1`, name, now); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, now, by.Entry("archive.restore", "partition:"+name, map[string]any{"object": m.Object, "rows": m.Rows})); err != nil {
			return err
		}
		failpoint.At("archive/before-restore-commit")
		return nil
	})
	failpoint.At("archive/after-restore-commit")
	return m, err
}

// attach makes the partition anew, fills it, and attaches it.
func (s *Service) attach(ctx context.Context, tx pg.Tx, m *Manifest) error {
	if m.Table == deliveries {
		// no partition of theirs leaves its table until this commits, and by then its deliveries
		// are here
		if _, err := tx.Exec(ctx, "LOCK TABLE "+attempts+" IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		if err := refuseArchived(ctx, tx, attempts, m, ErrAttempts); err != nil {
			return err
		}
	}
	has, err := columns(ctx, tx, m.Table)
	if err != nil {
		return err
	}
	if err := fits(m.Columns, has); err != nil {
		return err
	}
	if err := unhurried(ctx, tx); err != nil {
		return err
	}
	if err := partition.Create(ctx, tx, m.Table, m.Partition); err != nil {
		return err
	}
	conn := tx.Conn().PgConn()
	if err := open(ctx, s.Store, m, func(plain io.Reader) error {
		_, err := conn.CopyFrom(ctx, plain, fmt.Sprintf("COPY %s (%s) FROM STDIN", m.Partition, names(m.Columns)))
		return err
	}); err != nil {
		return err
	}
	// as it stands in the table now
	_, sort := keys(m.Table)
	in := newMeter()
	if _, err := conn.CopyTo(ctx, in, fmt.Sprintf("COPY (SELECT %s FROM %s ORDER BY %s) TO STDOUT", names(m.Columns), m.Partition, sort)); err != nil {
		return err
	}
	rows, found, err := sums(ctx, tx, m, m.Partition)
	if err != nil {
		return err
	}
	if in.stream() != m.Plain || rows != m.Rows || !maps.Equal(found, m.Sums) {
		return fmt.Errorf("%s: %w: the rows in the table are not those of the manifest", m.Partition, ErrDamaged)
	}
	return partition.Attach(ctx, tx, m.Table, m.Partition, m.FromID, m.ToID)
}

// refuseArchived refuses if any of the manifest's range of a table is archived.
func refuseArchived(ctx context.Context, q pg.Querier, table string, m *Manifest, refusal error) error {
	var archived bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archives WHERE table_name = $1 AND status = 'archived' AND from_id < $3 AND to_id > $2)`,
		table, m.FromID, m.ToID).Scan(&archived)
	if err == nil && archived {
		err = refusal
	}
	return err
}

// fits refuses columns that the table does not have any more. Those that it has since then get
// their defaults.
func fits(archived, has []Column) error {
	types := map[string]string{}
	for _, c := range has {
		types[c.Name] = c.Type
	}
	for _, c := range archived {
		if types[c.Name] != c.Type {
			return fmt.Errorf("the archive has a column %s of type %s, the table %q: restore it with the version that wrote it", c.Name, c.Type, types[c.Name])
		}
	}
	return nil
}

// Export writes the rows of a table whose ids were made from (inclusive) to (exclusive), as of one
// moment, to the store, and reads them back. Nothing is removed. [ErrArchived], [ErrRange].
func (s *Service) Export(ctx context.Context, table string, from, to time.Time, by audit.By) (*Manifest, error) {
	switch {
	case s.Store == nil:
		return nil, ErrNoStore
	case !from.Before(to):
		return nil, ErrRange
	case holds[table] == nil:
		return nil, ErrPartition
	}
	id := uuid.Must(uuid.NewV7())
	m := &Manifest{FromID: partition.Floor(from), ToID: partition.Floor(to), Object: objectName("exports", table, id)}
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := refuseArchived(ctx, tx, table, m, ErrArchived); err != nil {
			return err
		}
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("archive.export", "table:"+table, map[string]any{"from": from, "to": to, "object": m.Object}))
	})
	if err != nil {
		return nil, err
	}
	if err := s.exportRange(ctx, s.Store, m, table, table); err != nil {
		return nil, err
	}
	return m, sameAs(ctx, s.Store, m)
}

// Finding is what is wrong with an object.
type Finding struct {
	Object  string `json:"object"`
	Problem string `json:"problem"`
}

// Report is the result of [Service.Verify].
type Report struct {
	Objects  int       `json:"objects"` // that were read
	Rows     int64     `json:"rows"`
	Bytes    int64     `json:"bytes"`
	Findings []Finding `json:"findings"`
	// objects that no partition needs: of exports, of attempts that did not end, of partitions that
	// were archived again
	Unneeded []string `json:"unneeded"`
}

// Verify reads every object of the store and compares it with its manifest, and the manifests with
// what the database says. note is called after each.
func (s *Service) Verify(ctx context.Context, note func(object string)) (Report, error) {
	r := Report{Findings: []Finding{}, Unneeded: []string{}}
	if s.Store == nil {
		return r, ErrNoStore
	}
	records, err := s.records(ctx)
	if err != nil {
		return r, err
	}
	seen := map[string]bool{}
	for _, rec := range records {
		m, err := rec.manifest()
		if err != nil {
			return r, err
		}
		if m == nil || rec.Status != statusArchived && rec.Status != statusRestored {
			continue
		}
		seen[m.Object], seen[m.name()] = true, true
		if err := r.add(ctx, m, sameAs(ctx, s.Store, m), note); err != nil {
			return r, err
		}
	}
	return r, s.Store.List(ctx, func(name string) error {
		if seen[name] {
			return nil
		}
		r.Unneeded = append(r.Unneeded, name)
		if !strings.HasSuffix(name, manifestEnd) {
			return nil
		}
		m, err := readManifest(ctx, s.Store, name)
		if err == nil {
			err = check(ctx, s.Store, &m)
		} else {
			m = Manifest{Object: name}
		}
		return r.add(ctx, &m, err, note)
	})
}

// add counts an object, or what is wrong with it. Only the end of the context ends the run.
func (r *Report) add(ctx context.Context, m *Manifest, err error, note func(string)) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		r.Objects, r.Rows, r.Bytes = r.Objects+1, r.Rows+m.Rows, r.Bytes+m.Compressed.Bytes
	default:
		problem := err.Error()
		if errors.Is(err, ErrNoObject) {
			problem = "it is missing"
		}
		r.Findings = append(r.Findings, Finding{m.Object, problem})
	}
	if note != nil {
		note(m.Object)
	}
	return nil
}
