// Command conformance writes docs/conformance.md from the marks in the tests (`make generate`):
// each row of the specification, with the tests that show it. conformance ROOT.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ajo/internal/spec"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conformance ROOT")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func generate(root string) error {
	rows, err := spec.Rows()
	if err != nil {
		return err
	}
	shown, err := marks(root)
	if err != nil {
		return err
	}
	text, err := table(rows, shown)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "conformance.md"), []byte(text), 0o644)
}

// table is the page. A mark of an unknown row is an error, and so is a row that no test shows,
// unless its own text says why.
func table(rows []spec.Row, shown []mark) (string, error) {
	tests := map[string][]string{}
	for _, m := range shown {
		tests[m.row] = append(tests[m.row], fmt.Sprintf("`%s` in %s", m.test, m.folder))
	}
	var wrong []error
	without := 0
	var b strings.Builder
	paragraph := ""
	for _, r := range rows {
		by := slices.Compact(slices.Sorted(slices.Values(tests[r.ID])))
		delete(tests, r.ID)
		if len(by) == 0 {
			without++
			if !strings.Contains(r.Says, "(no test:") {
				wrong = append(wrong, fmt.Errorf("no test shows row %s", r.ID))
			}
			by = []string{"**no test**"}
		}
		if r.Paragraph != paragraph {
			paragraph = r.Paragraph
			fmt.Fprintf(&b, "\n## %s\n\n| row | says | shown by |\n|---|---|---|\n", paragraph)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, strings.ReplaceAll(r.Says, "|", `\|`), strings.Join(by, "<br>"))
	}
	for row, by := range tests {
		wrong = append(wrong, fmt.Errorf("the specification has no row %q, which %s shows", row, by[0]))
	}
	head := fmt.Sprintf("# Conformance\n\nEach row of the interface specification, with the tests that show it. `make generate` writes it from the marks in the tests\n"+
		"(`spec.Shows`), all of which `make test` runs. %d rows, %d of them without a test.\n", len(rows), without)
	return head + b.String(), errors.Join(wrong...)
}
