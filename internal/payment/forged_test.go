package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/testenv"
)

// Without a setting, 20,000 forged events are kept, and the purge leaves half of them.
func TestForgedEventsAreBoundedByDefault(t *testing.T) {
	t.Parallel()
	const kept = 20_000
	b := setup(t)
	b.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
		SELECT gen_random_uuid(), 'webhook', false, false, '', '', '', 'ignored', 'sig_invalid', sha256(n::text::bytea), $1::timestamptz - n * interval '1 second'
		FROM generate_series(1, $2) n`, b.Clock.Now(), kept-2)
	count := func() int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE forged`)
	}
	for range 4 {
		require.Equal(t, payment.CategorySigInvalid, b.receive(payment.InboundRequest{Body: []byte("{}")}).Category)
	}
	require.Equal(t, kept, count())
	removed, err := b.svc.PurgeForged(b.ctx, kept)
	require.NoError(t, err)
	require.EqualValues(t, kept/2-1, removed)
	require.Equal(t, kept/2+1, count(), "half of them, and the one after which those came")
}

// What another process is removing is left to it, and not waited for.
func TestPurgesOfForgedEventsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	forged := payment.InboundRequest{Body: []byte("{}")}
	first := b.receive(forged).ID
	b.receive(forged)
	b.Clock.Advance(31 * 24 * time.Hour)
	var removed int64
	require.NoError(t, b.Beside(testenv.Runs(`SELECT FROM inbound_events WHERE id = $1 FOR UPDATE`, first), func() (err error) {
		removed, err = b.svc.PurgeForged(b.ctx, 10)
		return err
	}))
	require.EqualValues(t, 1, removed)
	require.Equal(t, []uuid.UUID{first}, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id) FROM inbound_events`))
}

// Only a payment waits to be posted: nothing is to be done about a forged event, or one that is no
// payment.
func TestOnlyPaymentsWaitToBePosted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.event(nil)
	forged := d
	forged.Signature = "AAAA" + d.Signature[4:]
	b.receive(forged)
	ignored := b.receive(b.event(func(e *fakebank.Event) { e.EventType = "payment_failed" }))
	require.Equal(t, payment.CategoryNonPayment, ignored.Category)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM work`))
	id := b.receive(d).ID
	require.Equal(t, []uuid.UUID{id}, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id) FROM work WHERE kind = 'ingest'`))
}
