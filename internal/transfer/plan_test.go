package transfer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
)

var parameter = regexp.MustCompile(`\$\d+`)

// The plans of the batches' statements are made once a connection, perhaps while the tables are
// empty: then, too, they must name the rows that the batch names, and not read all that is due, or
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
		"covered": {coveredSQL, []string{"Scan on transfers_pkey", "Index Cond: (id = ANY ($1))", tenant, its, balance, "Index Cond: (account_id = t.account_id)"}},
		"lease":   {leaseSQL, []string{row, named, tenant, its}},
		"funds": {fundsSQL, []string{
			"Index Scan using transfers_pending on transfers t", "Index Cond: (account_id = ANY ($2))",
			"Index Scan using ledger_entries_group on ledger_entries e", "Index Cond: (transaction_group_id = t.id)",
			balance, "Index Cond: (account_id = w.account_id)",
		}},
		"submit":    {submitSQL, []string{row, named}},
		"put off":   {putOffSQL, []string{row, named}},
		"held":      {stillHeldSQL, []string{row, named}},
		"end":       {endSQL, []string{row, named}},
		"reference": {repeatsSQL, []string{"Index Cond: (merchant_tx_ref = ANY ($1))"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, pg.InBatch(t.Context(), e.Pool, func(tx pg.Tx) error {
				_, err := tx.Exec(t.Context(), "PREPARE planned AS "+c.sql)
				require.NoError(t, err)
				last := 0
				for _, p := range parameter.FindAllString(c.sql, -1) {
					var n int
					_, err := fmt.Sscanf(p, "$%d", &n)
					require.NoError(t, err)
					last = max(last, n)
				}
				nulls := strings.TrimSuffix(strings.Repeat("NULL, ", last), ", ")
				rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE planned("+nulls+")", pgx.QueryExecModeSimpleProtocol)
				require.NoError(t, err)
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				plan := strings.Join(lines, "\n")
				t.Log(plan)
				for _, index := range c.want {
					require.Contains(t, plan, index)
				}
				require.NotContains(t, plan, "Seq Scan")
				require.NotContains(t, plan, "transfers_due")
				_, err = tx.Exec(t.Context(), "DEALLOCATE planned")
				return err
			}))
		})
	}
}
