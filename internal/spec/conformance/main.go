// Command conformance makes docs/conformance.md of what passed tests have recorded: conformance
// FOLDER OUT.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ajo/internal/spec"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance FOLDER OUT")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// generate writes the table of all rows with the tests that passed for each.
func generate(folder, out string) error {
	rows, err := spec.Rows()
	if err != nil {
		return err
	}
	shown, err := recorded(folder)
	if err != nil {
		return err
	}
	without := 0
	for _, r := range rows {
		if len(shown[r.ID]) == 0 {
			without++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance\n\nEach row of the interface specification, with the tests that show it. Written by `make test` from what passed, so it claims\n"+
		"nothing that did not; how rows are named: `internal/spec`. %d rows, %d of them without a test.\n", len(rows), without)
	paragraph := ""
	for _, r := range rows {
		if r.Paragraph != paragraph {
			paragraph = r.Paragraph
			fmt.Fprintf(&b, "\n## %s\n\n| row | says | shown by |\n|---|---|---|\n", paragraph)
		}
		tests := "**no test**"
		if len(shown[r.ID]) > 0 {
			tests = strings.Join(slices.Sorted(maps.Keys(shown[r.ID])), "<br>")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, strings.ReplaceAll(r.Says, "|", `\|`), tests)
	}
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// recorded reads the recordings: the tests of each row.
func recorded(folder string) (map[string]map[string]bool, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.tsv"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no recording: run make test", folder)
	}
	shown := map[string]map[string]bool{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(parts) != 3 {
				return nil, fmt.Errorf("%s: %q is no recording", name, line)
			}
			if shown[parts[0]] == nil {
				shown[parts[0]] = map[string]bool{}
			}
			shown[parts[0]]["`"+parts[2]+"` in "+parts[1]] = true
		}
	}
	return shown, nil
}
