package payment

import "ajo/ledger"

// suspended returns the movements that book the misdirected events to the suspense account, since
// the wallet has their money and no tenant does. A debit takes assigned ones out again; after that
// they are ordinary payments.
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
