// Package batch makes one write of many callers' small ones ("natural batching").
//
// A [Coalescer] takes all that wait, hands them to one function, and gives each caller its own outcome. It never waits
// for company: a lone call goes at once, and the next batch is whatever arrived while the last one was being written.
package batch

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed says that the coalescer takes no more work.
var ErrClosed = errors.New("batch: closed")

// Outcome is what one item of a batch came to.
type Outcome[R any] struct {
	Value R
	Err   error
}

// Func does a whole batch. It returns one outcome an item, in the items' order; a panic or a wrong length is a bug.
// Its context is the coalescer's: a caller that goes away does not take its neighbours' work along.
type Func[T, R any] func(ctx context.Context, items []T) []Outcome[R]

// Coalescer collects items and writes them in batches of at most max, with a fixed number of writers at work.
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
	out  chan Outcome[R]
}

// New starts a coalescer with the given number of writers and the largest batch. Close it to stop the writers.
func New[T, R any](writers, max int, do Func[T, R]) *Coalescer[T, R] {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Coalescer[T, R]{do: do, max: max, in: make(chan call[T, R], max*writers), ctx: ctx, cancel: cancel}
	for range writers {
		c.wg.Add(1)
		go c.write()
	}
	return c
}

// Do hands item over and waits for its outcome. When ctx ends first its error is returned, and the item may still be
// done: callers treat it like a lost answer.
func (c *Coalescer[T, R]) Do(ctx context.Context, item T) (R, error) {
	var zero R
	k := call[T, R]{item: item, out: make(chan Outcome[R], 1)}
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return zero, ErrClosed
	}
	select {
	case c.in <- k:
		c.mu.RUnlock()
	case <-ctx.Done():
		c.mu.RUnlock()
		return zero, ctx.Err()
	}
	select {
	case o := <-k.out:
		return o.Value, o.Err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// Close refuses new items, finishes those that were taken, and returns when the writers have stopped.
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
	gather:
		for len(calls) < c.max {
			select {
			case k, ok := <-c.in:
				if !ok {
					break gather
				}
				calls, items = append(calls, k), append(items, k.item)
			default:
				break gather
			}
		}
		for i, o := range c.do(c.ctx, items) {
			calls[i].out <- o
		}
	}
}
