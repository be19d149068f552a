package archive_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/audit"
	"ajo/internal/partition"
	"ajo/internal/testenv"
)

const day = 24 * time.Hour

var by = audit.By{Actor: "cli:test", Reason: "a test"}

// bundle is a database with partitions of a day, one tenant with one account, and an archive in a
// folder.
type bundle struct {
	*testenv.Env
	*archive.Service
	ctx     context.Context
	opts    archive.Options
	tenant  uuid.UUID
	account uuid.UUID
	begin   time.Time // of the first day
	seq     int64
}

func setup(t testing.TB, days int) *bundle {
	if tt, ok := t.(*testing.T); ok {
		tt.Parallel()
	}
	e := testenv.New(t)
	b := &bundle{Env: e, ctx: context.Background(), tenant: e.Tenant()}
	b.account = e.Account(b.tenant, "shop-1")
	b.opts = archive.Options{
		Pool: e.Pool, Store: archive.Folder{Dir: t.TempDir()}, Clock: e.Clock, Log: slog.New(slog.DiscardHandler),
		KeepDeliveries: 10 * day, Rows: 7, Lease: time.Minute,
	}
	b.Service = archive.New(b.opts)
	parts, err := partition.List(b.ctx, e.Pool)
	require.NoError(t, err)
	last := parts[len(parts)-1].From // the template has some: the first day is the last's
	b.begin = last
	if days > 0 {
		e.Clock.Set(last.Add(time.Duration(days) * day))
		require.NoError(t, partition.MakeAhead(b.ctx, e.Pool, partition.Day, e.Clock.Now()))
	}
	return b
}

// with is the archive with another store.
func (b *bundle) with(s archive.Store) *archive.Service {
	o := b.opts
	o.Store = s
	return archive.New(o)
}

// at is an id of a time; each is another.
func (b *bundle) at(t time.Time) (id uuid.UUID) {
	id = partition.Floor(t)
	binary.BigEndian.PutUint64(id[8:], uint64(atomic.AddInt64(&b.seq, 1)))
	id[6], id[8] = 0x70, 0x80
	return id
}

// deliver stores deliveries of a day, delivered by the second attempt each.
func (b *bundle) deliver(at time.Time, n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = b.at(at.Add(time.Duration(i) * time.Second))
	}
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, created_at, delivered_at)
		SELECT id, $2, $3, id, 'payment.received', 'http://shop.example/', convert_to(E'{"narration":"a\tb\\\\c\n"}', 'UTF8') || decode('00ff0a', 'hex'), 'delivered', 2, $4, $4
		FROM unnest($1::uuid[]) id`, ids, b.tenant, b.account, at)
	b.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
		SELECT id, 1, $2, 12, 500, 'HTTP 500', 'no' FROM unnest($1::uuid[]) id`, ids, at)
	return ids
}

// content is a digest of all that a table has.
func (b *bundle) content(table string) string {
	return testenv.Value[string](b.Env, `SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, ';' ORDER BY t::text)), '') FROM `+table+` t`)
}

func (b *bundle) rows(table string) int {
	return testenv.Value[int](b.Env, `SELECT count(*)::int FROM `+table)
}

// states are the partitions of a table that are not merely kept, as "name state".
func (b *bundle) states(table string) (out []string) {
	list, err := b.List(b.ctx, true)
	require.NoError(b.T, err)
	for _, e := range list {
		if e.Table == table && e.State != archive.Kept {
			out = append(out, fmt.Sprint(e.Partition, " ", e.State))
		}
	}
	return out
}

func (b *bundle) name(table string, n int) string {
	return table + "_" + b.begin.Add(time.Duration(n)*day).Format("20060102")
}

// faulty is a store that fails as its functions say.
type faulty struct {
	archive.Store
	put func(name string, r io.Reader) io.Reader
	get func(name string, r io.ReadCloser) (io.ReadCloser, error)
}

func (f *faulty) Put(ctx context.Context, name string, r io.Reader) error {
	if f.put != nil {
		r = f.put(name, r)
	}
	return f.Store.Put(ctx, name, r)
}

func (f *faulty) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := f.Store.Get(ctx, name)
	if err != nil || f.get == nil {
		return r, err
	}
	return f.get(name, r)
}
