package workers

import (
	"context"

	"github.com/google/uuid"
)

// confirm asks the bank about a posted payment.
func (w *Workers) confirm(ctx context.Context, id uuid.UUID) error {
	return w.Payments.Confirm(ctx, id)
}
