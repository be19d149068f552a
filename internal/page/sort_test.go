package page

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A cursor of one order is refused by every other, also of the same list.
func TestSortedCursors(t *testing.T) {
	t.Parallel()
	id, at := uuid.New(), time.Date(2026, 11, 22, 10, 0, 0, 123000, time.UTC)
	var sorts []Sort
	for _, by := range []Key{Created, Amount, Name, Balance} {
		sorts = append(sorts, Sort{by, false}, Sort{by, true})
	}
	for _, s := range sorts {
		for _, value := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
			got, gotID, ok, err := ParseSorted(Accounts, s, Sorted(Accounts, s, value, id))
			require.NoError(t, err)
			require.Equal(t, []any{value, id, true}, []any{got, gotID, ok})
		}
		gotAt, gotID, ok, err := ParseSortedDue(Payments, s, SortedDue(Payments, s, at, id))
		require.NoError(t, err)
		require.Equal(t, []any{at, id, true}, []any{gotAt, gotID, ok})
		_, _, ok, err = ParseSorted(Accounts, s, "")
		require.NoError(t, err)
		require.False(t, ok)
		_, _, ok, err = ParseSortedDue(Payments, s, "")
		require.NoError(t, err)
		require.False(t, ok)
		for _, other := range sorts {
			if other == s {
				continue
			}
			_, _, _, err = ParseSorted(Accounts, other, Sorted(Accounts, s, 7, id))
			require.ErrorIs(t, err, ErrCursor)
			_, _, _, err = ParseSortedDue(Payments, other, SortedDue(Payments, s, at, id))
			require.ErrorIs(t, err, ErrCursor)
		}
		_, _, _, err = ParseSorted(Customers, s, Sorted(Accounts, s, 7, id))
		require.ErrorIs(t, err, ErrCursor, "of another list")
		_, _, _, err = ParseSorted(Accounts, s, ID(Accounts, id))
		require.ErrorIs(t, err, ErrCursor, "of the list's own order")
		for _, bad := range badCursors {
			_, _, _, err = ParseSorted(Accounts, s, bad)
			require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
		}
	}
}
