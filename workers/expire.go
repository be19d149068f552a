package workers

import (
	"context"

	"github.com/google/uuid"
)

// expire ends a one-time account at its deadline, and closes an expired account at the bank.
func (w *Workers) expire(ctx context.Context, id uuid.UUID) error {
	return w.Accounts.AdvanceExpiry(ctx, id)
}
