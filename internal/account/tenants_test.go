package account_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/testenv"
)

// Reference and number tell the tenant, whatever else an alias says; what names nobody's account
// has none.
func TestTenantsOfAliases(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	one, two := e.Tenant(), e.Tenant()
	a, b := e.Account(one, "shop"), e.Account(two, "shop")
	unfinished := e.Account(one, "unfinished")
	e.Exec(`ALTER TABLE accounts DISABLE TRIGGER USER`)
	e.Exec(`UPDATE accounts SET status = 'provisioning', bank_account_number = NULL WHERE id = $1`, unfinished)
	number := func(id uuid.UUID) string {
		return testenv.Value[string](e, `SELECT bank_account_number FROM accounts WHERE id = $1`, id)
	}
	tenants, err := account.TenantsOf(t.Context(), e.Pool, []account.Alias{
		{Ref: a.String()},
		{Number: number(b)},
		{Ref: "shop"},
		{Ref: a.String(), Number: number(b)},
		{Ref: uuid.NewString(), Number: number(a)},
		{},
		{Number: "0000000001"},
		{Ref: unfinished.String()},
		{Ref: "nobody"},
	})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{one, two, uuid.Nil, one, one, uuid.Nil, uuid.Nil, one, uuid.Nil}, tenants)
	tenants, err = account.TenantsOf(t.Context(), e.Pool, nil)
	require.NoError(t, err)
	require.Empty(t, tenants)
}
