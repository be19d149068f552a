package archive_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
)

// On one machine, the commands run as root and the workers do not: they must read what a command
// has archived, and write beside it.
func TestRootWritesForTheFoldersOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root writes for others")
	}
	const worker = 65532
	owner := func(path string) uint32 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	there := t.TempDir()
	require.NoError(t, os.Chown(there, worker, worker))
	for _, dir := range []string{there, filepath.Join(there, "not", "yet")} {
		require.NoError(t, archive.Folder{Dir: dir}.Put(context.Background(), "deliveries/x.json", strings.NewReader("{}")))
		for path := filepath.Join(dir, "deliveries", "x.json"); path != there; path = filepath.Dir(path) {
			require.Equal(t, uint32(worker), owner(path), path)
		}
	}
	own := filepath.Join(t.TempDir(), "own")
	require.NoError(t, archive.Folder{Dir: own}.Put(context.Background(), "deliveries/x.json", strings.NewReader("{}")))
	require.Zero(t, owner(filepath.Join(own, "deliveries", "x.json")), "a folder of root's is root's")
}
