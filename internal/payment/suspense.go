package payment

import "ajo/ledger"

// suspended are the movements that book the misdirected among the events to the suspense account:
// the wallet has their money, and no tenant. A debit takes assigned ones out again, after which
// they are payments like any.
func suspended(d ledger.Direction, events []*posting) (movements []ledger.Movement) {
	for _, e := range events {
		if !e.assigned && e.result.Category != CategoryMisdirected {
			continue
		}
		movements = append(movements, ledger.Movement{
			Account: ledger.Suspense, Direction: d, Amount: e.Amount.Sub(*e.Fee), Kind: ledger.KindSuspense, Narration: e.result.Reason,
			ProviderTxnRef: e.TxnRef, TransactionGroupID: ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, e.ID),
		})
	}
	return movements
}
