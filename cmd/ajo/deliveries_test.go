package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// A replay goes to the endpoint as it is now: so the sentence and the audit log say. To one that is
// paused or was removed nothing can be sent, and nothing is asked.
func TestReplayToAnEndpoint(t *testing.T) {
	o := setup(t)
	id, endpoint := o.deadLetter(), uuid.Must(uuid.NewV7())
	replay := []string{"deliveries", "replay", id.String(), "--reason", "it is up again"}
	says := func() string {
		_, said, err := o.run(replay...)
		require.ErrorIs(t, err, errUnasked)
		return said
	}
	require.Contains(t, says(), "to https://shop.example/hook again: ")
	o.Exec(`INSERT INTO webhook_endpoints (id, tenant_id, url, events, secret, created_at, updated_at)
		VALUES ($1, $2, 'https://new.example/hook', '{payment.received}', '\x00', now(), now())`, endpoint, o.tenant)
	o.Exec(`UPDATE deliveries SET endpoint_id = $2 WHERE id = $1`, id, endpoint)
	require.Contains(t, says(), "to https://new.example/hook again: ")
	require.Contains(t, says(), "the first at once.")
	o.Exec(`UPDATE webhook_endpoints SET paused_at = now() WHERE id = $1`, endpoint)
	refused := func(why string) {
		t.Helper()
		_, said, err := o.run(replay...)
		require.EqualError(t, err, why)
		require.NotContains(t, said, "Send the event")
	}
	refused("the endpoint is paused")
	o.Exec(`UPDATE webhook_endpoints SET removed_at = now(), secret = NULL WHERE id = $1`, endpoint)
	refused("its endpoint was removed")
	o.Exec(`UPDATE webhook_endpoints SET removed_at = NULL, secret = '\x00', paused_at = NULL WHERE id = $1`, endpoint)
	o.good(append(replay, "--yes")...)
	require.Equal(t, "https://new.example/hook", testenv.Value[string](o.Env, `SELECT detail ->> 'CallbackURL' FROM audit_log WHERE action = 'deliveries.replay'`))
}
