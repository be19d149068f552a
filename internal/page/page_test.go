package page

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int{"": 20, "1": 1, "50": 50, "100": 100, "007": 7} {
		r, err := Parse(limit, "c", 20)
		require.NoError(t, err, limit)
		require.Equal(t, Request{Limit: want, After: "c"}, r)
	}
	for _, limit := range []string{"0", "-1", "101", "1.0", "1e1", " 1", "1 ", "x", "٣", "NaN", "99999999999999999999", "\x00", "0x10"} {
		_, err := Parse(limit, "", 20)
		require.ErrorIs(t, err, ErrLimit, limit)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	name := func(s string) string { return "after " + s }
	rows, info := Cut([]string{"a", "b", "c"}, Request{Limit: 2}, name)
	require.Equal(t, []string{"a", "b"}, rows)
	require.True(t, info.HasMore)
	require.Equal(t, "after b", *info.NextCursor)
	for _, all := range [][]string{{"a", "b"}, {"a"}, {}, nil} {
		rows, info := Cut(all, Request{Limit: 2}, name)
		require.Equal(t, all, rows)
		require.Equal(t, Info{Limit: 2}, info)
	}
	b, err := json.Marshal(Info{Limit: 20})
	require.NoError(t, err)
	require.Equal(t, `{"limit":20,"nextCursor":null,"hasMore":false}`, string(b))
}

// badCursors are no cursor of any kind.
var badCursors = []string{
	"x", "AQ", "Ag", "AA", "====", "AQ==", "////", "\x00", "\xff", "AQAAAAAAAAAAAAAAAAAAAAA=", "AgAAAAAAAAAB ", " AgAAAAAAAAAB", "AgAAAAAAAAAB\n", "AwAAAAAAAAAB",
	"AgAAAAAAAAAAAQ", "AgAAAAAAAA", strings.Repeat("A", 65), strings.Repeat("A", 1<<16), "null", "0",
}

func TestCursors(t *testing.T) {
	t.Parallel()
	for _, id := range []uuid.UUID{uuid.Nil, uuid.Max, uuid.New()} {
		got, ok, err := ParseID(ID(id))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, id, got)
		_, err = ParseSeq(ID(id))
		require.ErrorIs(t, err, ErrCursor, "a cursor of another list")
	}
	for _, seq := range []int64{0, 1, math.MaxInt64} {
		got, err := ParseSeq(Seq(seq))
		require.NoError(t, err)
		require.Equal(t, seq, got)
		_, _, err = ParseID(Seq(seq))
		require.ErrorIs(t, err, ErrCursor, "a cursor of another list")
	}
	_, err := ParseSeq(Seq(-1))
	require.ErrorIs(t, err, ErrCursor)
	_, ok, err := ParseID("")
	require.NoError(t, err)
	require.False(t, ok)
	seq, err := ParseSeq("")
	require.NoError(t, err)
	require.Zero(t, seq)
	for _, bad := range badCursors {
		_, _, err := ParseID(bad)
		require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
		_, err = ParseSeq(bad)
		require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
	}
}

// A text that is taken for a cursor is the one cursor of what it names: there are no two spellings.
func FuzzCursor(f *testing.F) {
	for _, c := range append([]string{"", ID(uuid.Max), ID(uuid.Nil), Seq(0), Seq(7), Seq(math.MaxInt64)}, badCursors...) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, c string) {
		id, ok, err := ParseID(c)
		switch {
		case err != nil:
			require.ErrorIs(t, err, ErrCursor)
		case ok:
			require.Equal(t, c, ID(id))
		default:
			require.Empty(t, c)
		}
		seq, seqErr := ParseSeq(c)
		switch {
		case seqErr != nil:
			require.ErrorIs(t, seqErr, ErrCursor)
		case c != "":
			require.Equal(t, c, Seq(seq))
			require.GreaterOrEqual(t, seq, int64(0))
		}
		require.True(t, c == "" || err != nil || seqErr != nil, "one cursor for two kinds of list")
	})
}
