package webhook

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
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

// A dead letter that is sent again fails no more than a new event does: neither its attempts before
// that nor its age say that the endpoint fails now.
func TestFailingAfterAReplay(t *testing.T) {
	b := setup(t)
	var code atomic.Int32
	code.Store(503)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) })
	failing := func() []FailingEndpoint {
		all, err := b.Failing(b.ctx)
		require.NoError(t, err)
		return all
	}
	id := b.queueOne(r.URL)
	made := b.Clock.Now()
	for b.get(id).Status == Pending {
		require.Error(t, b.Deliver(b.ctx, id))
		b.Clock.Advance(time.Hour)
	}
	require.Empty(t, failing(), "nothing waits")
	b.Clock.Advance(20 * 24 * time.Hour)
	require.NoError(t, b.Replay(b.ctx, id, byHand))
	require.Empty(t, failing(), "it has not failed since")

	again := b.Clock.Now()
	require.Error(t, b.Deliver(b.ctx, id))
	all := failing()
	require.Len(t, all, 1)
	require.True(t, all[0].Since.Equal(again), "%s: it was made at %s, and sent again at %s", all[0].Since, made, again)

	code.Store(200)
	b.Clock.Advance(time.Hour)
	require.NoError(t, b.Deliver(b.ctx, id))
	require.Empty(t, failing())
}

// Neither a tenant with more failing URLs than are returned, nor one with more waiting deliveries
// than are read, hides the failing endpoint of another.
func TestFailingBesideMany(t *testing.T) {
	b := setup(t)
	r := receive(t, answer(503))
	crowd := b.Env.Tenant()
	busy := b.Env.Account(crowd, "busy")
	waits := func(n, attempts int, since, due time.Time) {
		b.Exec(`WITH d AS (
				INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
				SELECT `+testenv.IDsAfter(uuid.Nil)+`, $1::uuid, $2::uuid, gen_random_uuid(), 'payment.received', 'https://busy.example/' || gen_random_uuid()::text, '{}', 'pending', $4::int, 'HTTP 503', $5::timestamptz
				FROM generate_series(1, $3::int) RETURNING id)
			INSERT INTO work (kind, id, tenant_id, due_at) SELECT 'deliver', id, $1::uuid, $6::timestamptz FROM d`, crowd, busy, n, attempts, since, due)
	}
	now := b.Clock.Now()
	seen := func() bool {
		all, err := b.Failing(b.ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, len(all), failingURLs)
		require.True(t, slices.IsSortedFunc(all, func(a, b FailingEndpoint) int { return a.Since.Compare(b.Since) }))
		return slices.ContainsFunc(all, func(f FailingEndpoint) bool { return f.TenantID == b.tenant && f.CallbackURL == r.URL })
	}
	waits(failingURLs+1, 1, now.Add(-2*time.Hour), now.Add(time.Hour))
	id := b.queueOne(r.URL)
	require.Error(t, b.Deliver(b.ctx, id))
	require.True(t, seen(), "beside more URLs that have failed for longer")
	waits(failingRows, 0, now, now.Add(time.Second))
	require.True(t, seen(), "beside more deliveries, which are due before")
}
