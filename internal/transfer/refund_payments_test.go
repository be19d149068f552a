package transfer_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// No payer has sent what came from another account of the tenant, what a payout that failed has
// given back, and what the bank has taken less of a fee: none of it is refunded.
func TestOnlyPaymentsAreRefunded(t *testing.T) {
	b := bearerBundle(t, "4.00", "0.00")
	b.fund("500.00")
	b.on(b.Account(b.tenant, "till")).fund("50.00")
	moved, _, err := b.book("", "till", "shop", "10.00")
	require.NoError(t, err)
	b.bank.Faults.Set(pays(fakebank.Reject, 1))
	require.Equal(t, transfer.Failed, b.run(b.settle("100.00")).Status)
	require.Equal(t, transfer.Success, b.run(b.settle("100.00")).Status)
	credit := func(which string) uuid.UUID {
		t.Helper()
		return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE account_id = $1 AND direction = 'credit' AND `+which, b.account)
	}
	for name, entry := range map[string]uuid.UUID{
		"of another account": moved.CreditEntryID,
		"given back":         credit(`reversal_of IS NOT NULL AND kind = ''`),
		"less of a fee":      credit(`kind = 'fee' AND reversal_of IS NULL`),
	} {
		_, _, err := b.refund("", entry, "1.00")
		require.ErrorIs(t, err, transfer.ErrNotPayment, name)
	}
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers`))
}
