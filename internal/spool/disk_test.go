package spool

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A segment that the disk does not give, as one of another user, holds up no other one, and is
// counted: what it has still waits.
func TestSegmentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "spool-") // short, for the socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket, err := net.Listen("unix", filepath.Join(dir, "0"+ending)) // nobody can open it, root neither
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"+ending), 0o700)) // nor read this
	// since an empty folder has no size on some disks
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1"+ending, "kept"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "2"+ending), segment("two"), 0o600))
	s := open(t, dir, 1<<20)
	require.Equal(t, int64(2), s.State().Records)
	var got []string
	n, err := s.Drain(ctx, takeInto(&got))
	require.ErrorIs(t, err, ErrDisk)
	require.ErrorContains(t, err, "0"+ending)
	require.ErrorContains(t, err, "1"+ending)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"two"}, got)
	require.Equal(t, int64(1), s.State().Records, "what could not be read still waits")
	require.Positive(t, count{}.more(filepath.Join(dir, "1"+ending)).size)
}

// A segment that cannot be removed, as on a disk that only gives what it has, holds up no other one
// either.
func TestSegmentThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := filepath.Join(dir, "0"+ending)
	require.NoError(t, os.WriteFile(first, segment("one"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1"+ending), segment("two"), 0o600))
	var got []string
	n, err := open(t, dir, 1<<20).Drain(ctx, func(ctx context.Context, records [][]byte) error {
		if len(got) == 0 { // a folder with another one in it takes its place
			assert.NoError(t, os.Remove(first))
			assert.NoError(t, os.MkdirAll(filepath.Join(first, "kept"), 0o700))
		}
		return takeInto(&got)(ctx, records)
	})
	require.ErrorIs(t, err, ErrDisk)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"one", "two"}, got)
}
