package payment

import (
	"context"

	"github.com/jackc/pgx/v5"

	"ajo/internal/provider"
)

// matchPayouts flags the payouts of one page that moved money and that no transfer accounts for: a transfer is stored before
// the bank is asked to pay, so there must be one, unless it was lost with a database, or somebody else pays from the wallet.
func (r *run) matchPayouts(ctx context.Context, payouts []provider.Payout) error {
	var refs []string
	for _, p := range payouts {
		refs = append(refs, clean(p.Ref))
	}
	if len(refs) == 0 {
		return nil
	}
	rows, err := r.Pool.Query(ctx, `SELECT merchant_tx_ref FROM transfers WHERE merchant_tx_ref = ANY($1)`, refs)
	if err != nil {
		return err
	}
	ours, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	known := make(map[string]struct{}, len(ours))
	for _, ref := range ours {
		known[ref] = struct{}{}
	}
	for _, p := range payouts {
		if _, ok := known[p.Ref]; ok || p.Status == provider.Failed || p.Status == provider.Refunded {
			continue
		}
		known[p.Ref] = struct{}{} // a list that moves while it is read may show a record twice
		r.report.except(Exception{
			Kind: UnknownPayout, ProviderTxnRef: p.ID, MerchantTxRef: p.Ref, AccountNumber: p.AccountNumber, BankStatus: string(p.Status),
			BankAmount: &p.Amount, BankFee: p.Fee, At: &p.Time, Detail: "the bank pays " + p.Ref + ", and no transfer has that reference",
		})
	}
	return nil
}
