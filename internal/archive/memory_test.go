package archive_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
)

// A folder in memory, such as the one below which a container may write, keeps no partition: that
// stays in the database.
func TestFolderInMemoryIsRefused(t *testing.T) {
	const memory = "/dev/shm"
	if !archive.InMemory(memory) {
		t.Skip(memory + " is not in memory here")
	}
	b := setup(t, 12)
	b.deliver(b.begin.Add(time.Hour), 5)
	content, name := b.content("deliveries"), b.name("deliveries", 0)
	dir, err := os.MkdirTemp(memory, "ajo")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	folder := archive.Folder{Dir: filepath.Join(dir, "not", "yet"), Lasting: true}
	require.True(t, archive.InMemory(folder.Dir))
	_, err = b.with(folder).Archive(b.ctx, name)
	require.ErrorIs(t, err, archive.ErrInMemory)
	require.Equal(t, content, b.content("deliveries"))
	folder.Lasting = false
	_, err = b.with(folder).Archive(b.ctx, name)
	require.NoError(t, err, "in development and tests")
	require.False(t, archive.InMemory("/proc/self"))
}
