package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
)

var someRows = []spec.Row{{ID: "a.one", Paragraph: "A", Says: "one"}, {ID: "a.two", Paragraph: "A", Says: "two | three"}, {ID: "b", Paragraph: "B", Says: "other (no test: it is nobody's)"}}

// made writes a module with one test file and makes its table.
func made(t *testing.T, name, text string) (string, error) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "api"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "api", name), []byte(text), 0o644))
	found, err := marks(root)
	if err != nil {
		return "", err
	}
	return table(someRows, found)
}

const head = "package api\n\nimport (\n\t\"testing\"\n\n\t\"ajo/internal/spec\"\n)\n\n"

func TestTableIsMadeOfMarks(t *testing.T) {
	text, err := made(t, "a_test.go", head+`
func TestBoth(t *testing.T) {
	spec.Shows(t, "a.one",
		"a.two")
	if testing.Short() {
		t.Skip("sometimes")
	}
}

func TestOne(t *testing.T) { spec.Shows(t, "a.one"); spec.Shows(t, "a.one") }
`)
	require.NoError(t, err)
	require.Contains(t, text, "3 rows, 1 of them without a test.\n\n## A\n\n| row | says | shown by |\n|---|---|---|\n"+
		"| a.one | one | `TestBoth` in api<br>`TestOne` in api |\n| a.two | two \\| three | `TestBoth` in api |\n\n## B\n")
	require.Contains(t, text, "| b | other (no test: it is nobody's) | **no test** |\n")
}

func TestWrongMarksAreRefused(t *testing.T) {
	const both = "func TestBoth(t *testing.T) { spec.Shows(t, \"a.one\", \"a.two\") }\n"
	for name, c := range map[string]struct{ file, text, says string }{
		"unknown row":      {text: both + "func TestX(t *testing.T) { spec.Shows(t, \"c\") }", says: "no row \"c\", which `TestX` in api"},
		"row without test": {text: "func TestX(t *testing.T) { spec.Shows(t, \"a.one\") }", says: "no test shows row a.two"},
		"no row":           {text: both + "func TestX(t *testing.T) { spec.Shows(t) }", says: "without a row"},
		"computed":         {text: both + "func TestX(t *testing.T) { spec.Shows(t, one) }", says: "written out"},
		"skipped":          {text: both + "func TestX(t *testing.T) { spec.Shows(t, \"a.one\"); t.Skip() }", says: "TestX always skips"},
		"in a condition":   {text: both + "func TestX(t *testing.T) { if ok { spec.Shows(t, \"a.one\") } }", says: "no statement"},
		"in a subtest":     {text: both + "func TestX(t *testing.T) { t.Run(\"a\", func(t *testing.T) { spec.Shows(t, \"a.one\") }) }", says: "no statement"},
		"not a test":       {text: both + "func help(t *testing.T) { spec.Shows(t, \"a.one\") }", says: "no statement"},
		"never built":      {file: "a_windows_test.go", text: both, says: "is not built"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file == "" {
				c.file = "a_test.go"
			}
			_, err := made(t, c.file, head+c.text)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// The page is the one that the marks make.
func TestThePageIsCurrent(t *testing.T) {
	rows, err := spec.Rows()
	require.NoError(t, err)
	found, err := marks("../../..")
	require.NoError(t, err)
	want, err := table(rows, found)
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/conformance.md")
	require.NoError(t, err)
	require.Equal(t, want, string(page), "make generate writes it")
}
