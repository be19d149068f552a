package app

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
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
