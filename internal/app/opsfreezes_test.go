package app

import (
	"html"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// The operations page says what is stopped, to who logs in only; and when it cannot know that, it
// does not say that nothing is.
func TestOpsShowWhatIsStopped(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Redis()
	start := func(database string) (get func(user string) (int, string)) {
		o, err := StartOps(config.Config{
			OpsAddr: "127.0.0.1:0", OpsUser: "ops", OpsPassword: secret.Redact("p"), RateLimitOpen: "20-M", RedisURL: secret.Redact(e.RedisURL), DatabaseURL: secret.Redact(database),
		}, slog.New(slog.DiscardHandler), nil)
		require.NoError(t, err)
		t.Cleanup(o.Stop)
		index, err := http.Get(o.URL)
		require.NoError(t, err)
		body, err := io.ReadAll(index.Body)
		require.NoError(t, err)
		require.NoError(t, index.Body.Close())
		require.Contains(t, string(body), `<a href="/freezes">What is stopped</a>`)
		return func(password string) (int, string) {
			r, err := http.NewRequest(http.MethodGet, o.URL+"/freezes", nil)
			require.NoError(t, err)
			r.SetBasicAuth("ops", password)
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			body, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			return answer.StatusCode, html.UnescapeString(string(body))
		}
	}
	get := start(e.DatabaseURL)
	status, body := get("wrong")
	require.Equal(t, []any{401, false}, []any{status, len(body) > 100})
	status, body = get("p")
	require.Equal(t, 200, status)
	require.Contains(t, body, "Nothing is stopped")

	s := freeze.Service{Pool: e.Pool, Clock: clock.System}
	frozen := e.Tenant()
	until := clock.System.Now().Add(time.Hour)
	stood, err := s.Begin(t.Context(), freeze.New{Scope: freeze.Tenant, Subject: frozen, Until: &until}, audit.By{Actor: "cli:ada", Reason: "a leaked key <b>"})
	require.NoError(t, err)
	_, err = s.Begin(t.Context(), freeze.New{Scope: freeze.Payouts, Subject: uuid.Nil}, audit.By{Actor: "cli:ada", Reason: "the bank asks"})
	require.NoError(t, err)
	_, body = get("p")
	for _, part := range []string{"tenant:" + frozen.String(), "payouts:all", "a leaked key <b>", "the bank asks", until.UTC().Format(time.RFC3339), "it is lifted", "ajo freeze lift " + stood.ID.String()} {
		require.Contains(t, body, part)
	}
	_, err = s.Lift(t.Context(), stood.ID, audit.By{Actor: "cli:ada", Reason: "rotated"})
	require.NoError(t, err)
	_, body = get("p")
	require.NotContains(t, body, frozen.String())
	require.Contains(t, body, "payouts:all")

	suspended := e.Tenant()
	tenants := tenant.New(tenant.Options{Pool: e.Pool, Clock: clock.System})
	_, err = tenants.Suspend(t.Context(), suspended, audit.By{Actor: "cli:ada", Reason: "a fraud report"})
	require.NoError(t, err)
	_, body = get("p")
	for _, part := range []string{"suspension:" + suspended.String(), "a fraud report", "it is activated", "ajo tenant activate " + suspended.String(), "payouts:all"} {
		require.Contains(t, body, part)
	}
	_, err = tenants.Activate(t.Context(), suspended, audit.By{Actor: "cli:ada", Reason: "it was none"})
	require.NoError(t, err)
	_, body = get("p")
	require.NotContains(t, body, suspended.String())

	require.NotContains(t, body, "There may be more")
	const some = `INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at, lifted_at)
		SELECT overlay(gen_random_uuid()::text PLACING $2 FROM 1 FOR 1)::uuid, 'tenant', $1::uuid, $1::uuid, false, 'one of many', 'cli:ada', now(), $3
		FROM generate_series(1, $4)`
	e.Exec(some, frozen, "e", nil, page.Max)
	_, body = get("p")
	require.Contains(t, body, "one of many")
	require.NotContains(t, body, "payouts:all")
	require.Contains(t, body, "There may be more", "a page has 100 freezes")
	e.Exec(some, frozen, "f", time.Now(), pg.ScanLimit)
	_, body = get("p")
	require.NotContains(t, body, "Nothing is stopped", "a page reads 10,000 freezes")
	require.Contains(t, body, "There may be more")

	status, body = start("postgres://127.0.0.1:1/none")("p")
	require.Equal(t, 503, status)
	require.NotContains(t, body, "Nothing is stopped")
	require.Contains(t, body, "could not be read")
}
