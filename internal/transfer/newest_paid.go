package transfer

import (
	"context"

	"ajo/internal/pg"
	"ajo/internal/provider"
)

// newestPaidSQL reads a bounded number of the newest transfers.
const newestPaidSQL = `SELECT merchant_tx_ref, bank_code, account_number
	FROM (SELECT id, status, merchant_tx_ref, bank_code, account_number FROM transfers ORDER BY id DESC LIMIT 5000) t
	WHERE status = 'success' ORDER BY id DESC LIMIT 1`

// KnownPayout returns the reference of the newest transfer that the bank has certainly paid; empty
// if there is none.
func KnownPayout(ctx context.Context, q pg.Querier) (string, error) {
	ref, _, err := newestPaid(ctx, q)
	return ref, err
}

// KnownDestination returns an account that the bank certainly knows, because it has been paid; the
// zero value if there is none.
func KnownDestination(ctx context.Context, q pg.Querier) (provider.Destination, error) {
	_, to, err := newestPaid(ctx, q)
	return to, err
}

func newestPaid(ctx context.Context, q pg.Querier) (ref string, to provider.Destination, err error) {
	err = q.QueryRow(ctx, newestPaidSQL).Scan(&ref, &to.BankCode, &to.AccountNumber)
	if pg.IsNoRows(err) {
		err = nil
	}
	return ref, to, err
}
