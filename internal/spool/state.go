package spool

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// State is the content of a spool's folder: the records of all processes.
type State struct {
	Bytes, Max int64
	Records    int64
	Oldest     *time.Time // creation of the oldest segment; nil: there is none
	Damaged    int        // segments that were set aside
}

// State reads what is new in the folder since the last call.
func (s *Spool) State() State {
	s.state.Lock()
	defer s.state.Unlock()
	out := State{Max: s.max}
	counted := map[string]count{}
	for _, path := range s.segments() {
		c := s.counted[path].more(path)
		counted[path] = c
		out.Bytes, out.Records = out.Bytes+c.size, out.Records+c.records
		if id, err := uuid.Parse(strings.TrimSuffix(filepath.Base(path), ending)); err == nil && out.Oldest == nil {
			sec, nsec := id.Time().UnixTime()
			begun := time.Unix(sec, nsec)
			out.Oldest = &begun
		}
	}
	s.counted = counted
	if aside, err := filepath.Glob(filepath.Join(s.dir, "*"+damaged)); err == nil {
		out.Damaged = len(aside)
	}
	return out
}

// count is how far the records of a segment have been counted.
type count struct{ size, at, records int64 }

// more counts the records that were appended since, reading only their headers. It stops at an
// impossible size. What cannot be read has a record at least, unless it is empty.
func (c count) more(path string) count {
	f, err := os.Open(path)
	if err != nil {
		if info, err := os.Stat(path); err == nil { // else it has been drained
			c.size = info.Size()
			return c.unread()
		}
		return c
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		c.size = info.Size()
	}
	var head [headerSize]byte
	for {
		n, err := f.ReadAt(head[:], c.at)
		if n < headerSize && err != io.EOF {
			return c.unread()
		}
		if n < headerSize {
			return c
		}
		size := int64(binary.LittleEndian.Uint32(head[:]))
		if size == 0 || size > maxRecord || c.at+headerSize+size > c.size {
			return c
		}
		c.at += headerSize + size
		c.records++
	}
}

// unread is the count of a segment that cannot be read any further.
func (c count) unread() count {
	if c.size > 0 {
		c.records = max(c.records, 1)
	}
	return c
}
