package page

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

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

// badCursors are no cursor of any list.
var badCursors = []string{
	"x", "AQ", "Ag", "AA", "====", "AQ==", "////", "\x00", "\xff", "AQAAAAAAAAAAAAAAAAAAAAA=", "AgAAAAAAAAAB ", " AgAAAAAAAAAB", "AgAAAAAAAAAB\n", "AwAAAAAAAAAB",
	"AgAAAAAAAAAAAQ", "AgAAAAAAAA", strings.Repeat("A", 65), strings.Repeat("A", 1<<16), "null", "0", "AQAAAAAAAAAAAAAAAAAAAAA", "AgAAAAAAAAAB",
}

// lists are all that have cursors.
var lists = []List{
	Accounts, Customers, Transfers, Deliveries, DeadLetters, Misdirected, Statement, Feed, Tenants, Audit, Events, Reviews, Runs, TransferRecords, Recalls, OpenItems, Work, SystemStatement, Payments, EventLog,
}

func TestCursors(t *testing.T) {
	t.Parallel()
	for _, id := range []uuid.UUID{uuid.Nil, uuid.Max, uuid.New()} {
		for _, l := range lists {
			cursor := ID(l, id)
			for _, other := range lists {
				got, ok, err := ParseID(other, cursor)
				if other != l {
					require.ErrorIs(t, err, ErrCursor, "a cursor of another list")
					continue
				}
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, id, got)
			}
			_, err := ParseSeq(l, id, cursor)
			require.ErrorIs(t, err, ErrCursor, "an id is no number")
		}
	}
	mine := uuid.New()
	for _, seq := range []int64{0, 1, math.MaxInt64} {
		cursor := Seq(Statement, mine, seq)
		got, err := ParseSeq(Statement, mine, cursor)
		require.NoError(t, err)
		require.Equal(t, seq, got)
		_, err = ParseSeq(Statement, uuid.New(), cursor)
		require.ErrorIs(t, err, ErrCursor, "a cursor of another account's statement")
		_, err = ParseSeq(Feed, mine, cursor)
		require.ErrorIs(t, err, ErrCursor, "a cursor of another list")
		_, _, err = ParseID(Statement, cursor)
		require.ErrorIs(t, err, ErrCursor, "a number is no id")
	}
	_, err := ParseSeq(Statement, mine, Seq(Statement, mine, -1))
	require.ErrorIs(t, err, ErrCursor)
	for _, at := range []time.Time{time.UnixMicro(0).UTC(), time.Date(2026, 11, 22, 10, 0, 0, 123000, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		cursor := Due(Work, at, mine, 4)
		got, id, n, err := ParseDue(Work, cursor)
		require.NoError(t, err)
		require.Equal(t, []any{at, mine, byte(4)}, []any{got, id, n})
		_, _, _, err = ParseDue(Events, cursor)
		require.ErrorIs(t, err, ErrCursor, "a cursor of another list")
	}
	_, _, _, err = ParseDue(Work, Due(Work, time.UnixMicro(math.MaxInt64), mine, 0))
	require.ErrorIs(t, err, ErrCursor)
	first, _, _, err := ParseDue(Work, "")
	require.NoError(t, err)
	require.Zero(t, first)
	_, ok, err := ParseID(Accounts, "")
	require.NoError(t, err)
	require.False(t, ok)
	seq, err := ParseSeq(Statement, mine, "")
	require.NoError(t, err)
	require.Zero(t, seq)
	for _, bad := range badCursors {
		for _, l := range lists {
			_, _, err := ParseID(l, bad)
			require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
			_, err = ParseSeq(l, mine, bad)
			require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
			_, _, _, err = ParseDue(l, bad)
			require.ErrorIs(t, err, ErrCursor, "%.20q", bad)
		}
	}
}

// A text that is taken for a cursor is the one cursor of what it names: there are no two spellings.
func FuzzCursor(f *testing.F) {
	of := uuid.UUID{1}
	for _, c := range append([]string{"", ID(Accounts, uuid.Max), ID(Runs, uuid.Nil), Seq(Statement, of, 0), Seq(Feed, of, 7), Seq(Statement, of, math.MaxInt64), Due(Work, time.UnixMicro(7), of, 1)}, badCursors...) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, c string) {
		taken := 0
		for _, l := range lists {
			id, ok, err := ParseID(l, c)
			switch {
			case err != nil:
				require.ErrorIs(t, err, ErrCursor)
			case ok:
				taken++
				require.Equal(t, c, ID(l, id))
			default:
				require.Empty(t, c)
			}
			seq, err := ParseSeq(l, of, c)
			switch {
			case err != nil:
				require.ErrorIs(t, err, ErrCursor)
			case c != "":
				taken++
				require.Equal(t, c, Seq(l, of, seq))
				require.GreaterOrEqual(t, seq, int64(0))
			}
			at, id, n, err := ParseDue(l, c)
			switch {
			case err != nil:
				require.ErrorIs(t, err, ErrCursor)
			case c != "":
				taken++
				require.Equal(t, c, Due(l, at, id, n))
			}
		}
		require.LessOrEqual(t, taken, 1, "one cursor for two lists")
	})
}
