package spool

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

var ctx = context.Background()

func open(t testing.TB, dir string, max int64) *Spool {
	t.Helper()
	s, err := Open(dir, max)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// takeInto takes what a drain hands over.
func takeInto(got *[]string) func(context.Context, [][]byte) error {
	return func(_ context.Context, records [][]byte) error {
		for _, r := range records {
			*got = append(*got, string(r))
		}
		return nil
	}
}

func drain(t testing.TB, s *Spool) []string {
	t.Helper()
	var got []string
	n, err := s.Drain(ctx, takeInto(&got))
	require.NoError(t, err)
	require.Len(t, got, n)
	return got
}

func TestRecordsComeBackInOrder(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "new", "spool"), 1<<20)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("record %d", i))
		require.NoError(t, s.Append(ctx, []byte(want[i])))
	}
	require.Positive(t, s.Waiting())
	require.Equal(t, want, drain(t, s))
	require.Empty(t, drain(t, s))
	require.Zero(t, s.Waiting())
	require.NoError(t, s.Append(ctx, []byte("later")))
	require.Equal(t, []string{"later"}, drain(t, s))
}

// Many at once share an fsync; each is there.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	testenv.AtOnce(500, func(i int) {
		if err := s.Append(ctx, []byte(fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	})
	seen := map[string]bool{}
	for _, r := range drain(t, s) {
		seen[r] = true
	}
	require.Len(t, seen, 500)
}

// What take refuses stays, and is handed over again from the segment's start.
// Two drain a folder while a third writes there and begins a new segment for each record: none is
// refused, none is lost, and nobody stumbles over a segment that another has removed.
func TestNewSegmentsBesideDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer, done := open(t, dir, 1<<20), make(chan struct{})
	var got [2][]string
	var drains sync.WaitGroup
	for i := range got {
		drainer := open(t, dir, 1<<20)
		drains.Go(func() {
			for more := true; more; {
				select {
				case <-done:
					more = false // and once more
				default:
				}
				_, err := drainer.Drain(ctx, takeInto(&got[i]))
				assert.NoError(t, err)
			}
		})
	}
	want := map[string]bool{}
	for i := range 1000 {
		record := strconv.Itoa(i)
		want[record] = true
		assert.NoError(t, writer.Append(ctx, []byte(record)))
		writer.mu.Lock()
		assert.NoError(t, writer.release())
		writer.mu.Unlock()
	}
	close(done)
	drains.Wait()
	for _, record := range slices.Concat(got[0], got[1]) {
		delete(want, record)
	}
	require.Empty(t, want, "records that are on no disk")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRefusedRecordsStay(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	var want []string
	for i := range batchMax + 3 {
		want = append(want, strconv.Itoa(i))
		require.NoError(t, s.Append(ctx, []byte(want[i])))
	}
	away := errors.New("away")
	n, err := s.Drain(ctx, func(_ context.Context, records [][]byte) error {
		if len(records) < batchMax {
			return away
		}
		return nil
	})
	require.ErrorIs(t, err, away)
	require.Equal(t, batchMax, n)
	require.NoError(t, s.Append(ctx, []byte("last")))
	require.Equal(t, append(want, "last"), drain(t, s))
}

func TestBound(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1000)
	record := bytes.Repeat([]byte("x"), 192) // 200 with its header
	for range 5 {
		require.NoError(t, s.Append(ctx, record))
	}
	require.ErrorIs(t, s.Append(ctx, record), ErrFull)
	require.ErrorIs(t, s.Check(ctx), ErrFull)
	require.Len(t, drain(t, s), 5)
	require.NoError(t, s.Check(ctx))
	require.NoError(t, s.Append(ctx, record))
	require.ErrorIs(t, s.Append(ctx, make([]byte, maxRecord+1)), errTooLarge)
	require.ErrorIs(t, s.Append(ctx, nil), errTooLarge)
}

// A segment that was written under a larger bound, as before a restart or by a process with another
// setting, is drained to its end.
func TestASmallerBoundLosesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 4*maxRecord)
	record := bytes.Repeat([]byte("x"), maxRecord/2)
	for range 4 {
		require.NoError(t, s.Append(ctx, record))
	}
	require.NoError(t, s.Close())
	s = open(t, s.dir, 1)
	require.ErrorIs(t, s.Check(ctx), ErrFull)
	require.Len(t, drain(t, s), 4)
	require.NoError(t, s.Check(ctx))
}

// Who asks about the folder waits for no append: one that hangs at the disk has the writers' lock.
func TestNobodyWhoAsksWaitsForAnAppend(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1000)
	require.NoError(t, s.Append(ctx, bytes.Repeat([]byte("x"), 492)))
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make(chan string)
	go func() {
		answers <- fmt.Sprint("check ", s.Check(ctx))
		answers <- fmt.Sprint("waiting ", s.Waiting())
		answers <- fmt.Sprint("state ", s.State().Records)
	}()
	for _, want := range []string{"check <nil>", "waiting 500", "state 1"} {
		select {
		case got := <-answers:
			require.Equal(t, want, got)
		case <-time.After(30 * time.Second):
			t.Fatalf("waited 30s for %q while an append has the lock", want)
		}
	}
}

// A disk that hangs keeps nobody waiting who asks whether it can be written, and is asked once,
// however many ask.
func TestCheckOfADiskThatHangs(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	require.NoError(t, s.Check(ctx))
	var asked atomic.Int64
	back := make(chan struct{})
	s.check = func() error {
		asked.Add(1)
		<-back
		return nil
	}
	for range 5 {
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		require.ErrorIs(t, s.Check(soon), context.DeadlineExceeded)
		cancel()
	}
	require.LessOrEqual(t, asked.Load(), int64(1))
	close(back)
	require.NoError(t, s.Check(ctx))
	s.check = func() error { return ErrFull }
	require.ErrorIs(t, s.Check(ctx), ErrFull, "it is asked again")
}

// A process that died in the middle of a write leaves a torn tail: at whatever byte it was torn,
// the records before it hold.
func TestTornTailAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	for _, r := range []string{"first", "second", "the third record"} {
		require.NoError(t, s.Append(ctx, []byte(r)))
	}
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(s.segments()[0])
	require.NoError(t, err)
	for cut := range len(whole) + 1 {
		torn := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(torn, "0"+ending), whole[:cut], 0o600))
		got := drain(t, open(t, torn, 1<<20))
		want := 0
		for _, end := range []int{13, 27, len(whole)} {
			if cut >= end {
				want++
			}
		}
		require.Len(t, got, want, "cut at %d", cut)
	}
}

// segment is the bytes of a segment with these records.
func segment(records ...string) (data []byte) {
	for _, r := range records {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(r)))
		data = binary.LittleEndian.AppendUint32(data, crc32.Checksum([]byte(r), castagnoli))
		data = append(data, r...)
	}
	return data
}

// Whichever bit of a segment the disk flips, be it in its last record, it is not taken for a torn
// tail: the segment is set aside and named, what is sound before and behind the damage is handed
// over, and so are the other segments.
func TestEveryFlippedBitIsSetAside(t *testing.T) {
	t.Parallel()
	records := []string{"one", "two", "three"}
	whole := segment(records...)
	var ends []int
	for i := range records {
		ends = append(ends, len(segment(records[:i+1]...)))
	}
	for bit := range 8 * len(whole) {
		dir := t.TempDir()
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "0"+ending), bad, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "1"+ending), segment("sound"), 0o600))
		s := &Spool{dir: dir, max: 1 << 20}
		var want []string
		for i, r := range records {
			if at := bit / 8; at >= ends[i] || at < ends[i]-headerSize-len(r) {
				want = append(want, r)
			}
		}
		var got []string
		_, err := s.Drain(ctx, takeInto(&got))
		require.ErrorIs(t, err, ErrSetAside, "bit %d", bit)
		require.ErrorContains(t, err, "0"+ending, "bit %d", bit)
		require.Equal(t, append(want, "sound"), got, "bit %d", bit)
		kept, err := os.ReadFile(filepath.Join(dir, "0"+damaged))
		require.NoError(t, err)
		require.Equal(t, bad, kept, "bit %d", bit)
		require.Empty(t, drain(t, s))
		require.Equal(t, 1, s.State().Damaged)
	}
}

// A tail of zeros, which a file system may leave after a loss of power, is no torn record by its
// header, so it is kept too.
func TestTailOfZerosIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0"+ending), append(segment("one"), make([]byte, 64)...), 0o600))
	s := open(t, dir, 1<<20)
	var got []string
	_, err := s.Drain(ctx, takeInto(&got))
	require.ErrorIs(t, err, ErrSetAside)
	require.Equal(t, []string{"one"}, got)
}

// Records that nothing will ever take do not hold up those behind them; their segment is set aside,
// and drained again when it has its name back.
func TestRecordsThatAreNeverTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0"+ending), segment("poison", "one"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1"+ending), segment("two"), 0o600))
	s := open(t, dir, 1<<20)
	var got []string
	n, err := s.Drain(ctx, func(_ context.Context, records [][]byte) error {
		for _, r := range records {
			got = append(got, string(r))
		}
		if slices.Contains(got, "two") {
			return nil
		}
		return fmt.Errorf("%w: poison", ErrSetAside)
	})
	require.ErrorIs(t, err, ErrSetAside)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"poison", "one", "two"}, got)
	require.Equal(t, State{Max: 1 << 20, Damaged: 1}, s.State())
	require.NoError(t, os.Rename(filepath.Join(dir, "0"+damaged), filepath.Join(dir, "0"+ending)))
	require.Equal(t, []string{"poison", "one"}, drain(t, s))
	require.Equal(t, State{Max: 1 << 20}, s.State())
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(filepath.Join(file, "spool"), 1<<20)
	require.Error(t, err)
}

// A process that is killed while it appends: every record that it reported as kept is there, and
// another process drains them.
func TestKilledWhileAppending(t *testing.T) {
	if dir := os.Getenv("AJO_TEST_SPOOL"); dir != "" {
		s := open(t, dir, 1<<30)
		for i := 0; ; i++ {
			if err := s.Append(ctx, []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			fmt.Println("kept", i)
		}
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileAppending$")
	child.Env = append(os.Environ(), "AJO_TEST_SPOOL="+dir)
	var out testenv.Log
	child.Stdout = &out
	// before the parallel tests go on: until it runs its program, it holds their segments' locks
	require.NoError(t, child.Start())
	t.Parallel()
	mine := open(t, dir, 1<<30)
	testenv.Eventually(t, 30*time.Second, "200 records that the other process has kept", func() bool { return strings.Count(out.String(), "kept") > 200 },
		func() any { return strings.Count(out.String(), "kept") })
	require.Empty(t, drain(t, mine), "what another process writes is left alone")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	kept := strings.Count(out.String(), "kept ")
	got := drain(t, mine)
	require.GreaterOrEqual(t, len(got), kept)
	for i, r := range got {
		require.Equal(t, fmt.Sprint(i), r)
	}
}

func FuzzSegment(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		for len(data) > 0 {
			record, rest, err := next(data)
			if err != nil {
				return
			}
			if len(record) == 0 || len(rest) >= len(data) {
				t.Fatal("no progress")
			}
			data = rest
		}
	})
}
