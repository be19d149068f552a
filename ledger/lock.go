package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
)

// The locks of balances. For their place among others see docs/architecture.md, Lock order.

// lockPosted locks the balances of the accounts that the postings name.
func lockPosted(ctx context.Context, tx pg.Tx, postings []Posting) (book, error) {
	ids := make([]uuid.UUID, len(postings))
	for i, p := range postings {
		ids[i] = p.AccountID
	}
	return lockTotals(ctx, tx, ids)
}

// lockTotals locks the balance rows of the accounts, in the order of their ids. Settlements of one
// account, and all else that changes its balance, wait for each other here.
func lockTotals(ctx context.Context, tx pg.Tx, accounts []uuid.UUID) (book, error) {
	ids := slices.Clone(accounts)
	slices.SortFunc(ids, pg.CompareIDs)
	ids = slices.Compact(ids)
	return readTotals(pg.Rows(ctx, tx, selectTotals+` WHERE account_id = ANY($1) ORDER BY account_id FOR NO KEY UPDATE`, ids))
}

// lockTotal locks the balance row of one account.
func lockTotal(ctx context.Context, tx pg.Tx, account uuid.UUID) (*totals, error) {
	b, err := lockTotals(ctx, tx, []uuid.UUID{account})
	if err != nil {
		return nil, err
	}
	return b.of(account)
}

// LockBalances locks the balances of accounts, for a caller that changes them in several steps.
func LockBalances(ctx context.Context, tx pg.Tx, accounts []uuid.UUID) error {
	_, err := lockTotals(ctx, tx, accounts)
	return err
}

// LockAvailable locks the balance of an account, so that nothing else changes what may leave it
// until the transaction ends, and ends the holds whose until has passed. A caller that needs
// several tables to decide what may leave reads them after this call, and then takes no lock that
// comes before balances.
func LockAvailable(ctx context.Context, tx pg.Tx, now time.Time, account uuid.UUID) error {
	b, err := lockTotals(ctx, tx, []uuid.UUID{account})
	if err != nil {
		return err
	}
	if _, err := b.of(account); err != nil {
		return err
	}
	return b.endHolds(ctx, tx, now)
}
