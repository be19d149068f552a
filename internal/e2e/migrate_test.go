package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/migrations"
)

// stall is how long payments may wait for a migration on a machine that does nothing else (make
// test-migrations). They wait for its own wait for a lock at most, and a moment for what it then
// does. stallBeside is for a machine that has more to do.
const (
	stall       = time.Second
	stallBeside = 10 * time.Second
)

// The examples of migrations run beside payments, on a book of AJO_TEST_LIST_ROWS rows (2,000),
// while somebody reads for long what they want to lock. The longest time that posting stopped is
// printed. Nobody waits for the migration for long.
func TestMigrationsBesidePayments(t *testing.T) {
	w := newWorld(t)
	rows, limit := 2000, stallBeside
	if v := os.Getenv("AJO_TEST_LIST_ROWS"); v != "" {
		var err error
		rows, err = strconv.Atoi(v)
		limit = stall
		require.NoError(t, err)
	}
	w.settings["AJO_CONFIRM_MIN_AGE"] = "0s"
	p := w.settle()
	p.startWorker("")
	p.fillsBook(rows)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var load sync.WaitGroup
	var mu sync.Mutex
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				tx := p.payAndTell(p.nuban, "5000.00")
				mu.Lock()
				p.txs = append(p.txs, tx)
				mu.Unlock()
			}
		})
	}
	p.eventually("payments", func() bool { return p.progress().delivered > 20 })
	var waits waits
	load.Go(func() { waits.collect(ctx, t, w.DatabaseURL) })

	reader, err := pgx.Connect(ctx, w.DatabaseURL)
	require.NoError(t, err)
	defer func() { _ = reader.Close(context.Background()) }()
	hold, err := reader.Begin(ctx)
	require.NoError(t, err)
	_, err = hold.Exec(ctx, `SELECT FROM deliveries LIMIT 1`)
	require.NoError(t, err)
	begin, tries := time.Now(), 0
	applied, err := migrations.Up(ctx, w.DatabaseURL, migrations.Options{Files: os.DirFS("../../migrations/testdata/live"), Log: func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), line)
		if strings.Contains(line, "trying again") {
			// and somebody was seen to wait
			if tries++; tries >= 2 && waits.longest.Load() > 0 {
				_ = hold.Commit(ctx)
			}
		}
	}})
	took := time.Since(begin)
	require.NoError(t, err)
	require.Len(t, applied, 7)
	require.GreaterOrEqual(t, tries, 2)
	done := p.progress().delivered
	p.eventually("more payments", func() bool { return p.progress().delivered > done })
	cancel()
	load.Wait()
	t.Logf("%d files on a book of %d rows took %s, with %d payments meanwhile; the longest that a payment waited for a migration: %s; the longest without a posting: %s",
		len(applied), rows, took.Round(time.Millisecond), len(p.txs), time.Duration(waits.longest.Load()).Round(time.Millisecond), waits.pause.Round(time.Millisecond))
	require.Less(t, time.Duration(waits.longest.Load()), limit)
	require.Positive(t, waits.longest.Load(), "somebody waited for the table that was being read")
	p.eventually("all payments to be posted, delivered and confirmed", func() bool {
		at := p.progress()
		return at.posted == len(p.txs) && at.delivered >= rows+len(p.txs) && at.confirmed >= len(p.txs)
	})
	var ids []string
	for _, tx := range p.txs {
		ids = append(ids, tx.ID)
	}
	require.Equal(t, len(ids), p.count(`
		SELECT count(*) FROM (SELECT FROM ledger_entries WHERE provider_txn_ref = ANY($1) GROUP BY provider_txn_ref HAVING count(*) = 1) once`, ids))
	require.Zero(t, p.count(`SELECT count(*) FROM deliveries WHERE region IS NULL`))
}

// fillsBook gives another tenant a history of so many payments, each posted and delivered.
func (p *paid) fillsBook(rows int) {
	p.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, p.DatabaseURL)
	require.NoError(p.t, err)
	defer func() { _ = conn.Close(ctx) }()
	const id = `(lpad(to_hex(1700000000000 + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid`
	const tenant, account = `'018f0000-0000-7000-8000-000000000001'`, `'018f0000-0000-7000-8000-000000000002'`
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
			SELECT ` + id + `, ` + tenant + `, ` + account + `, n, 'credit', 1, 'confirmed', ` + id + `, n, now() FROM generate_series(1, $1) n`,
		`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
			SELECT ` + id + `, ` + tenant + `, ` + account + `, ` + id + `, 'payment.received', 'https://shop.example', '', 'delivered', now(), now() FROM generate_series(1, $1) n`,
	} {
		args := []any{rows}
		if strings.HasPrefix(sql, "SET") {
			args = nil
		}
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(p.t, err, sql)
	}
}

// waits is how long others waited for a migration, by Postgres' own clock, and for a posting.
type waits struct {
	longest atomic.Int64 // nanoseconds
	pause   time.Duration
}

func (w *waits) collect(ctx context.Context, t *testing.T, url string) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.Background()) }()
	posted, at := int64(0), time.Now()
	for {
		var waited, entries int64
		err := conn.QueryRow(ctx, `
			SELECT (SELECT coalesce(max(1000 * extract(epoch FROM clock_timestamp() - l.waitstart)), 0)::bigint
				FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND NOT l.granted
				WHERE a.datname = current_database() AND a.application_name <> 'ajo migrate' AND EXISTS (
					SELECT FROM pg_stat_activity m WHERE m.datname = a.datname AND m.application_name = 'ajo migrate' AND m.pid = ANY(pg_blocking_pids(a.pid)))),
			(SELECT sum(last_seq) FROM ledger_balances)`).Scan(&waited, &entries)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		w.longest.Store(max(w.longest.Load(), waited*int64(time.Millisecond)))
		if now := time.Now(); entries > posted {
			posted, at = entries, now
		} else {
			w.pause = max(w.pause, now.Sub(at))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
