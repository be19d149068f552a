package pg

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
)

// Batcher takes the items of all callers that wait, works on them in one transaction, and gives
// each caller its own result. A commit costs the same for one row as for a hundred. It never waits
// for more callers: a lone item goes at once, and the next batch is what came meanwhile.
//
// Its transaction has the settings of plans.go. One bad item does not fail its neighbours: what the
// server refuses, or fails for a reason that may be one row's, is done again item by item. The two
// failpoints are Name:before-commit and Name:after-commit. One without a name cannot write.
type Batcher[T, R any] struct {
	pool  *Pool
	o     BatchOptions[T]
	do    func(ctx context.Context, tx Tx, items []T) ([]R, error)
	calls *batch.Coalescer[T, committed[R]]
	hooks sync.WaitGroup
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
}

// committed is a caller's result, and what is still to be waited for.
type committed[R any] struct {
	value R
	hooks chan struct{} // closed when all has run that follows the commit; nil: nothing does
}

// NewBatcher starts a batcher. do works on all items in the transaction, in the order of the
// options, and returns one result each. As with [InTx] it may be called again, with all items or
// with one of them, so it must have no effect outside the transaction but by [Tx.AfterCommit]. An
// error, or a panic, fails all that it was given; a refusal of one item is part of its result.
// Close the batcher to stop it.
func NewBatcher[T, R any](pool *Pool, o BatchOptions[T], do func(ctx context.Context, tx Tx, items []T) ([]R, error)) *Batcher[T, R] {
	b := &Batcher[T, R]{pool: pool, o: o, do: do}
	b.calls = batch.New(max(o.Writers, 1), o.Max, b.run)
	return b
}

// Do hands item over and waits for its result. When ctx ends first its error is returned, and the
// item may still be done: callers treat it like a lost answer.
func (b *Batcher[T, R]) Do(ctx context.Context, item T) (R, error) {
	o := b.DoAll(ctx, []T{item})[0]
	return o.Value, o.Err
}

// DoAll hands all items over and waits for their results, in the items' order.
func (b *Batcher[T, R]) DoAll(ctx context.Context, items []T) []batch.Outcome[R] {
	return results(ctx, b.calls.DoAll(ctx, items))
}

// Together does the items as one batch, at once and beside the others, however many they are.
func (b *Batcher[T, R]) Together(ctx context.Context, items []T) []batch.Outcome[R] {
	return results(ctx, b.run(ctx, items))
}

// results waits for what follows the commits.
func results[R any](ctx context.Context, all []batch.Outcome[committed[R]]) []batch.Outcome[R] {
	out := make([]batch.Outcome[R], len(all))
	for i, o := range all {
		if out[i] = (batch.Outcome[R]{Value: o.Value.value, Err: o.Err}); o.Value.hooks == nil {
			continue
		}
		select {
		case <-o.Value.hooks:
		case <-ctx.Done(): // the result stands
		}
	}
	return out
}

// Close refuses new items, and returns when those that were taken are done.
func (b *Batcher[T, R]) Close() {
	b.calls.Close()
	b.hooks.Wait()
}

// run does one batch in the options' order.
func (b *Batcher[T, R]) run(ctx context.Context, items []T) []batch.Outcome[committed[R]] {
	if b.o.Order == nil || len(items) == 1 {
		return isolate(items, func(items []T) ([]batch.Outcome[committed[R]], error) { return b.commit(ctx, items) })
	}
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(i, j int) int { return b.o.Order(items[i], items[j]) })
	sorted := make([]T, len(items))
	for i, place := range places {
		sorted[i] = items[place]
	}
	out := make([]batch.Outcome[committed[R]], len(items))
	for i, o := range isolate(sorted, func(items []T) ([]batch.Outcome[committed[R]], error) { return b.commit(ctx, items) }) {
		out[places[i]] = o
	}
	return out
}

// commit does the items in one transaction. What follows the commit runs beside the next batch.
func (b *Batcher[T, R]) commit(ctx context.Context, items []T) ([]batch.Outcome[committed[R]], error) {
	var values []R
	begin := beginBatch
	if b.o.Name == "" {
		begin = beginReading
	}
	hooks, err := inTx(ctx, b.pool, pgx.TxOptions{BeginQuery: begin}, func(tx Tx) (err error) {
		if values, err = b.do(ctx, tx, items); err != nil {
			return err
		}
		if len(values) != len(items) {
			return fmt.Errorf("batch %s: %d results for %d items", b.o.Name, len(values), len(items))
		}
		failpoint.BeforeCommit(b.o.Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	failpoint.AfterCommit(b.o.Name)
	var ran chan struct{}
	if len(hooks) > 0 {
		ran = make(chan struct{})
		b.hooks.Go(func() {
			defer close(ran)
			runHooks(ctx, hooks)
		})
	}
	out := make([]batch.Outcome[committed[R]], len(items))
	for i, v := range values {
		out[i].Value = committed[R]{v, ran}
	}
	return out, nil
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

// Match gives each key of a batch what was found for it, and the zero value to one for which
// nothing was. Of a key that is named more than once the first has it: only one caller may go on.
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
