package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"sync"

	"ajo/internal/dashboard"
)

//go:embed static
var static embed.FS

// pageName is the page, which loads the other files.
const pageName = "index.html"

// shared are the files that the console has from the tenants' dashboard: its style and the parts
// that pages are made of.
var shared = []string{"style.css", "theme.js", "frame.js", "api.js", "dom.js", "form.js", "dialog.js", "ui.js", "table.js", "route.js", "format.js"}

// policy lets the pages have their own files and speak with this process: nothing inline, no other
// host, no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Files are the files that browsers get, by their names.
var Files = sync.OnceValue(func() map[string]dashboard.File {
	out := map[string]dashboard.File{}
	theirs := map[string]dashboard.File{}
	for _, f := range dashboard.Files() {
		theirs[f.Name] = f
	}
	for _, name := range shared {
		f, ok := theirs[name]
		if !ok {
			panic("console: the dashboard has no " + name)
		}
		out[name] = f
	}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic("console: " + err.Error())
	}
	for _, e := range entries {
		body, err := static.ReadFile("static/" + e.Name())
		media := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[path.Ext(e.Name())]
		if _, twice := out[e.Name()]; err != nil || media == "" || twice {
			panic("console: " + e.Name() + " cannot be served")
		}
		out[e.Name()] = dashboard.File{Name: e.Name(), Media: media, Body: body}
	}
	return out
})

func fileHandlers() map[string]http.HandlerFunc {
	out := map[string]http.HandlerFunc{}
	for name, f := range Files() {
		if name != pageName {
			out[name] = send(f)
		}
	}
	return out
}

func page(w http.ResponseWriter, r *http.Request) { send(Files()[pageName])(w, r) }

// send answers with a file, or with 304 to a caller who has this version.
func send(f dashboard.File) http.HandlerFunc {
	sum := sha256.Sum256(f.Body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Type", f.Media)
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-cache") // kept, and asked for again
		head.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(f.Body)
	}
}
