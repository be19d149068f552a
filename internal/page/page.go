// Package page is the pagination that every list shares: a limit, an opaque cursor, and the object that answers carry.
//
// A cursor names the last row that was shown (its id, or its place in a statement), so it stays right while rows are
// inserted. The specification's "Pagination (list endpoints)"; sizes from its "Limits".
package page

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"ajo/internal/errs"
)

// Page sizes: what a list gives when no limit is asked for, and the most it gives.
const (
	DefaultList      = 20
	DefaultStatement = 50
	Max              = 100
)

// Refusals of a request for a page.
var (
	ErrCursor = errs.New(errs.Invalid, "invalid cursor")
	ErrLimit  = errs.New(errs.Invalid, "limit must be a whole number from 1 to 100")
)

// Request asks for one page: at most Limit rows after the cursor After (empty: from the start).
type Request struct {
	Limit int
	After string
}

// Info is the pagination object of an answer. NextCursor is null when HasMore is false.
type Info struct {
	Limit      int     `json:"limit"`
	NextCursor *string `json:"nextCursor"`
	HasMore    bool    `json:"hasMore"`
}

// Parse reads the query parameters limit and after; an empty limit is def. A bad limit is [ErrLimit].
func Parse(limit, after string, def int) (Request, error) {
	r := Request{Limit: def, After: after}
	if limit == "" {
		return r, nil
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 1 || n > Max {
		return r, ErrLimit
	}
	r.Limit = n
	return r, nil
}

// Cut makes a page of rows, which were read with a limit of r.Limit + 1: the surplus row only says that there is more.
func Cut[T any](rows []T, r Request, cursor func(T) string) ([]T, Info) {
	info := Info{Limit: r.Limit}
	if len(rows) > r.Limit {
		rows = rows[:r.Limit]
		next := cursor(rows[len(rows)-1])
		info.NextCursor, info.HasMore = &next, true
	}
	return rows, info
}

// The first byte of a cursor says what it names, so that a cursor of another list is refused.
const (
	kindID  = 1
	kindSeq = 2
)

// ID returns the cursor that names a row by its id.
func ID(id uuid.UUID) string { return encode(kindID, id[:]) }

// ParseID reads a cursor made by [ID]; ok is false for the empty cursor. Anything else is [ErrCursor].
func ParseID(cursor string) (id uuid.UUID, ok bool, err error) {
	b, ok, err := decode(kindID, cursor, len(id))
	copy(id[:], b)
	return id, ok, err
}

// Seq returns the cursor that names a row by its number, as a statement line has one in its account.
func Seq(seq int64) string { return encode(kindSeq, binary.BigEndian.AppendUint64(nil, uint64(seq))) }

// ParseSeq reads a cursor made by [Seq]; the empty cursor is 0. Anything else is [ErrCursor].
func ParseSeq(cursor string) (int64, error) {
	b, ok, err := decode(kindSeq, cursor, 8)
	if err != nil || !ok {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint64(b))
	if n < 0 {
		return 0, ErrCursor
	}
	return n, nil
}

func encode(kind byte, b []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{kind}, b...))
}

func decode(kind byte, cursor string, size int) ([]byte, bool, error) {
	if cursor == "" {
		return nil, false, nil
	}
	if len(cursor) > 64 || strings.ContainsAny(cursor, "\r\n") { // which the decoder would pass over
		return nil, false, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != size+1 || b[0] != kind {
		return nil, false, ErrCursor
	}
	return b[1:], true, nil
}
