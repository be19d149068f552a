package transfer

import (
	"context"

	"ajo/internal/account"
	"ajo/internal/pg"
	"ajo/internal/provider"
)

// newestPaidSQL reads a bounded number of the newest transfers that the bank itself calls paid:
// with $1, only those that left the account at the bank that the books are of; without, only those
// whose destination is known, which that of an adopted one may not be.
const newestPaidSQL = `SELECT merchant_tx_ref, bank_code, account_number
	FROM (SELECT id, status, ended_by, merchant_tx_ref, bank_code, account_number, submitted_at FROM transfers ORDER BY id DESC LIMIT 5000) t
	WHERE status = 'success' AND ended_by <> 'operator' AND ($1 AND submitted_at < ` + account.WalletSince + `) IS NOT TRUE
		AND ($1 OR bank_code <> '` + NoBankCode + `' AND account_number <> '` + NoAccountNumber + `')
	ORDER BY id DESC LIMIT 1`

// KnownPayout returns the reference of the newest transfer that the bank has certainly paid; empty
// if there is none.
func KnownPayout(ctx context.Context, q pg.Querier) (string, error) {
	ref, _, err := newestPaid(ctx, q, true)
	return ref, err
}

// AtOtherAccount reports whether a transfer was submitted when the books were of another account at
// the bank (ajo wallet move).
func AtOtherAccount(ctx context.Context, q pg.Querier, ref string) (other bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM transfers WHERE merchant_tx_ref = $1 AND submitted_at < `+account.WalletSince+`)`, ref).Scan(&other)
	return other, err
}

// KnownDestination returns an account that the bank certainly knows, because it has been paid; the
// zero value if there is none.
func KnownDestination(ctx context.Context, q pg.Querier) (provider.Destination, error) {
	_, to, err := newestPaid(ctx, q, false)
	return to, err
}

func newestPaid(ctx context.Context, q pg.Querier, ours bool) (ref string, to provider.Destination, err error) {
	err = q.QueryRow(ctx, newestPaidSQL, ours).Scan(&ref, &to.BankCode, &to.AccountNumber)
	return ref, to, pg.OrNone(err, nil)
}
