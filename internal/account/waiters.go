package account

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// waiters are the callers of this process who wait for another one to open their reference. One of
// them at a time asks the database whether that has happened: each time locks the customer's row,
// and many callers would take all connections for that, and keep them from all other tenants.
type waiters struct {
	mu    sync.Mutex
	turns map[waitedFor]*waitTurn
}

type waitedFor struct {
	tenantID uuid.UUID
	ref      string
}

type waitTurn struct {
	taken   chan struct{}
	callers int
}

// enter waits for the caller's turn, which leave ends. [ErrBusy] when its time has ended before.
func (w *waiters) enter(ctx context.Context, of waitedFor) (leave func(), err error) {
	w.mu.Lock()
	t := w.turns[of]
	if t == nil {
		t = &waitTurn{taken: make(chan struct{}, 1)}
		w.turns[of] = t
	}
	t.callers++
	w.mu.Unlock()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; w.quit(of, t) }, nil
	case <-ctx.Done():
		w.quit(of, t)
		return nil, ErrBusy
	}
}

func (w *waiters) quit(of waitedFor, t *waitTurn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.callers--; t.callers == 0 {
		delete(w.turns, of)
	}
}
