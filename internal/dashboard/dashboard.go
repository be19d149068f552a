// Package dashboard holds the files of the tenants' dashboard, as browsers get them: a page, a
// style and ES modules.
//
// What always holds: there is no build step, so what is read here is what runs; a browser needs no
// other host; nothing of a tenant is in these files, which read all they show from the session's
// endpoints; and data only ever becomes text, never markup. The package web beside it tries all of
// it in a browser (make test-web).
package dashboard

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed static
var static embed.FS

// Page is the name of the page, which loads the others.
const Page = "index.html"

// Style is the name of the one style sheet. All others are scripts.
const Style = "style.css"

var media = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// File is a file with its media type.
type File struct {
	Name, Media string
	Body        []byte
}

// Files returns all the files. It panics when the build has one of a kind that is not known here.
func Files() []File {
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	var out []File
	for _, e := range entries {
		body, err := static.ReadFile("static/" + e.Name())
		kind, known := media[path.Ext(e.Name())]
		if err != nil || !known {
			panic("dashboard: " + e.Name() + " cannot be served")
		}
		out = append(out, File{Name: e.Name(), Media: kind, Body: body})
	}
	return out
}
