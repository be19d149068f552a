package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// A day that is old enough leaves the database, and comes back as it was.
func TestArchiveAndRestore(t *testing.T) {
	b := setup(t, 12)
	old := b.deliver(b.begin.Add(time.Hour), 30)
	b.deliver(b.begin.Add(5*day), 3)
	deliveries, attempts := b.content("deliveries"), b.content("delivery_attempts")
	name, tries := b.name("deliveries", 0), b.name("delivery_attempts", 0)
	shape := b.shape(name)
	require.Contains(t, b.states("deliveries"), name+" due")

	require.NoError(t, b.Run(b.ctx))
	require.Equal(t, 3, b.rows("deliveries"))
	require.Equal(t, 3, b.rows("delivery_attempts"))
	in, err := partition.Archived(b.ctx, b.Pool, "deliveries", old[0])
	require.NoError(t, err)
	require.Equal(t, name, in)
	e, err := b.Find(b.ctx, name)
	require.NoError(t, err)
	require.Equal(t, archive.Archived, e.State)
	require.EqualValues(t, 30, e.Manifest.Rows)
	require.Contains(t, e.Manifest.Columns, archive.Column{Name: "body", Type: "bytea"})
	require.NotContains(t, e.Manifest.Columns, archive.Column{Name: "dead", Type: "boolean"}, "it is made from the status")
	r, err := b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Unneeded)

	_, err = b.Restore(b.ctx, name, by)
	require.ErrorIs(t, err, archive.ErrAttempts)
	for range 2 { // again changes nothing
		for _, n := range []string{tries, name} {
			m, err := b.Restore(b.ctx, n, by)
			require.NoError(t, err)
			require.EqualValues(t, 30, m.Rows)
		}
	}
	require.Equal(t, deliveries, b.content("deliveries"))
	require.Equal(t, attempts, b.content("delivery_attempts"))
	require.Equal(t, shape, b.shape(name), "indexes, guards and options")
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*)::int FROM audit_log WHERE action = 'archive.restore'`))
	_, err = b.Pool.Exec(b.ctx, `UPDATE deliveries SET status = 'pending', delivered_at = NULL WHERE id = $1`, old[0])
	require.Equal(t, "23514", pg.Code(err), "the guards are there")
	in, err = partition.Archived(b.ctx, b.Pool, "deliveries", old[0])
	require.NoError(t, err)
	require.Empty(t, in)

	require.NoError(t, b.Run(b.ctx))
	require.Equal(t, 33, b.rows("deliveries"), "who brought it back has time to look")
	b.Clock.Advance(31 * day)
	require.NoError(t, b.Run(b.ctx))
	require.Equal(t, 0, b.rows("deliveries"))
	require.Equal(t, 0, b.rows("delivery_attempts"))
	r, err = b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	require.Len(t, r.Unneeded, 4, "the objects of the first time")
}

// shape is what a partition has beside its rows.
func (b *bundle) shape(name string) string {
	return testenv.Value[string](b.Env, `
		SELECT coalesce((SELECT reloptions::text FROM pg_class WHERE oid = $1::regclass), '') || E'\n'
			|| (SELECT string_agg(regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \w+', ''), E'\n' ORDER BY pg_get_indexdef(indexrelid)) FROM pg_index WHERE indrelid = $1::regclass)
			|| (SELECT coalesce(string_agg(tgname, ',' ORDER BY tgname), '') FROM pg_trigger WHERE tgrelid = $1::regclass)
			|| (SELECT string_agg(pg_get_constraintdef(oid), ',' ORDER BY pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = $1::regclass)
			|| (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = $1::regclass)`, name)
}

// Nothing is archived that may still move, and it is said why.
func TestWhatMayMoveStays(t *testing.T) {
	b := setup(t, 12)
	ids := b.deliver(b.begin.Add(time.Hour), 3)
	name, tries := b.name("deliveries", 0), b.name("delivery_attempts", 0)
	refused := func(partition, why string) {
		t.Helper()
		_, err := b.Archive(b.ctx, partition)
		require.ErrorIs(t, err, archive.ErrWaits)
		require.ErrorContains(t, err, why)
	}
	refused(tries, "3 deliveries that are not archived yet")
	b.Schedule("deliver", ids[1], b.Clock.Now())
	refused(name, "1 items of pending work")
	b.Exec(`DELETE FROM work WHERE id = $1`, ids[1])
	pending := b.at(b.begin.Add(2 * time.Hour))
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', '', '', 'pending', $4)`, pending, b.tenant, b.account, b.begin)
	refused(name, "1 pending deliveries")
	require.NoError(t, b.Run(b.ctx), "that it waits is no failure")
	require.Contains(t, b.states("deliveries"), name+" waiting")
	b.Exec(`UPDATE deliveries SET status = 'dead_letter' WHERE id = $1`, pending)
	require.Contains(t, b.states("deliveries"), name+" due")

	refused(b.name("deliveries", 3), "it is not old enough")
	_, err := b.Archive(b.ctx, "tenants")
	require.ErrorIs(t, err, archive.ErrPartition)
	_, err = b.with(nil).Archive(b.ctx, name)
	require.ErrorIs(t, err, archive.ErrNoStore)
	require.NoError(t, b.Run(b.ctx))
	require.Zero(t, b.rows("deliveries"))
}

// A row that changes while its partition is exported, or after, ends the attempt.
func TestWhatChangesMeanwhileStays(t *testing.T) {
	b := setup(t, 12)
	ids := b.deliver(b.begin.Add(time.Hour), 20)
	name := b.name("deliveries", 0)
	change := func() { b.Exec(`UPDATE deliveries SET last_error = last_error || 'x' WHERE id = $1`, ids[3]) }
	var once sync.Once
	during := b.with(&faulty{Store: b.opts.Store, put: func(_ string, r io.Reader) io.Reader {
		return readFirst(r, func() { once.Do(change) })
	}})
	_, err := during.Archive(b.ctx, name)
	require.Error(t, err)
	require.Equal(t, 20, b.rows("deliveries"))

	after := b.with(&faulty{Store: b.opts.Store, get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
		change()
		return r, nil
	}})
	_, err = after.Archive(b.ctx, name)
	require.ErrorContains(t, err, "a row of the partition has changed")
	require.Equal(t, 20, b.rows("deliveries"))

	scheduled := b.with(&faulty{Store: b.opts.Store, get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
		b.Exec(`INSERT INTO work (kind, id, due_at) VALUES ('deliver', $1, now()) ON CONFLICT DO NOTHING`, ids[7])
		return r, nil
	}})
	_, err = scheduled.Archive(b.ctx, name)
	require.ErrorIs(t, err, archive.ErrWaits, "without a change of a row")
	b.Exec(`DELETE FROM work`)

	content := b.content("deliveries")
	_, err = b.Archive(b.ctx, name)
	require.NoError(t, err)
	require.Zero(t, b.rows("deliveries"))
	for _, n := range []string{b.name("delivery_attempts", 0)} {
		_, err = b.Archive(b.ctx, n)
		require.NoError(t, err)
		_, err = b.Restore(b.ctx, n, by)
		require.NoError(t, err)
	}
	_, err = b.Restore(b.ctx, name, by)
	require.NoError(t, err)
	require.Equal(t, content, b.content("deliveries"), "with the changes")
}

// readFirst calls f before the first byte is read.
func readFirst(r io.Reader, f func()) io.Reader { return &first{r, f} }

type first struct {
	io.Reader
	f func()
}

func (r *first) Read(p []byte) (int, error) {
	r.f()
	return r.Reader.Read(p)
}

// Of several workers one archives a partition.
func TestOneWorkerArchives(t *testing.T) {
	b := setup(t, 14)
	for d := range 3 {
		b.deliver(b.begin.Add(time.Duration(d)*day), 10)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				if err := archive.New(b.opts).Run(b.ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, b.rows("deliveries"))
	require.Zero(t, b.rows("delivery_attempts"))
	r, err := b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	require.Empty(t, r.Unneeded, "nobody else wrote")
}

// Attempts that are being archived stay when their deliveries come back meanwhile: a replay would
// have no place for its next one.
func TestDeliveriesComeBackBesideAnArchive(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 5)
	name := b.name("deliveries", 0)
	_, err := b.Archive(b.ctx, name)
	require.NoError(t, err)
	archived := make(chan error, 1)
	b.opts.Lease = time.Second
	store := b.opts.Store
	beside := b.with(&faulty{Store: store, get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
		go func() {
			_, err := b.with(store).Archive(b.ctx, b.name("delivery_attempts", 0))
			archived <- err
		}()
		testenv.Eventually(t, time.Minute, "the attempts are archived, or wait to be", func() bool {
			return len(archived) > 0 || testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'delivery_attempts'::regclass AND NOT granted)`)
		})
		require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*)::int FROM pg_stat_activity
			WHERE datname = current_database() AND backend_xid IS NOT NULL AND application_name = 'ajo archive'`), "the log of events does not wait for it")
		return r, nil
	}})
	_, err = beside.Restore(b.ctx, name, by)
	require.NoError(t, err)
	require.ErrorIs(t, <-archived, archive.ErrWaits)
	require.Equal(t, []int{5, 5}, []int{b.rows("deliveries"), b.rows("delivery_attempts")})
}

// While another process' claim lasts, it is left alone; when that process has died, it is taken
// over.
func TestClaimOfADeadWorker(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 5)
	name := b.name("deliveries", 0)
	b.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, attempt, leased_until) VALUES ($1, 'deliveries', $2, $3, 'exporting', $4, $5)`,
		name, partition.Floor(b.begin), partition.Floor(b.begin.Add(day)), uuid.New(), b.Clock.Now().Add(time.Minute))
	_, err := b.Archive(b.ctx, name)
	require.ErrorIs(t, err, archive.ErrBusy)
	b.Clock.Advance(time.Minute + time.Second)
	_, err = b.Archive(b.ctx, name)
	require.NoError(t, err)
}

// What the store does wrong is noticed before anything is dropped.
func TestFaultyStoreLosesNothing(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 40)
	content, name := b.content("deliveries"), b.name("deliveries", 0)
	isObject := func(name string) bool { return strings.HasSuffix(name, ".copy.zst") }
	for fault, s := range map[string]*faulty{
		"a truncated object": {put: func(name string, r io.Reader) io.Reader {
			if isObject(name) {
				return drained{io.LimitReader(r, 200), r}
			}
			return r
		}},
		"other bytes": {put: func(name string, r io.Reader) io.Reader {
			all, err := io.ReadAll(r)
			if err == nil && isObject(name) {
				all[len(all)/2] ^= 1
			}
			return bytes.NewReader(all)
		}},
		"another manifest": {put: func(name string, r io.Reader) io.Reader {
			all, _ := io.ReadAll(r)
			if !isObject(name) {
				all = bytes.Replace(all, []byte(`"rows": 40`), []byte(`"rows": 41`), 1)
			}
			return bytes.NewReader(all)
		}},
		"no answer": {get: func(string, io.ReadCloser) (io.ReadCloser, error) { return nil, errors.New("503") }},
		"no object": {get: func(name string, r io.ReadCloser) (io.ReadCloser, error) {
			if isObject(name) {
				return nil, archive.ErrNoObject
			}
			return r, nil
		}},
	} {
		s.Store = archive.Folder{Dir: t.TempDir()}
		_, err := b.with(s).Archive(b.ctx, name)
		require.Error(t, err, fault)
		require.Equal(t, content, b.content("deliveries"), fault)
		e, err := b.Find(b.ctx, name)
		require.NoError(t, err)
		require.NotEmpty(t, e.LastError, fault)
		if fault == "no answer" { // the next would go on with what was written, but its settings name another store
			_, err := b.with(archive.Folder{Dir: t.TempDir()}).Archive(b.ctx, name)
			require.ErrorIs(t, err, archive.ErrNoObject)
		}
	}
	o := b.opts
	o.Stall, o.Lease = 50*time.Millisecond, 100*time.Millisecond
	o.Store = &faulty{Store: b.opts.Store, put: func(string, io.Reader) io.Reader { return stalled{} }}
	_, err := archive.New(o).Archive(b.ctx, name)
	require.ErrorContains(t, err, "neither taken nor given")
	left, err := filepath.Glob(filepath.Join(b.opts.Store.String(), "*", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "what it took before fills no disk")
	require.Equal(t, content, b.content("deliveries"))
	_, err = b.Archive(b.ctx, name)
	require.NoError(t, err)

	// A folder that is not mounted, or another bucket, lacks what was archived.
	b.deliver(b.begin.Add(25*time.Hour), 40)
	content, name = b.content("deliveries"), b.name("deliveries", 1)
	_, err = b.with(archive.Folder{Dir: t.TempDir()}).Archive(b.ctx, name)
	require.ErrorIs(t, err, archive.ErrOtherStore)
	require.Equal(t, content, b.content("deliveries"))
	_, err = b.Archive(b.ctx, name)
	require.NoError(t, err)
}

// A partition that takes longer to be read than Postgres gives a statement is archived.
func TestLargePartitionIsArchived(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 3)
	b.deliver(b.begin.Add(25*time.Hour), 3)
	_, err := b.Archive(b.ctx, b.name("deliveries", 0))
	require.NoError(t, err)
	name := b.name("deliveries", 1)
	archived := make(chan error, 1)
	var limited atomic.Bool // the statements of connections that are taken from here on
	var taken *pgx.Conn     // last
	limit := func(ctx context.Context, c *pgx.Conn, on bool) error {
		_, err := c.Exec(ctx, `SELECT set_config('statement_timeout', $1, false)`, map[bool]string{true: "500ms", false: "0"}[on])
		return err
	}
	config := b.Pool.Config()
	config.PrepareConn = func(ctx context.Context, c *pgx.Conn) (bool, error) {
		taken = c
		err := limit(ctx, c, limited.Load())
		return err == nil, err
	}
	b.opts.Lease = time.Hour // nothing else takes one
	b.opts.Pool, err = pgxpool.NewWithConfig(b.ctx, config)
	require.NoError(t, err)
	defer b.opts.Pool.Close()
	slowly := func() { // until a statement has waited for the partition for longer than its limit
		hold, err := b.Pool.Begin(b.ctx)
		require.NoError(t, err)
		_, err = hold.Exec(b.ctx, `LOCK TABLE `+name+` IN ACCESS EXCLUSIVE MODE`)
		require.NoError(t, err)
		go func() {
			testenv.Eventually(t, time.Minute, "the partition is read, or given up", func() bool {
				return len(archived) > 0 || testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '600 ms')`)
			})
			limited.Store(false)
			_ = hold.Rollback(b.ctx)
		}()
	}
	var before, after sync.Once
	_, err = b.with(&faulty{
		Store: b.opts.Store,
		get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
			before.Do(func() { // what was archived last is there: next, what may still move
				limited.Store(true)
				slowly()
			})
			return r, nil
		},
		put: func(_ string, r io.Reader) io.Reader {
			all, err := io.ReadAll(r)
			require.NoError(t, err)
			after.Do(func() { // the rows are read: next, they are counted
				require.NoError(t, limit(b.ctx, taken, true))
				slowly()
			})
			return bytes.NewReader(all)
		},
	}).Archive(b.ctx, name)
	archived <- err
	require.NoError(t, err)
}

// drained gives what the first reader has, and reads the second to its end.
type drained struct{ some, all io.Reader }

func (d drained) Read(p []byte) (int, error) {
	n, err := d.some.Read(p)
	if err == io.EOF {
		_, _ = io.Copy(io.Discard, d.all)
	}
	return n, err
}

// stalled never gives a byte, and does not fail for a while.
type stalled struct{}

func (stalled) Read([]byte) (int, error) {
	<-time.After(200 * time.Millisecond)
	return 0, nil
}

// Whatever happens to an object, verify names it, and restore refuses it and changes nothing.
func TestVerifyFindsDamage(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 40)
	require.NoError(t, b.Run(b.ctx))
	e, err := b.Find(b.ctx, b.name("delivery_attempts", 0))
	require.NoError(t, err)
	dir := b.opts.Store.(archive.Folder).Dir
	path := filepath.Join(dir, e.Manifest.Object)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	manifest := strings.TrimSuffix(path, ".copy.zst") + ".json"
	goodManifest, err := os.ReadFile(manifest)
	require.NoError(t, err)
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 0x10
	for damage, change := range map[string]func() error{
		"a flipped bit":       func() error { return os.WriteFile(path, flipped, 0o600) },
		"a missing end":       func() error { return os.WriteFile(path, good[:len(good)-1], 0o600) },
		"more than there was": func() error { return os.WriteFile(path, append(bytes.Clone(good), 0), 0o600) },
		"an empty object":     func() error { return os.WriteFile(path, nil, 0o600) },
		"no object":           func() error { return os.Remove(path) },
		"no manifest":         func() error { return os.Remove(manifest) },
		"another manifest": func() error {
			return os.WriteFile(manifest, bytes.Replace(goodManifest, []byte(`"rows": 40`), []byte(`"rows": 39`), 1), 0o600)
		},
	} {
		require.NoError(t, change())
		r, err := b.Verify(b.ctx, nil)
		require.NoError(t, err)
		require.Len(t, r.Findings, 1, damage)
		require.Equal(t, e.Manifest.Object, r.Findings[0].Object, damage)
		if !strings.Contains(damage, "manifest") { // the database has its own copy
			_, err = b.Restore(b.ctx, e.Partition, by)
			require.Error(t, err, damage)
			require.Zero(t, b.rows("delivery_attempts"), damage)
		}
		require.NoError(t, os.WriteFile(path, good, 0o600))
		require.NoError(t, os.WriteFile(manifest, goodManifest, 0o600))
	}
	// whatever the decoder says to another byte: an export that is damaged begins anew
	for i := range good {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x10
		require.NoError(t, os.WriteFile(path, flipped, 0o600))
		r, err := b.Verify(b.ctx, nil)
		require.NoError(t, err)
		require.Len(t, r.Findings, 1, "byte %d", i)
		require.Contains(t, r.Findings[0].Problem, archive.ErrDamaged.Error(), "byte %d", i)
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	r, err := b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	_, err = b.Restore(b.ctx, e.Partition, by)
	require.NoError(t, err)
	require.Equal(t, 40, b.rows("delivery_attempts"))
}

// An export leaves all as it is.
func TestExport(t *testing.T) {
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 20)
	b.deliver(b.begin.Add(day), 20)
	before := b.content("deliveries")
	m, err := b.Export(b.ctx, "deliveries", b.begin.Add(time.Hour+10*time.Second), b.begin.Add(day+5*time.Second), by)
	require.NoError(t, err)
	require.EqualValues(t, 15, m.Rows)
	require.Equal(t, before, b.content("deliveries"))
	r, err := b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, r.Objects)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*)::int FROM audit_log WHERE action = 'archive.export'`))
	_, err = b.Export(b.ctx, "deliveries", b.begin, b.begin, by)
	require.ErrorIs(t, err, archive.ErrRange)
	_, err = b.Export(b.ctx, "tenants", b.begin, b.begin.Add(day), by)
	require.ErrorIs(t, err, archive.ErrPartition)

	// nor is what is archived right before it reads exported as nothing
	hold, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = hold.Rollback(b.ctx) }()
	_, err = hold.Exec(b.ctx, `LOCK TABLE audit_log IN SHARE MODE`)
	require.NoError(t, err)
	exported := make(chan error, 1)
	go func() {
		_, err := b.Export(b.ctx, "deliveries", b.begin, b.begin.Add(2*day), by)
		exported <- err
	}()
	testenv.Eventually(t, time.Minute, "the export notes itself", func() bool {
		return testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'audit_log'::regclass AND NOT granted)`)
	})
	_, err = b.Archive(b.ctx, b.name("deliveries", 0))
	require.NoError(t, err)
	require.NoError(t, hold.Rollback(b.ctx))
	require.ErrorIs(t, <-exported, archive.ErrArchived)

	require.NoError(t, b.Run(b.ctx))
	_, err = b.Export(b.ctx, "deliveries", b.begin, b.begin.Add(day), by)
	require.ErrorIs(t, err, archive.ErrArchived)
}

// The body of an event leaves the database when it is old enough and nothing of the day may still
// be posted, confirmed or purged. The event stays.
func TestBodiesOfEventsAreArchived(t *testing.T) {
	b := setup(t, 12)
	b.opts.KeepEvents = 10 * day
	b.Service = archive.New(b.opts)
	store := func(at time.Time, authentic bool, n int) (ids []uuid.UUID) {
		category := "sig_invalid"
		if authentic {
			category = "non_payment_event"
		}
		for range n {
			ids = append(ids, b.at(at))
		}
		b.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
			SELECT id, 'webhook', $2, $2, id::text, '', 'x', 'ignored', $3, sha256(''), $4 FROM unnest($1::uuid[]) id`, ids, authentic, category, at)
		b.Exec(`INSERT INTO event_bodies (event_id, body) SELECT id, convert_to('{"n":"' || id || '\n"}', 'UTF8') || decode('00ff0a', 'hex') FROM unnest($1::uuid[]) id`, ids)
		return ids
	}
	ids := store(b.begin.Add(time.Hour), true, 20)
	store(b.begin.Add(5*day), true, 2)
	forged := store(b.begin.Add(2*time.Hour), false, 1)[0]
	name := b.name("event_bodies", 0)
	waits := func(why string) {
		t.Helper()
		_, err := b.Archive(b.ctx, name)
		require.ErrorIs(t, err, archive.ErrWaits)
		require.ErrorContains(t, err, why)
	}
	waits("1 forged events that are not purged yet")
	b.Exec(`DELETE FROM event_bodies WHERE event_id = $1`, forged)
	b.Exec(`DELETE FROM inbound_events WHERE id = $1`, forged)
	for _, kind := range []string{"ingest", "confirm"} {
		b.Schedule(work.Kind(kind), ids[3], b.Clock.Now())
		waits("1 items of pending work")
		b.Exec(`DELETE FROM work WHERE id = $1`, ids[3])
	}
	content := b.content("event_bodies")
	require.NoError(t, b.Run(b.ctx))
	require.Equal(t, 2, b.rows("event_bodies"))
	require.Equal(t, 22, b.rows("inbound_events"))
	r, err := b.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	_, err = b.Restore(b.ctx, name, by)
	require.NoError(t, err)
	require.Equal(t, content, b.content("event_bodies"))
}
