package payment

import (
	"context"
	"time"

	"ajo/internal/pg"
	"ajo/ledger"
)

// suspend books the misdirected among the events to the suspense account: the wallet has their
// money, and no tenant. A debit takes assigned ones out again, after which they are payments like
// any. It comes after the credits of the transaction, since system accounts are locked last.
func suspend(ctx context.Context, tx pg.Tx, now time.Time, d ledger.Direction, events []*posting) error {
	var movements []ledger.Movement
	for _, e := range events {
		if !e.assigned && e.result.Category != CategoryMisdirected {
			continue
		}
		movements = append(movements, ledger.Movement{
			Account: ledger.Suspense, Direction: d, Amount: e.Amount.Sub(*e.Fee), Kind: ledger.KindSuspense, Narration: e.result.Reason,
			ProviderTxnRef: e.TxnRef, TransactionGroupID: ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, e.ID),
		})
	}
	return ledger.PostMovements(ctx, tx, now, movements)
}
