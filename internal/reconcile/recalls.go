package reconcile

import (
	"context"

	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/ledger"
)

// openListed opens a recall of each payment that counts in the books and that the bank lists as
// failed or given back: the list is believed no more than an event, so the sum is held and the bank
// is asked. A payment that a person has dismissed, or that this run has not asked about, gets no
// recall.
func (r *comparison) openListed(ctx context.Context) error {
	for _, it := range r.items { // the report may not list them all
		x := it.exception
		if x == nil || x.Kind != Contradicts || it.kept || it.dismissed {
			continue
		}
		takenBack := x.BankStatus == string(provider.Refunded) || x.BankStatus == string(provider.Failed)
		counts := x.EntryStatus == ledger.Provisional || x.EntryStatus == ledger.Confirmed
		if !takenBack || !counts {
			continue
		}
		if _, err := r.payments.OpenRecall(ctx, it.ref, payment.RecallByReconciliation); err != nil {
			return err
		}
		if err := r.extend(ctx); err != nil {
			return err
		}
	}
	return nil
}
