package payment

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/ledger"
)

// holdAgain opens the watched recalls of findings again, with their sums: the bank's own record has
// changed, so its event may be true. The caller has locked the payments and their balances.
func holdAgain(ctx context.Context, tx pg.Tx, now time.Time, findings []*finding) error {
	if len(findings) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(findings))
	for i, f := range findings {
		ids[i] = f.ID
	}
	held, err := ledger.HoldRecalled(ctx, tx, now, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		tag, err := tx.Exec(ctx, `
			UPDATE recalls SET status = 'open', source = $3, held = $2, successes = 0, opened_count = opened_count + 1, opened_at = $4, closed_at = NULL,
				opened_before = opened_before || opened_at
			WHERE event_id = $1 AND status = 'watched'`, id, held[id].Amount, RecallByReconciliation, now)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("payment: the recall of event %s was decided without its event's lock", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RecallTakenBack is [Service.OpenRecall] of a payment that the bank's own record says was taken
// back, unless that was a part of it, and the books count the rest: stands is true then.
func (s *Service) RecallTakenBack(ctx context.Context, record provider.Transaction) (stands bool, err error) {
	if stands, err = s.countsRest(ctx, record); err == nil && !stands {
		_, err = s.OpenRecall(ctx, record.ID, RecallByReconciliation)
	}
	return stands, err
}
