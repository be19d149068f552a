package workers

import (
	"context"

	"github.com/google/uuid"
)

// ingest posts stored events to the ledger.
func (w *Workers) ingest(ctx context.Context, ids []uuid.UUID, done func(i int, err error)) {
	for i, p := range w.Payments.PostAll(ctx, ids) {
		done(i, p.Err)
	}
}
