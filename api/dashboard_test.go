package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/dashboard"
)

// Each file of the dashboard is served with its type, its policy and its ETag, to anybody: there is
// nothing of a tenant in it.
func TestDashboardIsServed(t *testing.T) {
	w := setup(t)
	paths := map[string]string{"/dashboard": "text/html; charset=utf-8", "/dashboard/": "text/html; charset=utf-8"}
	for _, f := range dashboard.Files() {
		if f.Name != dashboard.Page {
			paths["/dashboard/"+f.Name] = f.Media
		}
	}
	require.Equal(t, "text/css; charset=utf-8", paths["/dashboard/style.css"])
	require.Equal(t, "text/javascript; charset=utf-8", paths["/dashboard/app.js"])
	for path, media := range paths {
		r := w.do("GET", path, "").ok(200, nil)
		require.Equal(t, media, r.Header.Get("Content-Type"), path)
		require.Equal(t, "no-cache", r.Header.Get("Cache-Control"), path)
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "+
			"base-uri 'none'; frame-ancestors 'none'", r.Header.Get("Content-Security-Policy"), path)
		again := w.do("GET", path, "", "If-None-Match", r.Header.Get("ETag"))
		require.Equal(t, 304, again.Status, path)
		require.Empty(t, again.Body)
		require.Equal(t, 200, w.do("HEAD", path, "").Status)
	}
	root := w.do("GET", "/", "")
	require.Equal(t, 302, root.Status)
	require.Equal(t, "/dashboard", root.Header.Get("Location"))
	for _, path := range []string{
		"/dashboard/nothing.js", "/dashboard/index.html", "/dashboard/app.js/", "/dashboard/%2e%2e", "/dashboard/..%2fdashboard.go", "/dashboard/App.js", "/dashboard/app.js%00",
	} {
		w.do("GET", path, "").refused(404, "not found")
	}
}
