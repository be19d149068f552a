package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/batch"
	"ajo/internal/testenv"
)

// double doubles each number, refuses 13, and records the sizes of its batches.
type double struct {
	mu    sync.Mutex
	sizes []int
	gate  chan struct{} // nil: open
}

func (d *double) do(_ context.Context, items []int) []batch.Outcome[int] {
	d.mu.Lock()
	d.sizes = append(d.sizes, len(items))
	d.mu.Unlock()
	if d.gate != nil {
		<-d.gate
	}
	out := make([]batch.Outcome[int], len(items))
	for i, n := range items {
		if n == 13 {
			out[i].Err = errors.New("unlucky")
			continue
		}
		out[i].Value = 2 * n
	}
	return out
}

// taken counts the items of the batches that were begun.
func (d *double) taken() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, size := range d.sizes {
		n += size
	}
	return n
}

func TestEachCallerGetsItsOwnOutcome(t *testing.T) {
	t.Parallel()
	d := &double{}
	c := batch.New(2, 10, d.do)
	defer c.Close()
	testenv.AtOnce(200, func(n int) {
		v, err := c.Do(context.Background(), n)
		if n == 13 {
			if err == nil {
				t.Error("13 was not refused")
			}
			return
		}
		if err != nil || v != 2*n {
			t.Errorf("%d: %d, %v", n, v, err)
		}
	})
}

// A lone call goes at once; those that arrive while it is written share the next batch, up to the
// largest.
func TestCallsThatWaitShareABatch(t *testing.T) {
	t.Parallel()
	d := &double{gate: make(chan struct{})}
	c := batch.New(1, 50, d.do)
	defer c.Close()
	var started, wg sync.WaitGroup
	call := func(n int) {
		started.Add(1)
		wg.Go(func() {
			started.Done()
			if _, err := c.Do(context.Background(), n); err != nil {
				t.Error(err)
			}
		})
	}
	call(0)
	d.gate <- struct{}{} // the first batch is written alone
	wg.Wait()
	items := make([]int, 49)
	done := make(chan []batch.Outcome[int])
	call(1)
	go func() { done <- c.DoAll(context.Background(), items) }()
	testenv.Eventually(t, 10*time.Second, "all calls to have been handed over", func() bool { return d.taken()+c.Waiting() == 51 })
	close(d.gate)
	wg.Wait()
	require.Len(t, <-done, 49)
	d.mu.Lock()
	defer d.mu.Unlock()
	require.LessOrEqual(t, len(d.sizes), 3, "the first, the lone one that was taken up at once, and all the others")
	require.Equal(t, 1, d.sizes[0])
}

func TestDoAllKeepsOrder(t *testing.T) {
	t.Parallel()
	c := batch.New(2, 7, (&double{}).do)
	defer c.Close()
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	for i, o := range c.DoAll(context.Background(), items) {
		require.Equal(t, i == 13, o.Err != nil)
		if i != 13 {
			require.Equal(t, 2*i, o.Value)
		}
	}
}

// A caller that goes away gets its context's error; its neighbours are done.
func TestCallerThatGoesAway(t *testing.T) {
	t.Parallel()
	d := &double{gate: make(chan struct{})}
	c := batch.New(1, 10, d.do)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() { _, err := c.Do(ctx, 1); first <- err }()
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(d.gate)
	v, err := c.Do(context.Background(), 4)
	require.NoError(t, err)
	require.Equal(t, 8, v)
	c.Close()
}

// Close finishes what was taken, and refuses what comes after it.
func TestClose(t *testing.T) {
	t.Parallel()
	var done atomic.Int32
	c := batch.New(2, 10, func(_ context.Context, items []int) []batch.Outcome[int] {
		done.Add(int32(len(items)))
		return make([]batch.Outcome[int], len(items))
	})
	var accepted atomic.Int32
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			switch _, err := c.Do(context.Background(), n); {
			case err == nil:
				accepted.Add(1)
			case !errors.Is(err, batch.ErrClosed):
				t.Error(err)
			}
		})
	}
	c.Close()
	wg.Wait()
	require.Equal(t, accepted.Load(), done.Load())
	_, err := c.Do(context.Background(), 1)
	require.ErrorIs(t, err, batch.ErrClosed)
	c.Close()
}

func BenchmarkCoalescer(b *testing.B) {
	for _, writers := range []int{1, 2} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			c := batch.New(writers, 100, (&double{}).do)
			defer c.Close()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = c.Do(context.Background(), 1)
				}
			})
		})
	}
}
