package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// LockAccount locks the balance of an account, after which nothing else changes what may leave it
// until the transaction ends, and ends the holds whose time has come by now. Whoever decides by
// several tables what may leave reads them after it. The caller takes no lock afterwards that
// comes before balances.
func LockAccount(ctx context.Context, tx pg.Tx, now time.Time, account uuid.UUID) error {
	b, err := lockTotals(ctx, tx, []uuid.UUID{account})
	if err != nil {
		return err
	}
	if _, err := b.of(account); err != nil {
		return err
	}
	return b.endHolds(ctx, tx, now)
}
