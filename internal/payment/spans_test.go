package payment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A span begins where somebody waits, ends where a page's worth of payments do, and is never longer
// than allowed; where too few wait in so long a time, they are asked about one by one.
func TestSpansOf(t *testing.T) {
	t.Parallel()
	each := func(n, from, to int) map[int64]int {
		waiting := map[int64]int{}
		for second := from; second < to; second++ {
			waiting[int64(second)] = n
		}
		return waiting
	}
	for name, c := range map[string]struct {
		waiting map[int64]int
		longest int64
		want    []span
	}{
		"nobody":           {nil, 64, nil},
		"no list is read":  {each(100, 0, 2), 0, nil},
		"dense":            {each(100, 10, 12), 64, []span{{10, 11}, {11, 12}}},
		"sparse":           {each(10, 100, 112), 64, []span{{100, 105}, {105, 110}, {110, 112}}},
		"too few":          {each(1, 0, 15), 64, nil},
		"too few so near":  {each(1, 0, 100), 15, nil},
		"just enough":      {each(1, 0, 16), 16, []span{{0, 16}}},
		"with gaps":        {map[int64]int{1: 8, 30: 8, 94: 8, 157: 8}, 64, []span{{1, 31}, {94, 158}}},
		"a lone one first": {map[int64]int{1: 1, 500: 20}, 64, []span{{500, 501}}},
	} {
		require.Equal(t, c.want, spansOf(c.waiting, c.longest), name)
	}
}

func TestContiguousSeconds(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	require.Empty(t, contiguous(nil))
	require.Equal(t, []span{{1, 3}, {7, 8}, {9, 10}}, contiguous([]time.Time{at(1), at(2), at(7), at(9)}))
}

// Lists that are too long make spans shorter, down to a second; short ones make them longer again.
func TestSpansFollowTheLists(t *testing.T) {
	t.Parallel()
	l := newLists()
	longest := func() int64 { return l.longest(time.Time{}) }
	require.Equal(t, int64(spanLongest), longest())
	for _, want := range []int64{16, 4, 1, 1} {
		l.learn(&listing{cut: true, seconds: make([]time.Time, longest())}, spanPages)
		require.Equal(t, want, longest())
	}
	l.learn(&listing{}, spanShort+1)
	require.Equal(t, int64(1), longest(), "a list of several pages")
	for _, want := range []int64{2, 4, 8, 16, 32, 64, 64} {
		l.learn(&listing{}, spanShort)
		require.Equal(t, want, longest())
	}
	l.quiet = time.Unix(100, 0)
	require.Zero(t, l.longest(time.Unix(99, 0)))
	require.Equal(t, int64(64), l.longest(time.Unix(100, 0)))
}
