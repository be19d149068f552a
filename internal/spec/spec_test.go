package spec

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsAreRows(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	require.Greater(t, len(rows), 100)
	for _, r := range rows {
		require.Regexp(t, `^[a-z0-9.-]+$`, r.ID)
		require.NotEmpty(t, r.Says)
	}
}

// A recording has what passed, and nothing of a test that was skipped.
func TestOnlyWhatPassedIsRecorded(t *testing.T) {
	rows, err := Rows()
	require.NoError(t, err)
	folder := t.TempDir()
	t.Setenv(RecordingEnv, folder)
	t.Run("passes", func(t *testing.T) { Shows(t, rows[0].ID) })
	t.Run("is skipped", func(t *testing.T) { Shows(t, rows[1].ID); t.Skip("to see that it leaves no trace") })
	names, err := filepath.Glob(filepath.Join(folder, "*.tsv"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	b, err := os.ReadFile(names[0])
	require.NoError(t, err)
	require.Equal(t, rows[0].ID+"\tinternal/spec\tTestOnlyWhatPassedIsRecorded/passes\n", string(b))
}

// Every row is named by a test: one that no test can show says so in its own text.
func TestEveryRowIsNamed(t *testing.T) {
	named := map[string]bool{}
	call := regexp.MustCompile(`spec\.Shows\(([^)]*)\)`)
	text := regexp.MustCompile(`"([a-z0-9.-]+)"`)
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, c := range call.FindAllStringSubmatch(string(b), -1) {
			for _, id := range text.FindAllStringSubmatch(c[1], -1) {
				named[id[1]] = true
			}
		}
		return err
	}))
	rows, err := Rows()
	require.NoError(t, err)
	for _, r := range rows {
		if !named[r.ID] && !strings.Contains(r.Says, "(no test:") {
			t.Errorf("no test names row %s", r.ID)
		}
	}
}
