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
	var tell []uuid.UUID
	confirm := map[time.Time][]uuid.UUID{} // by their time: of one batch it is the same
	var expire []uuid.UUID
	posted := w.Payments.PostAll(ctx, ids)
	if len(ids) == 1 {
		ctx = trace.Within(ctx, posted[0].Value.Trace)
	}
	for i, p := range posted {
		if p.Value.Delivery != nil {
			tell = append(tell, *p.Value.Delivery)
		}
		if at := p.Value.ConfirmAt; !at.IsZero() {
			confirm[at] = append(confirm[at], ids[i])
		}
		if p.Value.Expired != nil {
			expire = append(expire, *p.Value.Expired)
		}
	}
	w.Enqueuer.Now(ctx, tasks.Deliver, tell...)
	for at, ids := range confirm {
		w.Enqueuer.At(ctx, tasks.Confirm, at, ids...)
	}
	for _, id := range expire {
		w.Enqueuer.Alone(ctx, tasks.Expire, w.Clock.Now(), id)
	}
	for i, p := range posted {
		done(i, p.Err)
	}
}
