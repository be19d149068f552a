package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// A URL fails while a delivery to it waits for another attempt, unless its endpoint is paused or
// removed.
func TestFailing(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(503))
	b.queueOne(r.URL + "/new")
	tried := func(url string) {
		id := b.queueOne(url)
		require.Error(t, b.Deliver(b.ctx, id))
		require.Equal(t, 1, b.get(id).AttemptCount)
	}
	since := b.Clock.Now()
	tried(r.URL + "/hook")
	b.Clock.Advance(time.Second)
	tried(r.URL + "/hook")
	tried(r.URL + "/later")
	for path, change := range map[string]string{"/paused": "paused_at = now()", "/removed": "removed_at = now(), secret = NULL"} {
		endpoint := b.Endpoint(b.tenant, r.URL+path, "{payment.received}")
		id := b.queueOne(r.URL + path)
		require.Error(t, b.Deliver(b.ctx, id))
		b.Exec(`UPDATE deliveries SET endpoint_id = $2 WHERE id = $1`, id, endpoint)
		b.Exec(`UPDATE webhook_endpoints SET `+change+` WHERE id = $1`, endpoint)
	}
	given := b.queueOne(r.URL + "/given-up")
	require.Error(t, b.Deliver(b.ctx, given))
	b.Exec(`UPDATE deliveries SET status = 'dead_letter' WHERE id = $1`, given)

	failing, err := b.Failing(b.ctx)
	require.NoError(t, err)
	require.Len(t, failing, 2)
	first := failing[0]
	require.Equal(t, testenv.Value[string](b.Env, `SELECT name || ' ' || email FROM tenants WHERE id = $1`, b.tenant), first.Tenant+" "+first.Email)
	require.Equal(t, []any{b.tenant, r.URL + "/hook", 2, true, "HTTP 503"}, []any{first.TenantID, first.CallbackURL, first.Deliveries, since.Equal(first.Since), first.LastError})
	require.Equal(t, r.URL+"/later", failing[1].CallbackURL)
}
