// Package spool keeps records on disk while Postgres is unavailable, and hands them over, in order,
// when it is back.
//
// Invariants: a record whose Append returned nil is on disk (fsync) and stays there until it has
// been handed over. A record is handed over at least once, so the receiver must recognise repeats.
// The spool never exceeds its bound. A tail that was torn by a crash is not a record and damages
// nothing before it; only a record that is shorter than its header says can be such a tail.
// Anything else that is inconsistent is damage: the sound records before and after it are handed
// over, and the segment is set aside, never removed. A segment is a file that one process writes
// under a lock; any process with the same folder drains the segments that nobody writes.
package spool

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"ajo/internal/batch"
	"ajo/internal/clock"
	"ajo/internal/failpoint"
)

// Errors of Append.
var (
	ErrFull     = errors.New("spool: full")
	errTooLarge = errors.New("spool: record too large")
)

// ErrSetAside is the error of a take function that has taken all records except some that can never
// be taken: Drain continues, and sets the segment aside instead of removing it. Drain returns an
// error of this kind when it has set a segment aside, for any reason.
var ErrSetAside = errors.New("spool: a segment was set aside")

// ErrDisk says that the disk does not give a segment, such as one of another user, or does not let
// it be removed. Drain continues with the others.
var ErrDisk = errors.New("spool: a segment cannot be read or removed")

const (
	headerSize = 8       // length and CRC-32C, both little-endian uint32
	maxRecord  = 1 << 20 // bytes
	ending     = ".spool"
	unnamed    = ".new"     // a segment that is not locked yet
	damaged    = ".damaged" // a segment with records that could not be taken; it needs an operator
	batchMax   = 256        // records written, or handed over, at once
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spool is one process's view of a folder. It is safe for concurrent use.
type Spool struct {
	dir     string
	max     int64
	appends *batch.Coalescer[[]byte, struct{}]

	mu     sync.Mutex // guards the two fields below and all writes
	active *os.File   // the segment that this process writes, locked; nil until the first record
	size   int64      // of all segments, as far as this process knows

	state   sync.Mutex       // guards counted; writers do not wait for it
	counted map[string]count // what State has counted in the segments

	checking sync.Mutex   // guards asked
	asked    *answer      // to the check that is under way; nil: none is
	check    func() error // a test's own, as of a disk that hangs
}

// Open creates the folder if it is missing and returns its spool, which takes no more once it has
// max bytes.
func Open(dir string, max int64) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{dir: dir, max: max}
	s.check = s.tryWrite
	// a full one, as after its bound was lowered, can still be drained
	if err := s.tryWrite(); err != nil && !errors.Is(err, ErrFull) {
		return nil, err
	}
	s.appends = batch.New(1, batchMax, s.write)
	return s, nil
}

// Close finishes the appends in progress. The records stay for the next process.
func (s *Spool) Close() error {
	s.appends.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.release()
}

// Append writes a record to disk, in one fsync with concurrent ones. [ErrFull] when there is no
// room for it.
func (s *Spool) Append(ctx context.Context, record []byte) error {
	if len(record) > maxRecord || len(record) == 0 {
		return errTooLarge
	}
	_, err := s.appends.Do(ctx, record)
	return err
}

// write appends a batch. After a failed write or fsync the segment is not written again, because
// the content of its pages is unknown.
func (s *Spool) write(_ context.Context, records [][]byte) []batch.Outcome[struct{}] {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]batch.Outcome[struct{}], len(records))
	fail := func(err error) []batch.Outcome[struct{}] {
		for i := range out {
			if out[i].Err == nil {
				out[i].Err = err
			}
		}
		return out
	}
	if err := s.ensureSegment(); err != nil {
		return fail(err)
	}
	var buf []byte
	for i, r := range records {
		if s.size+int64(len(buf)+headerSize+len(r)) > s.max {
			out[i].Err = ErrFull
			continue
		}
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r)))
		buf = binary.LittleEndian.AppendUint32(buf, crc32.Checksum(r, castagnoli))
		buf = append(buf, r...)
	}
	if len(buf) == 0 {
		return out
	}
	failpoint.At("spool/before-append")
	_, err := s.active.Write(buf)
	if err == nil {
		err = s.active.Sync()
	}
	failpoint.At("spool/after-append")
	if err != nil {
		return fail(errors.Join(fmt.Errorf("spool: %w", err), s.release()))
	}
	s.size += int64(len(buf))
	return out
}

// ensureSegment makes sure that there is a segment to write, whose name survives a crash. It is
// locked before it has the name of a segment: another process must not drain and remove it empty
// while records are on their way into it.
func (s *Spool) ensureSegment() error {
	if s.active != nil {
		return nil
	}
	// A UUIDv7 sorts by time, so segments are drained in the order of their creation.
	path := filepath.Join(s.dir, uuid.Must(uuid.NewV7()).String())
	f, err := os.OpenFile(path+unnamed, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err = lock(f); err == nil {
		err = os.Rename(path+unnamed, path+ending)
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.active, s.size = f, s.sizeOnDisk()
	return nil
}

// release closes the active segment, so that it can be drained.
func (s *Spool) release() error {
	if s.active == nil {
		return nil
	}
	f := s.active
	s.active = nil
	return f.Close() // which releases the lock
}

// Waiting counts the bytes that are not drained yet. It waits for no append.
func (s *Spool) Waiting() int64 { return s.sizeOnDisk() }

// sizeOnDisk reads the folder. Nobody who only asks holds mu for it: an append has that lock while
// it waits for the disk, and a folder may have many segments.
func (s *Spool) sizeOnDisk() (total int64) {
	for _, path := range s.segments() {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	return total
}

func (s *Spool) segments() []string {
	found, err := filepath.Glob(filepath.Join(s.dir, "*"+ending))
	if err != nil {
		return nil // the pattern is constant
	}
	slices.Sort(found)
	return found
}

// Drain hands every record to take, several at a time, segment by segment and in order, and removes
// a segment when take has taken all of it. It stops at the first error of take other than
// [ErrSetAside]; what was handed over before is handed over again next time. It skips segments that
// another process writes or drains. A segment with damaged records, or with records that take can
// never take, is renamed to be set aside once the others were taken, and the error is an
// [ErrSetAside]. One that cannot be read, or not be removed, stays: [ErrDisk].
func (s *Spool) Drain(ctx context.Context, take func(ctx context.Context, records [][]byte) error) (taken int, err error) {
	s.mu.Lock()
	err = s.release()
	s.mu.Unlock()
	var problems []error
	if err != nil {
		problems = append(problems, err)
	}
	for _, path := range s.segments() {
		n, err := s.drainSegment(ctx, path, take)
		taken += n
		if errors.Is(err, ErrSetAside) || errors.Is(err, ErrDisk) {
			problems = append(problems, err)
			continue
		}
		if err != nil {
			return taken, errors.Join(append(problems, err)...)
		}
	}
	s.mu.Lock()
	s.size = s.sizeOnDisk()
	s.mu.Unlock()
	return taken, errors.Join(problems...)
}

var errDamaged = errors.New("spool: a record is damaged")

func (s *Spool) drainSegment(ctx context.Context, path string, take func(context.Context, [][]byte) error) (int, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // another process has drained it
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	defer func() { _ = f.Close() }()
	if lock(f) != nil {
		return 0, nil // another process has it
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, nil // another process drained it before we had the lock
	}
	data, err := io.ReadAll(f) // whatever bound it was written under
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	taken := 0
	var aside error
	for len(data) > 0 {
		records, rest, bad := some(data)
		if len(records) > 0 {
			switch err := take(ctx, records); {
			case errors.Is(err, ErrSetAside):
				aside = errors.Join(aside, err)
			case err != nil:
				return taken, err
			}
		}
		taken, data = taken+len(records), rest
		if errors.Is(bad, errTorn) {
			break // it was torn by a crash before Append returned
		}
		if bad != nil {
			aside, data = errors.Join(aside, bad), behind(data)
		}
	}
	if aside != nil {
		err := os.Rename(path, strings.TrimSuffix(path, ending)+damaged)
		return taken, errors.Join(fmt.Errorf("%w: %s: %w", ErrSetAside, filepath.Base(path), aside), err)
	}
	failpoint.At("spool/before-remove")
	err = errors.Join(os.Remove(path), syncDir(s.dir))
	failpoint.At("spool/after-remove")
	if err != nil {
		return taken, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return taken, nil
}

// some cuts off the first records, as many as are handed over at once. An error says why there are
// no more after them.
func some(data []byte) (records [][]byte, rest []byte, err error) {
	for rest = data; len(rest) > 0 && len(records) < batchMax; {
		record, behind, err := next(rest)
		if err != nil {
			return records, rest, err
		}
		records, rest = append(records, record), behind
	}
	return records, rest, nil
}

var errTorn = errors.New("spool: torn tail")

// next cuts off the first record. An inconsistent record is a torn tail only if it is shorter than
// its header says and no sound record follows. Otherwise it was written completely, and
// acknowledged, before the disk changed it.
func next(data []byte) (record, rest []byte, err error) {
	size, sum, whole := header(data)
	switch {
	case whole && crc32.Checksum(data[headerSize:headerSize+size], castagnoli) == sum:
		return data[headerSize : headerSize+size], data[headerSize+size:], nil
	case len(data) < headerSize:
		return nil, nil, errTorn
	case whole || size == 0 || size > maxRecord:
		return nil, nil, errDamaged
	case crc32.Checksum(data[headerSize:], castagnoli) == sum: // the record is complete, and its size was changed
		return nil, nil, errDamaged
	case behind(data) != nil:
		return nil, nil, errDamaged
	}
	return nil, nil, errTorn
}

// header reads a record's header, and reports whether the whole record is there.
func header(data []byte) (size int, sum uint32, whole bool) {
	if len(data) < headerSize {
		return 0, 0, false
	}
	size = int(binary.LittleEndian.Uint32(data))
	return size, binary.LittleEndian.Uint32(data[4:]), size > 0 && size <= maxRecord && len(data) >= headerSize+size
}

// behind searches for the first sound record after a bad one, byte by byte; nil: there is none.
func behind(data []byte) []byte {
	for data = data[1:]; len(data) > headerSize; data = data[1:] {
		if size, sum, whole := header(data); whole && crc32.Checksum(data[headerSize:headerSize+size], castagnoli) == sum {
			return data
		}
	}
	return nil
}

// Run drains at every interval while there is something to drain, until ctx ends. Errors are passed
// to failed.
func (s *Spool) Run(ctx context.Context, interval time.Duration, take func(context.Context, [][]byte) error, failed func(taken int, err error)) {
	clock.Every(ctx, interval, func() {
		if s.Waiting() == 0 {
			return
		}
		if taken, err := s.Drain(ctx, take); ctx.Err() == nil && (err != nil || taken > 0) {
			failed(taken, err)
		}
	})
}

func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("spool: lock: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
