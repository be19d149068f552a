package workers

import (
	"context"

	"github.com/google/uuid"
)

// deliver tells the tenant of a payment.
func (w *Workers) deliver(ctx context.Context, id uuid.UUID) error {
	return w.Webhooks.Deliver(ctx, id)
}
