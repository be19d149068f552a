package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// What an account has is summed up once for all of its payouts that wait for cover together,
// however many holds it has: the batch has other tenants' payouts too, and fails with them if it
// lasts.
func TestCoverReadsAnAccountsHoldsOnce(t *testing.T) {
	b := setup(t)
	const many, claims = 3000, 64
	_, entry := b.received("100.00", nil)
	b.holdFor(ledger.HeldForRefund, entry, "100.00")
	b.fund("60.00")
	soon := b.Clock.Now().Add(time.Minute)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, until)
			SELECT gen_random_uuid(), $1, $2, 0.01, 'x', 'open', $3, CASE i % 3 WHEN 0 THEN $4::timestamptz END FROM generate_series(1, $5::int) i`,
			b.tenant, b.account, b.Clock.Now(), soon, many); err != nil {
			return err
		}
		_, err := tx.Exec(b.ctx, `UPDATE ledger_balances SET held = 130.00, held_until = $2 WHERE account_id = $1`, b.account, soon)
		return err
	}))
	b.credit("70.00") // the settlements are accepted against it, and wait
	ids := make([]uuid.UUID, claims)
	for i := range ids {
		ids[i] = b.settle("1.00").ID
	}
	b.Clock.Set(soon.Add(time.Hour)) // a third of the holds has ended
	b.Exec(`ANALYZE holds, transfers, ledger_entries, ledger_balances`)
	pool, asked := b.Recorded()
	claimed, waits := b.service(func(o *transfer.Options) { o.Pool = pool }).ClaimTogether(b.ctx, ids...)
	left := 0
	for i := range ids {
		if claimed[i] != nil {
			left++
		} else {
			require.Error(t, waits[i])
		}
	}
	require.Equal(t, 40, left, "60.00 are confirmed, and 20.00 of them held until they are released")
	looked := map[string]int{}
	for _, s := range asked() {
		if s.SQL == transfer.FundsSQL || s.SQL == transfer.ClaimedSQL {
			looked[s.SQL]++
			most, plan := b.MostRows(s)
			require.Less(t, most, 2*many, plan)
		}
	}
	require.Equal(t, map[string]int{transfer.ClaimedSQL: 2, transfer.FundsSQL: 2}, looked, "and once more, of those that are put off")
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}
