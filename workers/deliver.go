package workers

import (
	"context"

	"github.com/google/uuid"
)

// deliver sends an event to its tenant.
func (w *Workers) deliver(ctx context.Context, id uuid.UUID) error {
	return w.Webhooks.Deliver(ctx, id)
}
