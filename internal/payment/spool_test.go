package payment_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/spool"
	"ajo/internal/testenv"
)

// Postgres is away: authentic events go to the spool, forged ones nowhere; when it is back they are stored in order, once.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept, err := spool.Open(t.TempDir(), 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	b.svc.Spool = kept
	first, second := b.event(nil), b.event(nil)
	stored := b.receive(b.event(nil))
	at := b.Clock.Now()

	b.Exec(`ALTER TABLE inbound_events RENAME TO away`)
	for _, d := range []payment.Delivery{first, second, first} {
		r := b.receive(d)
		require.True(t, r.Spooled)
		require.False(t, r.ToPost(), "there is nothing to ring yet")
	}
	forged := first
	forged.Signature = "?"
	_, err = b.svc.Receive(b.ctx, forged)
	require.ErrorIs(t, err, payment.ErrNotStored)
	unspool := func() (n int, err error) {
		return kept.Drain(b.ctx, func(ctx context.Context, records [][]byte) error {
			stored, err := b.svc.Unspool(ctx, records)
			for _, r := range stored {
				if r.ToPost() {
					b.post(r.ID)
				}
			}
			return err
		})
	}
	_, err = unspool()
	require.Error(t, err, "still away")
	b.Exec(`ALTER TABLE away RENAME TO inbound_events`)

	b.Clock.Advance(3_600_000_000_000)
	n, err := unspool()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`), "the copy is a duplicate")
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE received_at = $1`, at), "received when the bank sent it")
	b.post(stored.ID)
	balance, _ := b.books()
	require.Equal(t, "14925.00", balance)
}

func TestNowhereToStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	full, err := spool.Open(t.TempDir(), 10)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	b.svc.Spool = full
	d := b.event(nil)
	b.Pool.Close()
	_, err = b.svc.Receive(b.ctx, d)
	require.ErrorIs(t, err, payment.ErrNotStored)
	require.ErrorIs(t, err, spool.ErrFull)
}

// A full spool is handed over in few round trips: after an hour without Postgres, events must not wait for another one.
func TestUnspoolInBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const events, way = 200, 10 * time.Millisecond // one way to Postgres
	var records [][]byte
	for range events {
		record, err := json.Marshal(struct {
			payment.Delivery
			ReceivedAt time.Time
		}{b.event(nil), b.Clock.Now()})
		require.NoError(t, err)
		records = append(records, record)
	}
	far := testenv.NewProxy(t, b.Pool.Config().ConnConfig.Host+":"+strconv.Itoa(int(b.Pool.Config().ConnConfig.Port)), true)
	u, err := url.Parse(b.DatabaseURL)
	require.NoError(t, err)
	u.Host = far.Addr
	pool, err := pg.Open(b.ctx, u.String(), 4)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b.svc.Pool = pool
	far.Delay(way)
	begin := time.Now()
	stored, err := b.svc.Unspool(b.ctx, records)
	require.NoError(t, err)
	require.Len(t, stored, events)
	t.Logf("%d events in %s", events, time.Since(begin))
	require.Less(t, time.Since(begin), events*way)
	require.Equal(t, events, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}
