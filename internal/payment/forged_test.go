package payment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
