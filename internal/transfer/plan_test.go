package transfer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// The plans of the batches' statements are made once a connection, perhaps while the tables are
// empty: then, too, they must name the rows that the batch names, and not read all that is
// pending, or there.
func TestPlansOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	const row, named = "Index Scan using transfers_pkey on transfers t", "Index Cond: (id = m.id)"
	const tenant, its = "Index Scan using tenants_pkey on tenants n", "Index Cond: (id = t.tenant_id)"
	const balance = "Index Scan using ledger_balances_pkey on ledger_balances b"
	for name, c := range map[string]struct {
		sql  string
		want []string
	}{
		"read": {claimedSQL, []string{"Scan on transfers_pkey", "Index Cond: (id = ANY ($1))", tenant, its, balance, "Index Cond: (account_id = t.account_id)"}},
		"funds": {fundsSQL, []string{
			"Scan on transfers_pkey", "Index Cond: (id = ANY ($1))", "Scan on transfers_waiting", "Index Cond: (account_id = ANY ($23))",
			"Scan on ledger_balances_pkey", "holds_refund", "Index Cond: (account_id = b.account_id)",
			"ledger_entries_reversed", "(seq > (min(a.debit_seq)))", "Index Cond: (id = ANY (ARRAY[v.reversal_of]))",
			"ledger_entries_reviewed", "Index Cond: ((account_id = b.account_id) AND (review_from_seq >= 0))",
		}},
		"submit":       {submitSQL, []string{row, named}},
		"record":       {recordSQL, []string{row, named}},
		"acknowledged": {acknowledgedSQL, []string{"transfers_pkey", "Index Cond: (id = ANY ($1))"}},
		"reference":    {repeatsSQL, []string{"Index Cond: (merchant_tx_ref = ANY ($1))"}},
		"hold again":   {holdAgainSQL, []string{"holds_payment", "Index Cond: (entry_id = ANY (payment_entries(e.*)))"}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := e.BatchPlan(c.sql)
			t.Log(plan)
			for _, index := range c.want {
				require.Contains(t, plan, index)
			}
			require.NotContains(t, plan, "Seq Scan")
		})
	}
}
