package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
)

func count(e *testenv.Env, table string) (n int) {
	require.NoError(e.T, e.Pool.QueryRow(e.T.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// Items that wait are one transaction, sorted, and each caller has its own result, in the order of
// its items. A lone item goes at once.
func TestBatcher(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE taken (n int, tx xid8 DEFAULT pg_current_xact_id(), at bigserial)`)
	goOn := make(chan struct{})
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test/take", Max: 10, Order: func(a, b int) int { return a - b }},
		func(ctx context.Context, tx pg.Tx, items []int) ([]int, error) {
			out := make([]int, len(items))
			for i, n := range items {
				if n == 8 {
					<-goOn
				}
				if _, err := tx.Exec(ctx, `INSERT INTO taken (n) VALUES ($1)`, n); err != nil {
					return nil, err
				}
				out[i] = n * 10
			}
			return out, nil
		})
	got, err := b.Do(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, 70, got)

	var wg sync.WaitGroup
	wg.Go(func() { _, _ = b.Do(t.Context(), 8) })
	wg.Go(func() {
		testenv.Eventually(t, time.Minute, "three that wait", func() bool { return b.Waiting() == 3 })
		close(goOn)
	})
	testenv.Eventually(t, time.Minute, "a batch under way", func() bool { return busy(e) })
	for i, o := range b.DoAll(t.Context(), []int{3, 1, 2}) {
		require.NoError(t, o.Err)
		require.Equal(t, []int{30, 10, 20}[i], o.Value)
	}
	wg.Wait()
	b.Close()
	var order []int
	require.NoError(t, e.Pool.QueryRow(t.Context(), `SELECT array_agg(n ORDER BY at) FROM taken WHERE n < 7 GROUP BY tx`).Scan(&order))
	require.Equal(t, []int{1, 2, 3}, order)
	_, err = b.Do(t.Context(), 1)
	require.Error(t, err, "closed")
}

// busy reports whether a transaction is open.
func busy(e *testenv.Env) bool {
	return count(e, `pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`) > 0
}

// A bad item fails alone, be it refused by the server, an error or a panic; the rest of its batch
// stands, and so does nothing of the bad one.
func TestBatcherBadItem(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE odd (n int CHECK (n % 2 = 1))`)
	for name, bad := range map[string]func(ctx context.Context, tx pg.Tx, n int) error{
		"refused": func(ctx context.Context, tx pg.Tx, n int) error {
			_, err := tx.Exec(ctx, `INSERT INTO odd VALUES ($1)`, n)
			return err
		},
		"an error": func(context.Context, pg.Tx, int) error { return errors.New("ours") },
		"a panic":  func(context.Context, pg.Tx, int) error { panic("a bug") },
	} {
		e.Exec(`TRUNCATE odd`)
		b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test/odd", Max: 10}, func(ctx context.Context, tx pg.Tx, items []int) ([]int, error) {
			for _, n := range items {
				if n%2 == 0 {
					if err := bad(ctx, tx, n); err != nil {
						return nil, err
					}
				} else if _, err := tx.Exec(ctx, `INSERT INTO odd VALUES ($1)`, n); err != nil {
					return nil, err
				}
			}
			return items, nil
		})
		out := b.DoAll(t.Context(), []int{1, 2, 3})
		require.NoError(t, out[0].Err, name)
		require.Error(t, out[1].Err, name)
		require.NoError(t, out[2].Err, name)
		require.Equal(t, 2, count(e, "odd"), name)
		b.Close()
	}
}

// What may be one item's fault fails that item alone, be it the server's refusal or an error of
// ours; what is nobody's fault fails all, without trying each.
func TestBatcherWhoseFault(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	server := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err   error
		alone bool
		calls int
	}{
		"a check":           {server("23514"), true, 4},
		"bad data":          {server("22003"), true, 4},
		"a trigger":         {server("P0001"), true, 4},
		"inside the server": {server("XX001"), true, 4},
		"one of ours":       {errors.New("no balance"), true, 4},
		"a deadlock":        {server("40P01"), false, 5}, // the whole batch is repeated
		"no such table":     {server("42P01"), false, 1},
		"no room":           {server("53100"), false, 1},
		"a lock":            {server("55P03"), false, 1},
		"shutting down":     {server("57P01"), false, 1},
		"too slow":          {context.DeadlineExceeded, false, 1},
		"the caller left":   {context.Canceled, false, 1},
		"cut":               {io.ErrUnexpectedEOF, false, 1},
		"connection lost":   {fmt.Errorf("connection lost: %w", io.ErrUnexpectedEOF), false, 1},
		"no connection":     {&net.OpError{Op: "dial", Err: errors.New("refused")}, false, 1},
	} {
		calls := 0
		b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test", Max: 10}, func(_ context.Context, _ pg.Tx, items []int) ([]int, error) {
			calls++
			if slices.Contains(items, 2) {
				return nil, c.err
			}
			return []int{items[0] * 10}, nil
		})
		out := b.Together(t.Context(), []int{1, 2, 3})
		b.Close()
		require.Len(t, out, 3, name)
		require.Equal(t, c.calls, calls, name)
		require.ErrorIs(t, out[1].Err, c.err, name)
		if c.alone {
			require.NoError(t, out[0].Err, name)
			require.NoError(t, out[2].Err, name)
			require.Equal(t, []int{10, 30}, []int{out[0].Value, out[2].Value}, name)
		} else {
			require.ErrorIs(t, out[0].Err, c.err, name)
			require.ErrorIs(t, out[2].Err, c.err, name)
		}
	}
}

// A batch whose commit may stand is not done again, item by item: what it did would be done twice.
func TestBatcherWhoseCommitMayStand(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE taken (n int)`)
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test", Max: 10}, func(ctx context.Context, tx pg.Tx, items []int) ([]int, error) {
		tx.Conn().PgConn().CustomData()[pg.OnOneServer] = true // as Postgres' warning at the commit does
		_, err := tx.Exec(ctx, `INSERT INTO taken SELECT unnest($1::int[])`, items)
		return items, err
	})
	defer b.Close()
	for _, o := range b.Together(t.Context(), []int{1, 2, 3}) {
		require.ErrorContains(t, o.Err, "one server only")
	}
	require.Equal(t, 3, count(e, "taken"), "each is there once")
}

// When the database goes while items are tried one by one, the rest does not wait for it.
func TestBatcherStops(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	calls := 0
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test", Max: 10, Order: func(a, b int) int { return b - a }}, func(_ context.Context, _ pg.Tx, items []int) ([]int, error) {
		calls++
		switch {
		case len(items) > 1:
			return nil, errors.New("ours")
		case items[0] == 2:
			return nil, io.EOF
		}
		return items, nil
	})
	defer b.Close()
	out := b.Together(t.Context(), []int{1, 2, 3})
	require.Equal(t, 3, calls)
	require.NoError(t, out[2].Err)
	require.Equal(t, 3, out[2].Value)
	require.ErrorIs(t, out[1].Err, io.EOF)
	require.ErrorIs(t, out[0].Err, io.EOF)
}

// A number of results that is not that of the items commits nothing.
func TestBatcherWrongLength(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE kept (n int)`)
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test/kept", Max: 10}, func(ctx context.Context, tx pg.Tx, _ []int) ([]int, error) {
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES (1)`)
		return nil, err
	})
	defer b.Close()
	_, err := b.Do(t.Context(), 1)
	require.ErrorContains(t, err, "0 results for 1 items")
	require.Zero(t, count(e, "kept"))
}

// A batcher without a name, and so without failpoints, cannot write.
func TestBatcherReadsOnly(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE kept (n int)`)
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Max: 10}, func(ctx context.Context, tx pg.Tx, items []int) ([]int, error) {
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES (1)`)
		return items, err
	})
	defer b.Close()
	_, err := b.Do(t.Context(), 1)
	require.Equal(t, "25006", pg.Code(err))
}

// What a transaction wants done after its commit is done once, before its caller goes on: not after
// a rollback, and not for an attempt that is repeated. It cannot fail the caller.
func TestAfterCommit(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE facts (n int)`)
	var ran []int
	hook := func(tx pg.Tx, n int) {
		tx.AfterCommit(func(ctx context.Context) {
			require.NoError(t, ctx.Err())
			require.Positive(t, count(e, "facts"), "not committed yet")
			ran = append(ran, n)
		})
	}
	fact := func(tx pg.Tx) error {
		_, err := tx.Exec(t.Context(), `INSERT INTO facts VALUES (1)`)
		return err
	}
	require.Error(t, pg.InTx(t.Context(), e.Pool, func(tx pg.Tx) error {
		hook(tx, 1)
		return errors.New("no")
	}))
	attempts := 0
	ctx, leave := context.WithCancel(t.Context())
	require.NoError(t, pg.InTx(ctx, e.Pool, func(tx pg.Tx) error {
		attempts++
		hook(tx, 10*attempts)
		tx.AfterCommit(func(context.Context) { leave() }) // a caller that goes takes nothing along
		tx.AfterCommit(func(context.Context) { panic("a bug") })
		hook(tx, 10*attempts+1)
		if attempts == 1 {
			return &pgconn.PgError{Code: "40001"}
		}
		return fact(tx)
	}))
	require.Equal(t, []int{20, 21}, ran)
	require.Error(t, pg.InTx(t.Context(), e.Pool, func(tx pg.Tx) error {
		hook(tx, 30)
		_, _ = tx.Exec(t.Context(), `SELECT 1/0`)
		return nil // and the COMMIT is a rollback
	}))
	require.Equal(t, []int{20, 21}, ran)

	l := e.LostCommits()
	l.LoseCommits(1)
	require.Error(t, pg.InTx(t.Context(), l.Pool, func(tx pg.Tx) error {
		hook(tx, 40)
		return fact(tx)
	}))
	require.Equal(t, []int{20, 21}, ran, "nobody knows that it stands")
	require.Equal(t, 2, count(e, "facts"))
}

// The callers of a batch go on when what follows its commit is done; the next batch does not wait
// for it, and Close does.
func TestAfterCommitOfABatch(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	slow, begun := make(chan struct{}), make(chan struct{}, 1)
	var hooks atomic.Int64
	b := pg.NewBatcher(e.Pool, pg.BatchOptions[int]{Name: "test/after", Max: 10}, func(_ context.Context, tx pg.Tx, items []int) ([]int, error) {
		if items[0] == 1 {
			tx.AfterCommit(func(context.Context) {
				begun <- struct{}{}
				<-slow
				hooks.Add(1)
			})
		}
		return items, nil
	})
	var one sync.WaitGroup
	one.Go(func() {
		_, err := b.Do(t.Context(), 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, hooks.Load(), "it went on before")
	})
	<-begun
	_, err := b.Do(t.Context(), 2)
	require.NoError(t, err)
	require.Zero(t, hooks.Load())
	close(slow)
	one.Wait()

	slow = make(chan struct{})
	gone, leave := context.WithCancel(t.Context())
	one.Go(func() { _, _ = b.Do(gone, 1) })
	<-begun
	leave()
	one.Wait()
	time.AfterFunc(time.Millisecond, func() { close(slow) })
	b.Close()
	require.EqualValues(t, 2, hooks.Load())
}

// The first who names an id has what was found for it.
func TestMatch(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	key := func(s *string) uuid.UUID { return uuid.MustParse(*s) }
	found := []*string{new(b.String()), new(a.String())}
	require.Equal(t, []*string{found[1], found[0], nil, nil}, pg.Match([]uuid.UUID{a, b, a, uuid.New()}, found, key))
}
