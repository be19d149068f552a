// Package batch makes one write of many callers' small ones ("natural batching").
//
// A [Coalescer] takes all that wait, hands them to one function, and gives each caller its own
// outcome. It never waits for company: a lone call goes at once, and the next batch is whatever
// arrived while the last one was being written. Before that it yields the processor, so that on a
// busy one those who are about to hand something over do so first.
package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed says that the coalescer takes no more work.
var ErrClosed = errors.New("batch: closed")

// timeout bounds one batch. It lies above Postgres' own limit for a statement (package pg), which
// ends it without losing the connection; it is for a server that does not answer at all.
const timeout = 20 * time.Second

// Outcome is the result of one item of a batch.
type Outcome[R any] struct {
	Value R
	Err   error
	// After is closed when what follows the write is done: the caller waits for it, and the next
	// batch does not. Nil: nothing follows.
	After <-chan struct{}
}

// Func does a whole batch. It returns one outcome an item, in the items' order; a panic or a wrong
// length is a bug. Its context ends after 20 s, and not with a caller's: one that goes away does
// not take its neighbours' work along.
type Func[T, R any] func(ctx context.Context, items []T) []Outcome[R]

// Coalescer collects items and writes them in batches of at most max, with a fixed number of
// writers at work.
type Coalescer[T, R any] struct {
	do     Func[T, R]
	max    int
	in     chan call[T, R]
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.RWMutex
	closed bool
}

type call[T, R any] struct {
	item T
	of   *group[R]
	at   int // its place in the group
}

// group is the items that one caller waits for. Its outcomes are the caller's when done is closed,
// and nobody's before.
type group[R any] struct {
	out  []Outcome[R]
	left atomic.Int64
	done chan struct{}
}

// less counts items that have their outcome.
func (g *group[R]) less(n int) {
	if g.left.Add(-int64(n)) == 0 {
		close(g.done)
	}
}

// New starts a coalescer with the given number of writers and the largest batch. Close it to stop
// the writers.
func New[T, R any](writers, max int, do Func[T, R]) *Coalescer[T, R] {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Coalescer[T, R]{do: do, max: max, in: make(chan call[T, R], max*writers), ctx: ctx, cancel: cancel}
	for range writers {
		c.wg.Add(1)
		go c.write()
	}
	return c
}

// Do hands item over and waits for its outcome. When ctx ends first its error is returned, and the
// item may still be done: callers treat it like a lost answer.
func (c *Coalescer[T, R]) Do(ctx context.Context, item T) (value R, err error) {
	g := c.handOver(ctx, item)
	select {
	case <-g.done:
		o := Await(ctx, g.out)[0]
		return o.Value, o.Err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// Waiting counts the items that were handed over and that no writer has taken up yet.
func (c *Coalescer[T, R]) Waiting() int { return len(c.in) }

// DoAll hands all items over and waits for their outcomes, in the items' order. When ctx ends
// first, its error is that of each. An item that could not be handed over has that as its error.
func (c *Coalescer[T, R]) DoAll(ctx context.Context, items []T) []Outcome[R] {
	g := c.handOver(ctx, items...)
	select {
	case <-g.done:
		return Await(ctx, g.out)
	case <-ctx.Done():
		out := make([]Outcome[R], len(items))
		for i := range out {
			out[i].Err = ctx.Err()
		}
		return out
	}
}

// handOver gives the items to the writers, as one group.
func (c *Coalescer[T, R]) handOver(ctx context.Context, items ...T) *group[R] {
	g := &group[R]{out: make([]Outcome[R], len(items)), done: make(chan struct{})}
	g.left.Store(int64(len(items)) + 1) // the caller is one of those that it waits for
	refused := 1
	c.mu.RLock()
	for i, item := range items {
		if c.closed {
			g.out[i].Err = ErrClosed
			refused++
			continue
		}
		select {
		case c.in <- call[T, R]{item, g, i}:
		case <-ctx.Done():
			g.out[i].Err = ctx.Err()
			refused++
		}
	}
	c.mu.RUnlock()
	g.less(refused)
	return g
}

// Await waits for what follows the outcomes' writes. When ctx ends first, the outcomes stand.
func Await[R any](ctx context.Context, out []Outcome[R]) []Outcome[R] {
	for i := range out {
		if out[i].After == nil {
			continue
		}
		select {
		case <-out[i].After:
		case <-ctx.Done():
		}
		out[i].After = nil
	}
	return out
}

// Close refuses new items, finishes those that were taken, and returns when the writers have
// stopped.
func (c *Coalescer[T, R]) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.in)
	}
	c.mu.Unlock()
	c.wg.Wait()
	c.cancel()
}

func (c *Coalescer[T, R]) write() {
	defer c.wg.Done()
	calls := make([]call[T, R], 0, c.max)
	items := make([]T, 0, c.max)
	for first := range c.in {
		calls, items = append(calls[:0], first), append(items[:0], first.item)
		yielded := false
	gather:
		for len(calls) < c.max {
			select {
			case k, ok := <-c.in:
				if !ok {
					break gather
				}
				calls, items, yielded = append(calls, k), append(items, k.item), false
			default:
				if yielded {
					break gather
				}
				yielded = true
				runtime.Gosched()
			}
		}
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		for i, o := range c.do(ctx, items) {
			k := calls[i]
			k.of.out[k.at] = o
			k.of.less(1)
		}
		clear(calls) // what was waited for is not kept until the next batch overwrites it
		clear(items)
		cancel()
	}
}
