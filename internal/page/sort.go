package page

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
)

// Sort is what a list is ordered by. The zero value is every list's own order: newest first.
type Sort struct {
	By        Key
	Ascending bool
}

// Key is a value that a list can be ordered by.
type Key byte

// The keys. A number is never used again for another, as cursors have it.
const (
	Created Key = iota
	Amount
	Name
	Balance
)

// ErrSort refuses to order a long list by a value that no index has. Such an index would be written
// with every payment.
var ErrSort = errs.New(errs.Unprocessable, fmt.Sprintf("more than %d rows match: narrow the list to sort by this", CountLimit))

// mark is the part of a cursor that tells orders apart.
func (s Sort) mark() byte {
	if s.Ascending {
		return byte(s.By)<<1 | 1
	}
	return byte(s.By) << 1
}

// Sorted returns the cursor that names a row of a list in one of its orders: by what it is ordered
// by, as a number, and the id.
func Sorted(l List, s Sort, value int64, id uuid.UUID) string { return valued(l, s.mark(), value, id) }

// ParseSorted reads a cursor made by [Sorted] for the same order of the same list; ok is false for
// the empty cursor. Anything else is [ErrCursor].
func ParseSorted(l List, s Sort, cursor string) (value int64, id uuid.UUID, ok bool, err error) {
	n, value, id, ok, err := parseValued(l, cursor)
	if err != nil || (ok && n != s.mark()) {
		return 0, uuid.Nil, false, ErrCursor
	}
	return value, id, ok, nil
}

// SortedDue is [Sorted] by a time, to the microsecond.
func SortedDue(l List, s Sort, at time.Time, id uuid.UUID) string { return Due(l, at, id, s.mark()) }

// ParseSortedDue reads a cursor made by [SortedDue], as [ParseSorted] does.
func ParseSortedDue(l List, s Sort, cursor string) (at time.Time, id uuid.UUID, ok bool, err error) {
	at, id, n, err := ParseDue(l, cursor)
	if err != nil || (cursor != "" && n != s.mark()) {
		return time.Time{}, uuid.Nil, false, ErrCursor
	}
	return at, id, cursor != "", nil
}
