package account

import (
	"context"

	"ajo/internal/pg"
)

// KnownAtBank is the reference of an account that the bank certainly has, as it is open: the newest
// of one tenant, whichever; empty when there is none. It reads one row, however many have expired.
func KnownAtBank(ctx context.Context, q pg.Querier) (ref string, err error) {
	err = q.QueryRow(ctx, `SELECT id::text FROM accounts WHERE status = 'active' ORDER BY tenant_id DESC, id DESC LIMIT 1`).Scan(&ref)
	if pg.IsNoRows(err) {
		return "", nil
	}
	return ref, err
}
