package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
)

// Batcher takes the items of all callers that wait, works on them in one transaction, and gives
// each caller its own result. A commit costs the same for one row as for a hundred. It never waits
// for more callers: a lone item is done at once, and the items that come meanwhile form the next
// batch.
//
// Its transaction has the settings of plans.go. One bad item does not fail its neighbours: a batch
// that fails for a reason that may lie in one row is repeated item by item. The two failpoints are
// Name:before-commit and Name:after-commit. A batcher without a name cannot write.
type Batcher[T, R any] struct {
	*batch.Coalescer[T, R] // has Do and DoAll
	pool                   *Pool
	o                      BatchOptions[T]
	do                     func(ctx context.Context, tx Tx, items []T) ([]R, error)
	hooks                  sync.WaitGroup
}

// BatchOptions say how a [Batcher] works.
type BatchOptions[T any] struct {
	// Name names the failpoints; empty: the transactions are read-only, and there are none.
	Name string
	// Max is the size of the largest batch.
	Max int
	// Writers is how many batches may be under way at once; 0: one. A second one halves the
	// batches, and meets the first on the same rows (docs/performance.md).
	Writers int
	// Order sorts the items of a batch, and so the locks that it takes one after the other: by id
	// within a kind ([CompareIDs], [ByID]). Nil: as they came.
	Order func(a, b T) int
	// Writes is a table whose writers somebody waits for (freeze.AwaitAcceptances): the batches
	// take a writer's lock with their BEGIN, before they read what they write by. Empty: none.
	Writes string
}

// NewBatcher starts a batcher. do works on all items in the transaction, in the order of the
// options, and returns one result each. As with [InTx] it may be called again, with all items or
// with one of them, so it must have no effect outside the transaction but by [Tx.AfterCommit]. An
// error, or a panic, fails all that it was given; a refusal of one item is part of its result.
// Close the batcher to stop it.
func NewBatcher[T, R any](pool *Pool, o BatchOptions[T], do func(ctx context.Context, tx Tx, items []T) ([]R, error)) *Batcher[T, R] {
	b := &Batcher[T, R]{pool: pool, o: o, do: do}
	b.Coalescer = batch.New(max(o.Writers, 1), o.Max, b.run)
	return b
}

// Together does the items as one batch, at once and concurrently with others, however many they
// are.
func (b *Batcher[T, R]) Together(ctx context.Context, items []T) []batch.Outcome[R] {
	return batch.Await(ctx, b.run(ctx, items))
}

// Close refuses new items, and returns when those that were taken are done.
func (b *Batcher[T, R]) Close() {
	b.Coalescer.Close()
	b.hooks.Wait()
}

// run does one batch, in the options' order and one transaction. A transaction that meets a
// serialization failure or a deadlock is repeated. One that fails for a reason that may lie in one
// item is repeated item by item. If the reason lies in no item, such as a lost database, the
// remaining items fail with it. So they do after a commit that may stand: repeating them would do
// each twice.
func (b *Batcher[T, R]) run(ctx context.Context, items []T) []batch.Outcome[R] {
	items, places := b.inOrder(items)
	options := pgx.TxOptions{BeginQuery: beginBatch}
	if b.o.Name == "" {
		options.BeginQuery = beginReading
	}
	if b.o.Writes != "" {
		options.BeginQuery += `; lock table ` + b.o.Writes + ` in row exclusive mode`
	}
	out := make([]batch.Outcome[R], len(items))
	size := len(items) // of the next transaction
	for done, attempt := 0, 1; done < len(items); {
		var values []R
		var hooks []func(context.Context)
		err := func() (err error) {
			tx, err := begin(ctx, b.pool, options)
			if err != nil {
				return err
			}
			defer tx.release(ctx)
			defer recovered(&err)
			if values, err = b.do(ctx, Tx{tx.Tx, b.pool, &hooks}, items[done:done+size]); err != nil {
				return err
			}
			if len(values) != size {
				return fmt.Errorf("batch %s: %d results for %d items", b.o.Name, len(values), size)
			}
			failpoint.BeforeCommit(b.o.Name)
			return tx.commit(ctx)
		}()
		var after <-chan struct{}
		switch {
		case err == nil:
			failpoint.AfterCommit(b.o.Name)
			after = b.follow(ctx, hooks)
		case again(ctx, err, attempt):
			attempt++
			continue
		case rowsFault(err) && size > 1:
			size = 1
			continue
		case !rowsFault(err):
			size = len(items) - done
		}
		for i, place := range places[done : done+size] {
			if out[place].Err = err; err == nil {
				out[place] = batch.Outcome[R]{Value: values[i], After: after}
			}
		}
		done, attempt = done+size, 1
	}
	return out
}

// inOrder sorts the items of a batch, and returns the place of each among those given.
func (b *Batcher[T, R]) inOrder(items []T) (sorted []T, places []int) {
	places = make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	if b.o.Order == nil {
		return items, places
	}
	slices.SortStableFunc(places, func(i, j int) int { return b.o.Order(items[i], items[j]) })
	sorted = make([]T, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	return sorted, places
}

// follow runs the hooks of a committed transaction, concurrently with the next batch. The channel
// is closed when they have ended.
func (b *Batcher[T, R]) follow(ctx context.Context, hooks []func(context.Context)) <-chan struct{} {
	if len(hooks) == 0 {
		return nil
	}
	ran := make(chan struct{})
	b.hooks.Go(func() {
		defer close(ran)
		runHooks(ctx, hooks)
	})
	return ran
}

// recovered makes the panic of a batch its error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// rowsFault reports whether one row of a batch may have caused err: the server refuses data, a
// trigger raises an exception, or there is an internal error of the server or of ours. An error
// about the connection, the schema, locks, time or disk space is caused by no row, and neither is a
// commit that may stand.
func rowsFault(err error) bool {
	if errors.As(err, new(mayStand)) {
		return false
	}
	switch code := Code(err); {
	case code != "":
		return IsData(err) || slices.Contains([]string{"P0", "XX", "54"}, code[:2])
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, pgx.ErrTxClosed), pgconn.SafeToRetry(err):
		return false
	}
	var dial net.Error
	var connect *pgconn.ConnectError
	return !errors.As(err, &dial) && !errors.As(err, &connect)
}

// Flat is the result of an item that the rest of its batch may refuse: a [Batcher] of outcomes has
// the items' own errors in them.
func Flat[R any](o batch.Outcome[R], err error) (R, error) {
	if err != nil {
		return o.Value, err
	}
	return o.Value, o.Err
}

// ByID is an order of a batch's items: that of an id of theirs.
func ByID[T any](id func(T) uuid.UUID) func(a, b T) int {
	return func(a, b T) int { return CompareIDs(id(a), id(b)) }
}

// Match returns for each key of a batch what was found for it, or the zero value. If a key is given
// more than once, the first gets it, since only one caller may go on.
func Match[K comparable, V any](keys []K, found []V, key func(V) K) []V {
	byKey := make(map[K]V, len(found))
	for _, v := range found {
		byKey[key(v)] = v
	}
	out := make([]V, len(keys))
	for i, k := range keys {
		out[i] = byKey[k]
		delete(byKey, k)
	}
	return out
}

// Done runs a statement with [Unnest] of the items that returns the numbers (n) of those that it
// changed, and returns of each item whether it is one of them. The arguments before are $1 and on.
func Done[T any](ctx context.Context, tx Tx, items []T, sql string, before ...any) ([]bool, error) {
	numbers, err := Collect(ctx, tx, pgx.RowTo[int], sql, Columns(items, before...)...)
	done := make([]bool, len(items))
	for _, n := range numbers {
		done[n-1] = true
	}
	return done, err
}
