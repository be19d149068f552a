package app

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/console"
	"ajo/internal/operator"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/ratelimit"
)

// Wrong passwords from one network are compared only so often. Over that limit nobody learns from
// there which one is right, but whoever has been let in before still is.
func TestTriesAtTheOperationsLogin(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	tries, err := ratelimit.New(ratelimit.Options{PerTenant: "3-H", Open: "3-H", Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tries.Close() })
	pages := requireLogin(config.Config{OpsUser: "ops", OpsPassword: secret.Redact("right")}, log, tries,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	ask := func(from, password string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil), httptest.NewRecorder()
		r.RemoteAddr = from + ":4711"
		if password != "" {
			r.SetBasicAuth("ops", password)
		}
		pages.ServeHTTP(w, r)
		return w
	}
	for range 5 {
		require.Equal(t, 401, ask("192.0.2.1", "").Code, "a browser asks without a password first")
	}
	for range 3 {
		require.Equal(t, 401, ask("192.0.2.1", "wrong").Code)
	}
	require.Equal(t, 429, ask("192.0.2.1", "wrong").Code)
	guessed := ask("192.0.2.1", "right")
	require.Equal(t, 429, guessed.Code)
	require.NotEmpty(t, guessed.Header().Get("Retry-After"))
	require.Equal(t, 401, ask("192.0.2.1", "").Code, "a browser is asked for the password")
	require.Equal(t, 204, ask("192.0.2.2", "right").Code, "another network")
	require.Equal(t, 204, ask("192.0.2.1", "right").Code, "it has been let in")
	require.Equal(t, 429, ask("192.0.2.1", "other").Code)
	require.NotContains(t, said.String(), "wrong")
	require.Contains(t, said.String(), "from=192.0.2.1")
}

// A session of the console is looked for only for some seconds while Postgres is silent, as if its
// machine had died: the queues can then be seen by the other login, and the console says what is.
func TestOperationsWithASilentPostgres(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and nobody answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	url := "postgres://ajo@" + silent.Addr().String() + "/ajo?sslmode=disable&connect_timeout=600"
	pool, err := pg.OpenStandby(t.Context(), url, 2) // which need not answer yet
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	log := slog.New(slog.DiscardHandler)
	connected := console.New(console.Options{Operators: &operator.Service{Pool: pool, Clock: clock.System}, Log: log})
	anyLogin := func(h http.Handler) http.Handler { return h }
	ask := func(t *testing.T, h http.Handler, path string) int {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a browser waits longer
		defer cancel()
		r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), httptest.NewRecorder()
		r.AddCookie(&http.Cookie{Name: console.Cookie, Value: secret.NewToken().Reveal()})
		h.ServeHTTP(w, r)
		require.NoError(t, ctx.Err(), "it waits for Postgres")
		return w.Code
	}
	for name, opened := range map[string]*console.Console{"not connected yet": nil, "connected": connected} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			people := &opsConsole{cfg: config.Config{DatabaseURL: secret.Redact(url)}, log: log, opened: opened}
			queues := requireOperator(people, anyLogin, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			require.Equal(t, http.StatusNoContent, ask(t, queues, "/queues/"))
			require.GreaterOrEqual(t, ask(t, people, "/console/api/me"), 500)
		})
	}
}
