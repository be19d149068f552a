package account_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// The number of another reference is given to nobody: the account stays in provisioning, and the
// next answer of its own finishes it.
func TestAnotherReferencesAccount(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]account.NewAccount{"dedicated": dedicated("customer-1"), "one-time": onetime("customer-1")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			other := provider.Account{Ref: "somebody-elses-reference", Number: "0123456789", Name: "SOMEBODY ELSE", BankName: "Ajo Bank"}
			// It opens the account that it was asked for, and answers with the other: what an
			// adapter would not pass on, and what the use case must not believe either.
			bank := testenv.BankWith{Bank: b.svc.Bank, AfterCreateAccount: func(a *provider.Account) { *a = other }}
			liar := account.New(account.Options{Pool: b.Pool, Bank: bank, Box: b.box, Clock: b.Clock})
			for range 2 {
				_, err := liar.Provision(b.ctx, b.tenant, in, idempotency.Request{})
				require.ErrorIs(t, err, account.ErrProvider)
			}
			require.Equal(t, "1 provisioning true", testenv.Value[string](b.Env, `
				SELECT count(*) || ' ' || min(status) || ' ' || bool_and(bank_account_number IS NULL AND leased_until IS NULL AND last_error LIKE '%somebody-elses-reference%')
				FROM accounts WHERE tenant_id = $1`, b.tenant))
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_balances WHERE tenant_id = $1`, b.tenant))
			a := b.provision(in)
			require.Equal(t, account.Active, a.Status)
			require.NotEqual(t, other.Number, a.BankAccountNumber)
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant), "it is the same row")
		})
	}
}
