package webhook

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// logged are the groups of the events after a cursor.
func (b *bundle) logged(after string, limit int) (groups []uuid.UUID, next string, more bool) {
	b.T.Helper()
	l, err := b.Log(b.ctx, b.tenant, page.Request{Limit: limit, After: after})
	require.NoError(b.T, err)
	for _, e := range l.Events {
		groups = append(groups, e.TransactionGroupID)
	}
	return groups, l.Next, l.HasMore
}

// open queues a delivery in a transaction that has written before, and leaves it open: commit ends
// it.
func (b *bundle) open(d NewDelivery) (commit func()) {
	b.T.Helper()
	queued, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- pg.InTx(context.Background(), b.Pool, func(tx pg.Tx) error {
			if _, err := tx.Exec(b.ctx, `SELECT pg_current_xact_id()`); err != nil {
				return err
			}
			_, err := Queue(b.ctx, tx, b.Clock.Now(), []NewDelivery{d})
			close(queued)
			<-end
			return err
		})
	}()
	<-queued
	release := sync.OnceFunc(func() { close(end) })
	b.T.Cleanup(release) // a test that fails leaves no transaction open
	return func() {
		release()
		require.NoError(b.T, <-done)
	}
}

// An event that goes to no URL is in the log of a tenant that keeps it: delivered from the start,
// with nothing to do. One that goes somewhere is there once, and is sent.
func TestLogHasWhatGoesNowhere(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	nowhere, unchosen := b.payment(""), b.payment("")
	require.Empty(t, b.queue(nowhere), "not before it is asked for")
	by := audit.Session("ada@example.com", netip.Addr{})
	for _, on := range []bool{true, true, false, true} {
		require.NoError(t, b.LogAll(b.ctx, b.tenant, on, by))
		got, err := b.LogsAll(b.ctx, b.tenant)
		require.NoError(t, err)
		require.Equal(t, on, got)
	}
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'webhook.log'`), "what changed nothing is not logged")
	unchosen.FanOut, unchosen.Type = true, SettlementFailed
	sent := b.payment("https://example.com/")
	sent.FanOut = true
	fanned := b.payment("")
	fanned.FanOut = true
	endpoint := b.Endpoint(b.tenant, "https://example.com/two", "{payment.received}")
	ids := b.queue(unchosen, sent, fanned)
	require.Equal(t, []string{"delivered ", "pending https://example.com/", "pending https://example.com/two"}, testenv.Value[[]string](b.Env, `
		SELECT array_agg(status || ' ' || callback_url ORDER BY array_position($1, id)) FROM deliveries WHERE id = ANY($1)`, ids))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE callback_url = ''`))
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE endpoint_id = $1`, endpoint))
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver'`), "none for the one in the log")
	require.Eventually(t, func() bool {
		groups, _, _ := b.logged("", 10)
		return len(groups) == 3 && slices.Contains(groups, unchosen.TransactionGroupID)
	}, 30*time.Second, time.Millisecond)
}

// Each event names its own account.
func TestLogNamesTheAccounts(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	other := b.payment("https://example.com/")
	other.AccountID, other.AccountRef = b.Account(b.tenant, "customer-2"), "customer-2"
	own := b.payment("https://example.com/")
	b.queue(own, other)
	refs := map[uuid.UUID]string{}
	require.Eventually(t, func() bool {
		l, err := b.Log(b.ctx, b.tenant, page.Request{Limit: 10})
		require.NoError(t, err)
		for _, e := range l.Events {
			refs[e.TransactionGroupID] = e.AccountRef
		}
		return len(refs) == 2
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, map[uuid.UUID]string{own.TransactionGroupID: "customer-1", other.TransactionGroupID: "customer-2"}, refs)
}

// An event of a transaction that commits later than one with a larger id is not missed by a reader
// who has been there: the log ends before it until it is decided.
func TestLogMissesNothingThatCommitsLate(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	first, late, early, after := b.payment("https://example.com/"), b.payment("https://example.com/"), b.payment("https://example.com/"), b.payment("https://example.com/")
	b.queue(first)
	require.Eventually(t, func() bool { got, _, _ := b.logged("", 10); return len(got) == 1 }, 30*time.Second, time.Millisecond)
	_, cursor, _ := b.logged("", 10)

	commit := b.open(late) // has the smaller id
	b.queue(early)         // and commits first
	for range 20 {
		got, next, more := b.logged(cursor, 10)
		require.Empty(t, got, "an event behind one that may still commit before it")
		require.False(t, more)
		require.Equal(t, cursor, next)
	}
	commit()
	b.queue(after)
	var seen []uuid.UUID
	require.Eventually(t, func() bool {
		got, next, _ := b.logged(cursor, 1)
		seen, cursor = append(seen, got...), next
		return len(seen) == 3
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, []uuid.UUID{late.TransactionGroupID, early.TransactionGroupID, after.TransactionGroupID}, seen)
	got, _, more := b.logged(cursor, 1)
	require.Empty(t, got)
	require.False(t, more)
}

// A transaction that rolls back leaves nothing, and holds nothing up; nor does one that only reads,
// once it has read for a while, nor one of the archive or of another database.
func TestLogGoesOn(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	d := b.payment("https://example.com/")
	elsewhere, err := pgx.Connect(b.ctx, testenv.EmptyDatabase(t))
	require.NoError(t, err)
	defer func() { _ = elsewhere.Close(b.ctx) }()
	_, err = elsewhere.Exec(b.ctx, `BEGIN; CREATE TABLE t ()`)
	require.NoError(t, err)
	restoring, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, restoring.Rollback(b.ctx)) }()
	_, err = restoring.Exec(b.ctx, `SELECT set_config('application_name', $1, true), pg_current_xact_id()`, pg.Archiving)
	require.NoError(t, err)
	err = pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := Queue(b.ctx, tx, b.Clock.Now(), []NewDelivery{b.payment("https://example.com/")}); err != nil {
			return err
		}
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	reading, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, reading.Rollback(b.ctx)) }()
	b.queue(d)
	for range 20 {
		got, _, _ := b.logged("", 10)
		require.Empty(t, got, "the transaction may still write")
	}
	b.onlyReads = -time.Hour // has passed
	require.Eventually(t, func() bool {
		got, _, _ := b.logged("", 10)
		return len(got) == 1 && got[0] == d.TransactionGroupID
	}, 30*time.Second, time.Millisecond)
}

// An event is in the log ten seconds after its id was made.
func TestLogMargin(t *testing.T) {
	b := setup(t)
	b.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com', '{}', 'pending', $4)`,
		partition.Floor(time.Now().Add(-15*time.Second)), b.tenant, b.account, b.Clock.Now())
	made := time.Now()
	b.queue(b.payment("https://example.com/"))
	got, _, _ := b.logged("", 10)
	if time.Since(made) < logMargin { // else the machine has stood still meanwhile
		require.Len(t, got, 1)
	}
}

// A page says that there is more, and the cursor of the nothing that was read is one.
func TestLogPages(t *testing.T) {
	b := setup(t)
	b.logMargin = time.Hour
	got, next, more := b.logged("", 2)
	require.Empty(t, got)
	require.False(t, more)
	var want []uuid.UUID
	for range 5 {
		d := b.payment("https://example.com/")
		want = append(want, d.TransactionGroupID)
		b.queue(d)
	}
	got, _, _ = b.logged(next, 2)
	require.Empty(t, got, "the margin")
	b.logMargin = -time.Hour // all is old
	var seen []uuid.UUID
	for more = true; more; {
		got, next, more = b.logged(next, 2)
		seen = append(seen, got...)
	}
	require.Equal(t, want, seen)
	_, err := b.Log(b.ctx, b.tenant, page.Request{Limit: 2, After: page.ID(page.Deliveries, uuid.New())})
	require.ErrorIs(t, err, page.ErrCursor)
}
