// Package spec says which rows of the interface specification a test shows to hold. Only tests
// import it.
//
// The rows stand in rows/*.txt, one a line: id | paragraph | what the specification says. A test
// that shows one names it with [Shows]; when it has passed, and a recording is made (make test),
// that is written down, and docs/conformance.md is made of what was written. So the table claims
// nothing that did not pass.
package spec

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// RecordingEnv names the folder in which passed rows are recorded; without it nothing is.
const RecordingEnv = "AJO_CONFORMANCE"

//go:embed rows/*.txt
var files embed.FS

// Row is a row of the specification.
type Row struct {
	ID, Paragraph, Says string
}

// Rows lists all rows, file by file, in their order. A line that is no row, or a doubled id, is an
// error.
var Rows = sync.OnceValues(func() ([]Row, error) {
	names, err := fs.Glob(files, "rows/*.txt")
	if err != nil {
		return nil, err
	}
	var rows []Row
	seen := map[string]bool{}
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			parts := strings.SplitN(line, " | ", 3)
			if len(parts) != 3 || seen[parts[0]] {
				return nil, fmt.Errorf("%s: not a row of its own: %q", name, line)
			}
			seen[parts[0]] = true
			rows = append(rows, Row{parts[0], parts[1], parts[2]})
		}
	}
	return rows, nil
})

// Shows says that the test shows the rows of these ids. An unknown one fails it at once. They count
// when the test, with its subtests, has passed.
func Shows(t testing.TB, ids ...string) {
	t.Helper()
	rows, err := Rows()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.ID] = true
	}
	for _, id := range ids {
		if !known[id] {
			t.Fatalf("the specification has no row %q", id)
		}
	}
	folder := os.Getenv(RecordingEnv)
	if folder == "" {
		return
	}
	pkg := caller()
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		var b strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", id, pkg, t.Name())
		}
		if err := write(filepath.Join(folder, fmt.Sprintf("%d.tsv", os.Getpid())), b.String()); err != nil {
			t.Error(err)
		}
	})
}

// caller is the folder, within the module, of the test that calls Shows.
func caller() string {
	_, here, _, _ := runtime.Caller(0)
	_, test, _, _ := runtime.Caller(2)
	folder, err := filepath.Rel(filepath.Join(filepath.Dir(here), "..", ".."), filepath.Dir(test))
	if err != nil {
		return filepath.Dir(test)
	}
	return filepath.ToSlash(folder)
}

var mu sync.Mutex

// write appends to the process's own file.
func write(name, text string) (err error) {
	mu.Lock()
	defer mu.Unlock()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
