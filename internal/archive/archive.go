// Package archive moves old partitions of the tables that grow with each payment out of the
// database, and brings them back.
//
// What always holds: a partition is dropped only in the transaction that found it unchanged since
// its export began, after the object and its manifest were read back from the store and compared.
// A row of the table archives says what was archived and what its object must contain. Running it
// twice, at once, or after a crash at any line loses nothing: an attempt owns the names of its
// objects, and only the one whose manifest the row names counts.
//
// A partition stays where it is, readable, until that moment. Whoever changes one of its rows
// meanwhile is not refused: a trigger ends the attempt, and a later one begins anew. Nothing is
// archived that may still move (wait.go).
package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/pg"
)

// Options are what the archive needs.
type Options struct {
	Pool  *pg.Pool
	Store Store
	Clock clock.Clock
	Log   *slog.Logger
	// KeepEvents, of event_bodies, and KeepDeliveries, of deliveries and their attempts, are how
	// old the newest row of a partition must be; zero: it is never archived.
	KeepEvents, KeepDeliveries time.Duration
	// Rows is how many rows one statement reads; 0: 10,000.
	Rows int
	// Lease is how long an attempt lasts after its process' last sign of life; 0: a minute.
	Lease time.Duration
	// Stall is how long the store may neither take nor give a byte; 0: two minutes.
	Stall time.Duration
}

// Service archives partitions.
type Service struct{ Options }

// New makes the service.
func New(o Options) *Service {
	o.Rows = cmp.Or(o.Rows, 10_000)
	o.Lease = cmp.Or(o.Lease, time.Minute)
	o.Stall = cmp.Or(o.Stall, 2*time.Minute)
	return &Service{o}
}

// restoredFor is how long a partition that was brought back stays.
const restoredFor = 30 * 24 * time.Hour

// Refusals.
var (
	ErrNoStore    = errs.New(errs.Invalid, "there is no archive: set AJO_ARCHIVE_DIR or AJO_ARCHIVE_S3_ENDPOINT")
	ErrPartition  = errs.New(errs.NotFound, "there is no such partition")
	ErrBusy       = errs.New(errs.Conflict, "another process is archiving this partition: try again later")
	ErrWaits      = errs.New(errs.Unprocessable, "the partition may not be archived yet")
	ErrOtherStore = errs.New(errs.Unprocessable, "the store lacks what was archived last: mount its folder, name the right store, or copy the archive there first")
	ErrRange      = errs.New(errs.Invalid, "a range must begin before it ends")
	errNoAttempt  = errors.New("a row of the partition has changed, or another process has taken over: a later run begins anew")
	errStalled    = errors.New("the store has neither taken nor given anything for too long")
	errNotWritten = errors.New("what the store gives back is not what was written")
)

// The statuses of a row of archives.
const (
	statusExporting = "exporting"
	statusExported  = "exported"
	statusArchived  = "archived"
	statusRestored  = "restored"
)

// State is what is to be done with a partition, or was.
type State string

// The states of a partition.
const (
	Kept     State = "kept"     // it is not old enough
	Waiting  State = "waiting"  // it is old enough, and something in it may still move
	Due      State = "due"      // the next run archives it
	Archived State = "archived" // it is in the store alone
	Restored State = "restored" // it was brought back, and is in both
)

// Entry is a partition of the list.
type Entry struct {
	Partition string    `json:"partition"`
	Table     string    `json:"table"`
	From      time.Time `json:"from"` // zero: from the beginning
	To        time.Time `json:"to"`   // zero: without an end
	State     State     `json:"state"`
	// when it may be archived, nil: never; of an archived one, when it was
	At        *time.Time `json:"at"`
	Waits     []Wait     `json:"waits,omitempty"`
	LastError string     `json:"lastError,omitempty"` // why the last attempt failed
	Bytes     int64      `json:"bytes"`               // in the database, or in the store
	Manifest  *Manifest  `json:"manifest,omitempty"`
}

// record is a row of archives.
type record struct {
	Partition  string
	Table      string
	FromID     uuid.UUID
	ToID       uuid.UUID
	Status     string
	Attempt    *uuid.UUID
	Manifest   []byte
	LastError  string
	ArchivedAt *time.Time
	RestoredAt *time.Time
}

func (r *record) manifest() (*Manifest, error) {
	if len(r.Manifest) == 0 {
		return nil, nil
	}
	var m Manifest
	if err := json.Unmarshal(r.Manifest, &m); err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", r.Partition, err)
	}
	return &m, nil
}

const recordColumns = `SELECT partition, table_name, from_id, to_id, status, attempt, manifest, last_error, archived_at, restored_at FROM archives`

func (s *Service) records(ctx context.Context) (map[string]record, error) {
	list, err := pg.Collect(ctx, s.Pool, pgx.RowToStructByPos[record], recordColumns+` ORDER BY table_name, from_id`)
	all := map[string]record{}
	for _, r := range list {
		all[r.Partition] = r
	}
	return all, err
}

// List lists all partitions, those in the store and those in the database, the oldest first; and
// says of each what is to come. With why it also says why one waits, which reads the partition.
func (s *Service) List(ctx context.Context, why bool) ([]Entry, error) {
	parts, err := partition.List(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	records, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, p := range parts {
		e, err := s.entry(ctx, p, records[p.Name], why)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	for _, r := range records {
		if r.Status != statusArchived {
			continue
		}
		m, err := r.manifest()
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{
			Partition: r.Partition, Table: r.Table, From: m.From, To: m.To, State: Archived, At: r.ArchivedAt, Bytes: m.Compressed.Bytes, Manifest: m,
		})
	}
	slices.SortFunc(all, func(a, b Entry) int {
		if c := strings.Compare(a.Table, b.Table); c != 0 {
			return c
		}
		return a.From.Compare(b.From)
	})
	return all, nil
}

// entry describes a partition that is in the database.
func (s *Service) entry(ctx context.Context, p partition.Partition, r record, why bool) (e Entry, err error) {
	e = Entry{Partition: p.Name, Table: p.Table, From: p.From, To: p.To, State: Kept, Bytes: p.Bytes, LastError: r.LastError}
	if r.Status == statusRestored {
		e.State = Restored
		if e.Manifest, err = r.manifest(); err != nil {
			return e, err
		}
	}
	due, ok := s.dueAt(p, r)
	if !ok {
		return e, nil
	}
	e.At = &due
	if due.After(s.Clock.Now()) {
		return e, nil
	}
	e.State = Due
	if why {
		if e.Waits, err = holdsOf(ctx, s.Pool, p); pg.Code(err) == undefinedTable {
			err = nil // another process is archiving it at this moment
		}
		if len(e.Waits) > 0 {
			e.State = Waiting
		}
	}
	return e, err
}

// undefinedTable is the SQLSTATE of a table that is not there.
const undefinedTable = "42P01"

// dueAt is when a partition may be archived, if ever.
func (s *Service) dueAt(p partition.Partition, r record) (at time.Time, ever bool) {
	keep := map[string]time.Duration{bodies: s.KeepEvents, deliveries: s.KeepDeliveries, attempts: s.KeepDeliveries}[p.Table]
	if keep == 0 || p.To.IsZero() {
		return at, false
	}
	at = p.To.Add(keep)
	if r.RestoredAt != nil {
		if back := r.RestoredAt.Add(restoredFor); back.After(at) {
			at = back
		}
	}
	return at, true
}

// Run archives all partitions that are due and that nothing holds back, one after the other. If one
// fails, the others still go on.
func (s *Service) Run(ctx context.Context) error {
	list, err := s.List(ctx, false)
	if err != nil {
		return err
	}
	var failed error
	for _, table := range order {
		var waiting, failing time.Duration
		for _, e := range list {
			if e.Table != table || e.At == nil || e.At.After(s.Clock.Now()) || e.State == Archived {
				continue
			}
			late := s.Clock.Now().Sub(*e.At)
			switch err := s.shown(ctx, e); {
			case errors.Is(err, ErrPartition), errors.Is(err, ErrBusy): // another process has archived it, or does
			case errors.Is(err, ErrWaits):
				waiting = max(waiting, late)
			case err != nil:
				failing = max(failing, late)
				failed = errors.Join(failed, fmt.Errorf("archive %s: %w", e.Partition, err))
			}
		}
		metrics.ArchiveOverdue(table, waiting, failing)
	}
	return failed
}

// shown is [Service.one], with a gauge that shows meanwhile for how long the partition has been
// due. Nothing else shows an attempt that hangs.
func (s *Service) shown(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithCancel(ctx)
	show := func() { metrics.Archiving(e.Table, s.Clock.Now().Sub(*e.At)) }
	show()
	var showing sync.WaitGroup
	showing.Go(func() { clock.Every(ctx, s.signOfLife(), show) })
	defer func() {
		cancel()
		showing.Wait()
		metrics.Archiving(e.Table, 0)
	}()
	return s.one(ctx, e.Partition)
}

// signOfLife is how often an attempt says that it lasts.
func (s *Service) signOfLife() time.Duration { return max(s.Lease/4, 10*time.Millisecond) }

// one archives a partition, and says so, or why it waits.
func (s *Service) one(ctx context.Context, name string) error {
	m, err := s.Archive(ctx, name)
	switch {
	case err == nil:
		s.Log.Info("a partition is archived", slog.String("partition", name), slog.Int64("rows", m.Rows), slog.String("object", m.Object))
	case errors.Is(err, ErrWaits):
		s.Log.Info("a partition waits to be archived", slog.String("partition", name), slog.String("why", err.Error()))
	}
	return err
}

// findRecord finds a partition of the database by its name, with its record, if it has one.
func (s *Service) findRecord(ctx context.Context, name string) (p partition.Partition, r record, err error) {
	parts, err := partition.List(ctx, s.Pool)
	if err != nil {
		return p, r, err
	}
	i := slices.IndexFunc(parts, func(p partition.Partition) bool { return p.Name == name })
	if i < 0 {
		return p, r, ErrPartition
	}
	records, err := s.records(ctx)
	return parts[i], records[name], err
}

// Archive archives one partition whose last row is old enough by the settings: [ErrWaits] with why
// not yet, [ErrBusy] while another process does it, [ErrPartition]. It takes as long as the store
// does, and holds no transaction meanwhile.
func (s *Service) Archive(ctx context.Context, name string) (*Manifest, error) {
	if s.Store == nil {
		return nil, ErrNoStore
	}
	p, r, err := s.findRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	if due, ok := s.dueAt(p, r); !ok || due.After(s.Clock.Now()) {
		return nil, fmt.Errorf("%w: it is not old enough", ErrWaits)
	}
	a, err := s.claim(ctx, p)
	if err != nil {
		return nil, err
	}
	m, err := a.run(ctx)
	if err != nil {
		a.fail(ctx, err)
		return nil, err
	}
	return m, nil
}

// mayNotMove refuses if something holds the partition; found are [holdsOf] it.
func mayNotMove(found []Wait, err error) error {
	if err != nil || len(found) == 0 {
		return err
	}
	texts := make([]string, len(found))
	for i, w := range found {
		texts[i] = w.String()
	}
	return fmt.Errorf("%w: %s", ErrWaits, strings.Join(texts, "; "))
}

// ArchiveByHand is [Service.Archive], recorded in the audit log before it begins.
func (s *Service) ArchiveByHand(ctx context.Context, name string, by audit.By) (*Manifest, error) {
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		return audit.Write(ctx, tx, s.Clock.Now(), by.Entry("archive.run", "partition:"+name, nil))
	})
	if err != nil {
		return nil, err
	}
	return s.Archive(ctx, name)
}

// attempt is one process' right to archive a partition.
type attempt struct {
	*Service
	part     partition.Partition
	id       uuid.UUID
	manifest *Manifest // of an attempt that was taken over after its export
	store    *watched
}

// claimSQL takes a partition whose last attempt has ended. An export that another process has
// finished is gone on with.
const claimSQL = `
	INSERT INTO archives AS a (partition, table_name, from_id, to_id, status, attempt, leased_until) VALUES ($1, $2, $3, $4, 'exporting', $5, $6)
	ON CONFLICT (partition) DO UPDATE SET leased_until = excluded.leased_until,
		attempt = CASE WHEN a.status = 'exported' THEN a.attempt ELSE excluded.attempt END,
		manifest = CASE WHEN a.status = 'exported' THEN a.manifest END,
		status = CASE WHEN a.status = 'exported' THEN 'exported' ELSE 'exporting' END
	WHERE a.status <> 'archived' AND (a.leased_until IS NULL OR a.leased_until < $7)
	RETURNING attempt, manifest`

func (s *Service) claim(ctx context.Context, p partition.Partition) (*attempt, error) {
	a := &attempt{Service: s, part: p, store: &watched{Store: s.Store}}
	from, to := partition.Floor(p.From), partition.Floor(p.To)
	now := s.Clock.Now()
	failpoint.At("archive/before-claim-commit")
	var manifest []byte
	err := s.Pool.QueryRow(ctx, claimSQL, p.Name, p.Table, from, to, uuid.Must(uuid.NewV7()), now.Add(s.Lease), now).Scan(&a.id, &manifest)
	failpoint.At("archive/after-claim-commit")
	if err != nil {
		return nil, pg.OrNone(err, ErrBusy)
	}
	a.manifest, err = (&record{Partition: p.Name, Manifest: manifest}).manifest()
	return a, err
}
