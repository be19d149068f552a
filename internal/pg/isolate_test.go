package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"ajo/internal/batch"
)

// What may be one row's fault fails that row alone, be it the server's refusal, an error of ours or
// a panic; what is nobody's fault fails all, without asking for each.
func TestIsolate(t *testing.T) {
	t.Parallel()
	server := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err   error
		alone bool
	}{
		"a check":           {server("23514"), true},
		"bad data":          {server("22003"), true},
		"a trigger":         {server("P0001"), true},
		"inside the server": {server("XX001"), true},
		"one of ours":       {errors.New("no balance"), true},
		"a panic":           {nil, true},
		"a deadlock":        {server("40P01"), false},
		"no such table":     {server("42P01"), false},
		"no room":           {server("53100"), false},
		"a lock":            {server("55P03"), false},
		"shutting down":     {server("57P01"), false},
		"too slow":          {context.DeadlineExceeded, false},
		"the caller left":   {context.Canceled, false},
		"cut":               {io.ErrUnexpectedEOF, false},
		"connection lost":   {fmt.Errorf("connection lost: %w", io.ErrUnexpectedEOF), false},
		"no connection":     {&net.OpError{Op: "dial", Err: errors.New("refused")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			out := isolate([]int{1, 2, 3}, func(items []int) ([]batch.Outcome[int], error) {
				calls++
				out := make([]batch.Outcome[int], len(items))
				for i, n := range items {
					if n == 2 && c.err == nil {
						panic("a bug")
					}
					if n == 2 {
						return nil, c.err
					}
					out[i].Value = n * 10
				}
				return out, nil
			})
			require.Len(t, out, 3)
			require.Error(t, out[1].Err)
			require.Equal(t, c.alone, out[0].Err == nil)
			require.Equal(t, c.alone, out[2].Err == nil)
			if c.alone {
				require.Equal(t, []int{10, 30, 4}, []int{out[0].Value, out[2].Value, calls})
			} else {
				require.Equal(t, 1, calls)
			}
		})
	}
}

// Once the database has gone in the middle, the rest does not wait for it one by one.
func TestIsolateStops(t *testing.T) {
	t.Parallel()
	calls := 0
	out := isolate([]int{1, 2, 3}, func(items []int) ([]batch.Outcome[int], error) {
		calls++
		if len(items) > 1 {
			return nil, errors.New("ours")
		}
		return nil, io.EOF
	})
	require.Equal(t, 2, calls)
	for _, o := range out {
		require.ErrorIs(t, o.Err, io.EOF)
	}
}
