package spool

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What waits is counted over the segments of all processes, each record once however often one
// looks, and not before it is there whole; nothing is left after a drain.
func TestState(t *testing.T) {
	t.Parallel()
	dir, begin := t.TempDir(), time.Now().Truncate(time.Millisecond) // what a segment's name has
	s, other := open(t, dir, 1<<20), open(t, dir, 1<<20)
	require.Equal(t, State{Max: 1 << 20}, s.State())

	for _, r := range []string{"first", "second"} {
		require.NoError(t, s.Append(ctx, []byte(r)))
	}
	now := s.State()
	require.Equal(t, []int64{2, 2*headerSize + 11, 1 << 20}, []int64{now.Records, now.Bytes, now.Max})
	require.False(t, now.Oldest.Before(begin) || now.Oldest.After(time.Now()), now.Oldest)
	require.NoError(t, s.Append(ctx, []byte("third")))
	require.NoError(t, other.Append(ctx, []byte("another's")))
	for range 2 {
		again := s.State()
		require.Equal(t, []int64{4, 4*headerSize + 25}, []int64{again.Records, again.Bytes})
		require.Equal(t, now.Oldest, again.Oldest, "the oldest is of the first segment")
	}

	require.NoError(t, other.Close())
	require.Len(t, drain(t, s), 4)
	require.Equal(t, State{Max: 1 << 20}, s.State())
	require.NoError(t, s.Append(ctx, []byte("later")))
	require.Equal(t, int64(1), s.State().Records, "nothing is remembered of the segments that are gone")
}

// A record that is only half there has a size, and is no record until the rest has come. What
// cannot be a record's size ends the count, and a segment that was set aside is counted as such.
func TestStateOfBrokenSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	path := filepath.Join(dir, "0"+ending) // its name tells no time
	record := append(binary.LittleEndian.AppendUint32(nil, 100), make([]byte, 4+100)...)
	whole := append(append([]byte{}, record...), record...)
	for cut, records := range map[int]int64{3: 0, 50: 0, 108: 1, 111: 1, 215: 1, 216: 2} {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		fresh := open(t, dir, 1<<20).State()
		require.Equal(t, State{Bytes: int64(cut), Max: 1 << 20, Records: records}, fresh, "cut at %d", cut)
	}
	require.NoError(t, os.WriteFile(path, whole[:150], 0o600))
	require.Equal(t, int64(1), s.State().Records)
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.Equal(t, int64(2), s.State().Records, "the rest has come")
	for _, size := range []uint32{0, maxRecord + 1, 1 << 31} {
		require.NoError(t, os.WriteFile(path, append(whole[:108:108], append(binary.LittleEndian.AppendUint32(nil, size), make([]byte, 200)...)...), 0o600))
		require.Equal(t, int64(1), open(t, dir, 1<<20).State().Records, "size %d", size)
	}
	require.NoError(t, os.Rename(path, filepath.Join(dir, "0"+damaged)))
	require.Equal(t, State{Max: 1 << 20, Damaged: 1}, s.State())
}
