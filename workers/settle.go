package workers

import (
	"context"

	"github.com/google/uuid"
)

// settle does the next step of a transfer.
func (w *Workers) settle(ctx context.Context, id uuid.UUID) error {
	return w.Transfers.Advance(ctx, id)
}
