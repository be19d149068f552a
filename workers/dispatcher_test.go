package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/tasks"
)

// watched is a dispatcher whose work ends when the test says so.
type watched struct {
	*dispatcher
	mu    sync.Mutex
	begun []uuid.UUID // tenants, as their items got slots
	goOn  chan struct{}
}

func newWatched(k tasks.Kind, slots int) *watched {
	w := &watched{goOn: make(chan struct{})}
	w.dispatcher = newDispatcher(k, slots, func(ctx context.Context, ids []uuid.UUID) func(int) error {
		w.mu.Lock()
		for range ids {
			w.begun = append(w.begun, provider.TenantOf(ctx))
		}
		w.mu.Unlock()
		return func(i int) error {
			if i == 0 || k != tasks.Ingest { // whose items are worked on together
				<-w.goOn
			}
			return nil
		}
	}, clock.System, slog.New(slog.NewTextHandler(io.Discard, nil)))
	return w
}

// takes takes up items of a tenant, as a task does, and returns how many there was room for.
func (w *watched) takes(t *testing.T, tenant uuid.UUID, n int, ended func(error)) int {
	items := make([]taskItem, n)
	for i := range items {
		items[i] = taskItem{i, uuid.New()}
	}
	in := w.admit(tenant, n)
	if in > 0 {
		go w.do(t.Context(), tenant, items[:in], func(_ int, err error) { ended(err) })
	}
	return in
}

// line counts the items that wait for a slot, and for how many more there is room.
func (w *watched) line() (waiting, room int) {
	w.dispatcher.mu.Lock()
	defer w.dispatcher.mu.Unlock()
	for _, s := range w.turns {
		for _, other := range s.waiting {
			waiting += other.want
		}
	}
	return waiting, w.room
}

func (w *watched) of(tenants ...uuid.UUID) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tenant := range w.begun {
		if slices.Contains(tenants, tenant) {
			n++
		}
	}
	return n
}

// Whatever a worker asks the bank waits for its turn there, however much of its tenant does.
func TestWorkIsPatient(t *testing.T) {
	t.Parallel()
	var patient bool
	d := newDispatcher(tasks.Settle, 1, each(func(ctx context.Context, _ uuid.UUID) error {
		patient = provider.IsPatient(ctx)
		return nil
	}), clock.System, slog.New(slog.NewTextHandler(io.Discard, nil)))
	tenant := uuid.New()
	require.Equal(t, 1, d.admit(tenant, 1))
	d.do(t.Context(), tenant, []taskItem{{0, uuid.New()}}, func(_ int, err error) { require.NoError(t, err) })
	require.True(t, patient)

	ctx, end := context.WithCancel(t.Context())
	(&Workers{}).repeat(ctx, time.Hour, func(ctx context.Context) { // a reconciliation
		patient = !provider.IsPatient(ctx)
		end()
	})
	require.False(t, patient)
}

// A tenant with much to do has nearly all slots while it is alone, and a hundred that join it have
// theirs before it has another one. What it has no room for is not taken up, of one that joins it
// is.
func TestSlotsAreGivenInTurn(t *testing.T) {
	t.Parallel()
	for _, kind := range tasks.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWatched(kind, 64)
			w.room = 512
			noisy, quiet := uuid.New(), make([]uuid.UUID, 100)
			var ended sync.WaitGroup
			fine := func(err error) {
				if err != nil {
					t.Error(err)
				}
				ended.Done()
			}
			ended.Add(256 + 2*len(quiet))
			require.Equal(t, 256, w.takes(t, noisy, 10_000, fine), "half of the room")
			require.Zero(t, w.takes(t, noisy, 1, fine), "what comes for it goes behind what did not fit")
			testenv.Eventually(t, 10*time.Second, "seven slots of eight", func() bool { return w.of(noisy) == 56 })
			for i := range quiet {
				quiet[i] = uuid.New()
				require.Equal(t, 2, w.takes(t, quiet[i], 2, fine))
			}
			testenv.Eventually(t, 10*time.Second, "the other slots", func() bool { return w.of(quiet...) == 8 })
			require.Equal(t, 56, w.of(noisy))
			testenv.Eventually(t, 10*time.Second, "all to stand in line", func() bool { waiting, _ := w.line(); return waiting == 256+2*len(quiet)-64 })
			for slices.ContainsFunc(quiet, func(tenant uuid.UUID) bool { return w.of(tenant) == 0 }) {
				_, room := w.line()
				w.goOn <- struct{}{}
				testenv.Eventually(t, 10*time.Second, "one to end, and another to begin", func() bool {
					waiting, now := w.line()
					return now > room && w.of(append(quiet, noisy)...)+waiting == 256+2*len(quiet)
				})
			}
			require.LessOrEqual(t, w.of(noisy), 56+8, "when each has had a turn, the noisy one has had few")
			close(w.goOn)
			ended.Wait()
			testenv.Eventually(t, 10*time.Second, "all is given back", func() bool {
				w.dispatcher.mu.Lock()
				defer w.dispatcher.mu.Unlock()
				return w.free == 64 && w.room == 512 && len(w.tenants) == 0 && len(w.turns) == 0
			})
		})
	}
}

// A noisy tenant leaves a slot to who comes, and a dispatcher of one slot serves all the same.
func TestASlotIsLeft(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 3, 4, 8, 64, 256} {
		w := newWatched(tasks.Settle, slots)
		if noisy := uuid.New(); slots > 1 {
			require.Positive(t, w.takes(t, noisy, 10_000, func(error) {}))
			testenv.Eventually(t, 10*time.Second, "its slots", func() bool { return w.of(noisy) >= slots/2 })
		}
		quiet := uuid.New()
		require.Equal(t, 1, w.takes(t, quiet, 1, func(error) {}), "%d slots", slots)
		testenv.Eventually(t, 10*time.Second, "a slot", func() bool { return w.of(quiet) == 1 })
		close(w.goOn)
	}
}

// The items of a tenant are begun in their order, over tasks, and though others come between.
func TestATenantsItemsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var begun, want []uuid.UUID
	d := newDispatcher(tasks.Deliver, 8, each(func(_ context.Context, id uuid.UUID) error {
		mu.Lock()
		defer mu.Unlock()
		begun = append(begun, id)
		return nil
	}), clock.System, slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.free = 0 // until all wait
	tenant := uuid.New()
	var all sync.WaitGroup
	for n := range 4 {
		items := make([]taskItem, 4)
		for i := range items {
			items[i] = taskItem{i, uuid.New()}
			want = append(want, items[i].id)
		}
		require.Equal(t, 4, d.admit(tenant, 4))
		all.Go(func() { d.do(t.Context(), tenant, items, func(int, error) {}) })
		testenv.Eventually(t, 10*time.Second, "the task to wait", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.share(tenant).waiting) == n+1
		})
	}
	d.leave(uuid.New(), 0, 1) // one slot, so that one comes after the other
	all.Wait()
	require.Equal(t, want, begun)
}

// What waits for a slot, or for room, when its time ends, or the worker stops, comes back, by
// Postgres' clock, whatever this machine's says, and leaves nothing behind.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{false, true} {
		now := time.Now().Add(-10 * time.Minute)
		d := newDispatcher(tasks.Deliver, 1, each(func(context.Context, uuid.UUID) error { return nil }), clock.NewFake(now), slog.New(slog.NewTextHandler(io.Discard, nil)))
		d.free = 0
		tenant := uuid.New()
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, 2, d.admit(tenant, 2))
		var errs []error
		done := make(chan struct{})
		go func() {
			d.do(ctx, tenant, []taskItem{{0, uuid.New()}, {1, uuid.New()}}, func(_ int, err error) { errs = append(errs, err) })
			close(done)
		}()
		if stop {
			d.close()
		} else {
			cancel()
		}
		<-done
		cancel()
		require.Len(t, errs, 2)
		again := now // another worker may have it at once
		if !stop {
			again = now.Add(unexpectedDelay)
		}
		d.room = 0
		_, err := d.await(ctx, uuid.New(), 1)
		d.room = tasks.Specs[tasks.Deliver].Room
		for _, err := range append(errs, err) {
			at, ok := retry.When(err)
			require.True(t, ok, err)
			require.WithinDuration(t, again, at, time.Millisecond)
		}
		require.Empty(t, d.tenants)
		require.Empty(t, d.turns)
		require.Equal(t, tasks.Specs[tasks.Deliver].Room, d.room)
		_, err = d.await(ctx, tenant, 20)
		require.NoError(t, err, "there is room")
	}
}

// What a tenant has no room for goes to the slow queue, in its order, and so does what comes after
// it, until the queue has been worked off; others' items of the same task are worked on at once.
func TestTheSlowQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opts.Queues = map[tasks.Kind]int{}
	noisy, quiet := uuid.New(), uuid.New()
	var mu sync.Mutex
	var begun []uuid.UUID
	goOn := make(chan struct{})
	w := &Workers{Options: b.opts}
	d := newDispatcher(tasks.Deliver, 2, each(func(ctx context.Context, id uuid.UUID) error {
		if provider.TenantOf(ctx) == noisy {
			<-goOn
		}
		mu.Lock()
		defer mu.Unlock()
		begun = append(begun, id)
		return nil
	}), w.Clock, w.Log)
	w.dispatchers = []*dispatcher{d}
	var items []work.Item
	for range 40 {
		items = append(items, work.Item{Kind: tasks.Deliver, ID: uuid.New(), TenantID: noisy})
	}
	other := work.Item{Kind: tasks.Deliver, ID: uuid.New(), TenantID: quiet}
	s := w.server(d, string(tasks.Deliver), false)
	require.NoError(t, s.Start(w.handle(d, false)))
	t.Cleanup(s.Shutdown)
	i := asynq.NewInspectorFromRedisClient(b.redis)
	pending := func() (n int) {
		list, err := i.ListPendingTasks(tasks.SlowQueue(tasks.Deliver))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return 0
		}
		require.NoError(t, err)
		for _, task := range list {
			items, err := tasks.Items(asynq.NewTask(task.Type, task.Payload))
			require.NoError(t, err)
			for _, m := range items {
				require.Equal(t, noisy, m.TenantID)
			}
			n += len(items)
		}
		return n
	}
	room := tasks.Specs[tasks.Deliver].Room
	b.opts.Enqueuer.Enqueue(items[:20])
	b.opts.Enqueuer.Flush()
	testenv.Eventually(t, 20*time.Second, "what is above its share to be in the slow queue", func() bool { return pending() == 20-room })
	// the second task has items of both: it ends, as the first has taken the noisy tenant's share
	b.opts.Enqueuer.Enqueue(append([]work.Item{other}, items[20:]...))
	b.opts.Enqueuer.Flush()
	testenv.Eventually(t, 20*time.Second, "the quiet tenant's item", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(begun, []uuid.UUID{other.ID})
	})
	testenv.Eventually(t, 20*time.Second, "all of the second task to be there", func() bool { return pending() == 40-room })
	testenv.Eventually(t, 20*time.Second, "operators to find it once: the task that it came in has ended", func() bool {
		found, all, err := tasks.Find(b.redis, tasks.Deliver, items[39].ID)
		require.NoError(t, err)
		require.True(t, all)
		return len(found) == 1
	})
	require.Equal(t, []uuid.UUID{noisy}, d.inSlow(time.Hour))

	slow := w.server(d, tasks.SlowQueue(tasks.Deliver), true)
	require.NoError(t, slow.Start(w.handle(d, true)))
	t.Cleanup(slow.Shutdown)
	close(goOn)
	testenv.Eventually(t, 20*time.Second, "all", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(begun) == 41
	}, func() any { return fmt.Sprint(len(begun), " of 41") })
	for _, m := range items {
		require.Contains(t, begun, m.ID)
	}
	testenv.Eventually(t, 20*time.Second, "the tenant to be as others again", func() bool { return len(d.inSlow(0)) == 0 })
	require.Equal(t, 1, d.admit(noisy, 1))
}
