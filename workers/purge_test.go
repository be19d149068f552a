package workers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// A purge removes all that is old, in as many steps as that takes, and nothing else; two at once do
// not get in each other's way.
func TestPurgeUntilNothingIsOld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const old, young, step = 250, 20, 10
	b.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, body, received_at)
		SELECT gen_random_uuid(), 'webhook', false, false, '', '', '', 'failed', 'sig_invalid', sha256('x'), 'x',
			now() - CASE WHEN n <= $1 THEN interval '31 days' ELSE interval '29 days' END FROM generate_series(1, $1::int + $2::int) AS n`, old, young)
	b.Exec(`INSERT INTO idempotency_keys (tenant_id, key, request_hash, status_code, response, created_at)
		SELECT $3, n::text, sha256('x'), 200, '{}', now() - CASE WHEN n <= $1 THEN interval '8 days' ELSE interval '6 days' END
		FROM generate_series(1, $1::int + $2::int) AS n`, old, young, b.tenant)
	b.Exec(`INSERT INTO listen_events (tenant_id, id, event_type, body, created_at)
		SELECT $3, gen_random_uuid(), 'payment.received', '{}', now() - CASE WHEN n <= $1 THEN interval '2 hours' ELSE interval '1 minute' END
		FROM generate_series(1, $1::int + $2::int) AS n`, old, young, b.tenant)
	w := &Workers{Options: b.opts}
	other := make(chan error)
	go func() { other <- w.purge(b.ctx, step) }()
	require.NoError(t, w.purge(b.ctx, step))
	require.NoError(t, <-other)
	for _, table := range []string{"inbound_events", "idempotency_keys", "listen_events"} {
		require.Equal(t, young, testenv.Value[int](b.Env, `SELECT count(*) FROM `+table), table)
	}
}
