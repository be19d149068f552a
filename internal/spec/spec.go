// Package spec says which rows of the interface specification a test shows to hold. Only tests
// import it.
//
// The rows stand in rows/*.txt, one a line: id | paragraph | what the specification says. A test
// that shows one names it with [Shows], and docs/conformance.md is generated from these marks.
package spec

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
)

//go:generate go run ./conformance ../..

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

// Shows marks the test as one that shows the rows of these ids. It does nothing when it runs: the
// generator reads the mark from the source, and refuses one that is no statement of the test's own
// body, or names no row.
func Shows(testing.TB, ...string) {}
