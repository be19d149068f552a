package account

import (
	"context"

	"ajo/internal/pg"
)

// WalletSince is SQL for when the books came to the account at the bank that they are of; NULL:
// they have been of no other. What was made before is at the other account, which cannot be asked.
const WalletSince = `(SELECT max(w.since) FROM wallets w JOIN wallets b ON b.seq = w.seq - 1 AND b.wallet_id <> w.wallet_id)`

// KnownAtBank is the reference of an account that the bank certainly has, as it is open: the newest
// of one tenant, whichever; empty when there is none. It reads one row, however many have expired,
// and a bounded number after the books were moved.
func KnownAtBank(ctx context.Context, q pg.Querier) (ref string, err error) {
	err = q.QueryRow(ctx, `
		SELECT id::text FROM (SELECT id, created_at FROM accounts WHERE status = 'active' ORDER BY tenant_id DESC, id DESC LIMIT 1000) a
		WHERE (created_at < `+WalletSince+`) IS NOT TRUE LIMIT 1`).Scan(&ref)
	return ref, pg.OrNone(err, nil)
}
