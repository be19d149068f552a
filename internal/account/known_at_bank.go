package account

import (
	"context"

	"ajo/internal/pg"
)

// KnownAtBank is the reference of an account that the bank certainly has, as it is open; empty when
// there is none.
func KnownAtBank(ctx context.Context, q pg.Querier) (ref string, err error) {
	err = q.QueryRow(ctx, `
		SELECT id::text FROM (SELECT id, status, bank_account_number FROM accounts ORDER BY id DESC LIMIT 5000) a
		WHERE status = 'active' AND bank_account_number <> '' ORDER BY id DESC LIMIT 1`).Scan(&ref)
	if pg.IsNoRows(err) {
		return "", nil
	}
	return ref, err
}
