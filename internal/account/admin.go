package account

import (
	"context"

	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// Record is an account as operators see it.
type Record struct {
	Account
	TenantName  string
	TenantEmail string
	Balance     money.Amount
}

// ByNumber returns the accounts of all tenants that have, or had, a number at the bank, newest
// first. [ErrNotFound] for none.
func ByNumber(ctx context.Context, q pg.Querier, number string) ([]Record, error) {
	rows, err := q.Query(ctx, `
		SELECT t.name, t.email, b.balance, `+columns+`
		FROM accounts a
		JOIN tenants t ON t.id = a.tenant_id
		JOIN ledger_balances b ON b.account_id = a.id
		WHERE a.bank_account_number = $1 ORDER BY a.id DESC LIMIT 100`, number)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Record, err error) {
		return r, row.Scan(append([]any{&r.TenantName, &r.TenantEmail, &r.Balance}, r.fields()...)...)
	})
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	return found, err
}
