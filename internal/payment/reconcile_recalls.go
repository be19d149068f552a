package payment

import (
	"context"

	"ajo/internal/provider"
	"ajo/ledger"
)

// openListed opens a recall of each payment that counts in the books and that the bank lists as failed or given back: the list is no
// more believed than an event, so the sum is held and the bank is asked. The sweeper finds what is due.
func (r *run) openListed(ctx context.Context) error {
	for _, x := range r.report.Exceptions {
		takenBack := x.BankStatus == string(provider.Refunded) || x.BankStatus == string(provider.Failed)
		counts := x.EntryStatus == ledger.Provisional || x.EntryStatus == ledger.Confirmed
		if x.Kind != Contradicts || !takenBack || !counts {
			continue
		}
		if _, err := r.OpenRecall(ctx, x.ProviderTxnRef, RecallByReconciliation); err != nil {
			return err
		}
	}
	return nil
}
