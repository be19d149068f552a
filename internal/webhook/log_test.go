package webhook

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
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

// A transaction that rolls back leaves nothing, and holds nothing up; nor does one that only reads.
func TestLogGoesOn(t *testing.T) {
	b := setup(t)
	b.logMargin = 0
	d := b.payment("https://example.com/")
	err := pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := Queue(b.ctx, tx, b.Clock.Now(), []NewDelivery{b.payment("https://example.com/")}); err != nil {
			return err
		}
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	b.queue(d)
	require.Eventually(t, func() bool {
		got, _, _ := b.logged("", 10)
		return len(got) == 1 && got[0] == d.TransactionGroupID
	}, 30*time.Second, time.Millisecond)
}

// A page says that there is more, and the cursor of the nothing that was read is one.
func TestLogPages(t *testing.T) {
	b := setup(t)
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
