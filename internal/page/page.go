// Package page is the pagination that every list shares: a limit, an opaque cursor, and the object
// that answers carry.
//
// A cursor names its list and the last row that was shown (its id, or its place in a statement), so
// it stays right while rows are inserted, and another list refuses it. The specification's
// "Pagination (list endpoints)"; sizes from its "Limits".
package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
)

// Page sizes: what a list gives when no limit is asked for, and the most it gives.
const (
	DefaultList      = 20
	DefaultStatement = 50
	Max              = 100
)

// CountLimit is how many rows a total looks at.
const CountLimit = 10_000

// Refusals of a request for a page.
var (
	ErrCursor = errs.New(errs.Invalid, "invalid cursor")
	ErrLimit  = errs.New(errs.Invalid, "limit must be a whole number from 1 to 100")
	ErrTotal  = errs.New(errs.Invalid, "total must be true or false")
)

// Request asks for one page: at most Limit rows after the cursor After (empty: from the start).
type Request struct {
	Limit int
	After string
	Total bool // also count the rows of the whole list
	Sort  Sort // where the list has other orders than its own
}

// Info is the pagination object of an answer. NextCursor is null when HasMore is false.
type Info struct {
	Limit      int     `json:"limit"`
	NextCursor *string `json:"nextCursor"`
	HasMore    bool    `json:"hasMore"`
	Total      *Total  `json:"total,omitempty"` // only where the request asks for it
}

// Total is how many rows a list has, whatever page of it is read.
type Total struct {
	Count int  `json:"count"` // at most [CountLimit]
	Exact bool `json:"exact"` // false: there are at least so many
}

// NewTotal is the total of a list of which n rows were counted, at most one more than [CountLimit].
// all says that the list has no row that was not looked at.
func NewTotal(n int, all bool) *Total {
	return &Total{Count: min(n, CountLimit), Exact: all && n <= CountLimit}
}

// New asks for a page of limit rows after a cursor. A bad limit is [ErrLimit].
func New(limit int, after string) (Request, error) {
	if limit < 1 || limit > Max {
		return Request{}, ErrLimit
	}
	return Request{Limit: limit, After: after}, nil
}

// Parse is [New] of the query parameters limit and after; an empty limit is def.
func Parse(limit, after string, def int) (Request, error) {
	if limit == "" {
		return New(def, after)
	}
	n, err := strconv.Atoi(limit)
	if err != nil {
		return Request{}, ErrLimit
	}
	return New(n, after)
}

// Cut makes a page of rows, which were read with a limit of r.Limit + 1: the surplus row only says
// that there is more.
func Cut[T any](rows []T, r Request, cursor func(T) string) ([]T, Info) {
	info := Info{Limit: r.Limit}
	if len(rows) > r.Limit {
		rows = rows[:r.Limit]
		next := cursor(rows[len(rows)-1])
		info.NextCursor, info.HasMore = &next, true
	}
	return rows, info
}

// List is a list that has cursors. Its number is a cursor's first byte, so that a cursor of another
// list is refused.
type List byte

// The lists. A number is never used again for another. (1 and 2 were those of all lists.)
const (
	Accounts List = iota + 3
	Customers
	Transfers
	Deliveries
	DeadLetters
	Misdirected
	Statement
	Feed
	Tenants
	Audit
	Events
	Reviews
	Runs
	TransferRecords
	Recalls
	OpenItems
	Work
	Freezes
	SystemStatement
	Holds
	Keys
	OwnAudit
	Members
	Sessions
	Payments
	EventLog
	Beneficiaries
	Operators
)

// ID returns the cursor that names a row of the list by its id.
func ID(l List, id uuid.UUID) string { return encode(l, id[:]) }

// ParseID reads a cursor made by [ID] for the same list; ok is false for the empty cursor. Anything
// else is [ErrCursor].
func ParseID(l List, cursor string) (id uuid.UUID, ok bool, err error) {
	b, ok, err := decode(l, cursor, len(id))
	copy(id[:], b)
	return id, ok, err
}

// Seq returns the cursor that names a row of the list by its number, which counts within what of
// names: the lines of a statement within its account.
func Seq(l List, of uuid.UUID, seq int64) string {
	return encode(l, binary.BigEndian.AppendUint64(mark(of), uint64(seq)))
}

// ParseSeq reads a cursor made by [Seq] for the same list of the same thing; the empty cursor is 0.
// Anything else is [ErrCursor].
func ParseSeq(l List, of uuid.UUID, cursor string) (int64, error) {
	b, ok, err := decode(l, cursor, markSize+8)
	if err != nil || !ok {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint64(b[markSize:]))
	if n < 0 || !bytes.Equal(b[:markSize], mark(of)) {
		return 0, ErrCursor
	}
	return n, nil
}

// Due returns the cursor that names a row of the list by a time, to the microsecond; the id and n
// tell rows of one time apart.
func Due(l List, at time.Time, id uuid.UUID, n byte) string {
	return valued(l, n, at.UnixMicro(), id)
}

// ParseDue reads a cursor made by [Due] for the same list; the empty cursor is before all rows.
// Anything else is [ErrCursor].
func ParseDue(l List, cursor string) (at time.Time, id uuid.UUID, n byte, err error) {
	n, micros, id, ok, err := parseValued(l, cursor)
	if err != nil || !ok {
		return time.Time{}, id, 0, err
	}
	at = time.UnixMicro(micros).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, uuid.Nil, 0, ErrCursor
	}
	return at, id, n, nil
}

func valued(l List, n byte, value int64, id uuid.UUID) string {
	return encode(l, binary.BigEndian.AppendUint64(append([]byte{n}, id[:]...), uint64(value)))
}

func parseValued(l List, cursor string) (n byte, value int64, id uuid.UUID, ok bool, err error) {
	b, ok, err := decode(l, cursor, 1+len(id)+8)
	if err != nil || !ok {
		return 0, 0, id, false, err
	}
	copy(id[:], b[1:])
	return b[0], int64(binary.BigEndian.Uint64(b[1+len(id):])), id, true, nil
}

// markSize is what a cursor has of the id that its number counts within: enough to tell that it is
// of another.
const markSize = 4

func mark(of uuid.UUID) []byte {
	sum := sha256.Sum256(of[:])
	return sum[:markSize:markSize]
}

func encode(l List, b []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(l)}, b...))
}

func decode(l List, cursor string, size int) ([]byte, bool, error) {
	if cursor == "" {
		return nil, false, nil
	}
	// which the decoder would pass over
	if len(cursor) > 64 || strings.ContainsAny(cursor, "\r\n") {
		return nil, false, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != size+1 || b[0] != byte(l) {
		return nil, false, ErrCursor
	}
	return b[1:], true, nil
}
