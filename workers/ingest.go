package workers

import (
	"context"

	"github.com/google/uuid"

	"ajo/internal/trace"
	"ajo/tasks"
)

// ingest posts a stored event to the ledger, and rings what follows from it.
func (w *Workers) ingest(ctx context.Context, id uuid.UUID) error {
	p, err := w.Payments.Post(ctx, id)
	if err != nil {
		return err
	}
	ctx = trace.Within(ctx, p.Trace)
	if p.Delivery != nil {
		w.Enqueuer.Now(ctx, tasks.Deliver, *p.Delivery)
	}
	if !p.ConfirmAt.IsZero() {
		w.Enqueuer.At(ctx, tasks.Confirm, p.ConfirmAt, id)
	}
	if p.Expired != nil {
		w.Enqueuer.Alone(ctx, tasks.Expire, w.Clock.Now(), *p.Expired)
	}
	return nil
}
