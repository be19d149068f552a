package workers

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/trace"
	"ajo/tasks"
)

// ingest posts stored events to the ledger, and enqueues what follows from them.
func (w *Workers) ingest(ctx context.Context, ids []uuid.UUID, done func(i int, err error)) {
	confirm := map[time.Time][]uuid.UUID{} // by their time: of one batch it is the same
	posted := w.Payments.PostAll(ctx, ids)
	if len(ids) == 1 {
		ctx = trace.Within(ctx, posted[0].Value.Trace)
	}
	for i, p := range posted {
		if at := p.Value.ConfirmAt; !at.IsZero() {
			confirm[at] = append(confirm[at], ids[i])
		}
	}
	for at, ids := range confirm {
		w.Enqueuer.At(ctx, tasks.Confirm, at, ids...)
	}
	for i, p := range posted {
		done(i, p.Err)
	}
}
