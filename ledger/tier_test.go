package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// What a tier releases in parts, with payments in between, is what its limits allow of all of them
// together: each hold is looked at once, and what is left of one stays held. A part reads no more
// than its holds, however many there are, of limits and of others.
func TestATierReleasesInParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "0.00", "", "")
	b.limitTier(2, "", "32.00", "")
	const many = 3000
	for range 3 {
		b.deposit("5.00", "5.00", "5.00")
	}
	customer := testenv.Value[uuid.UUID](b.Env, `UPDATE customers SET kyc_tier = 2 WHERE id = (SELECT customer_id FROM accounts WHERE id = $1) RETURNING id`, b.account)
	release := func(after ledger.HeldAt) (last ledger.HeldAt) {
		require.NoError(t, b.tx(func(tx pg.Tx) (err error) {
			_, last, err = ledger.ApplyTier(b.ctx, tx, b.Clock.Now(), customer, after, 2)
			return err
		}))
		b.verify()
		return last
	}
	last := release(ledger.HeldAt{})
	b.holds("0.00 35.00")
	b.deposit("19.00")
	parts := 1
	for ; last != (ledger.HeldAt{}); parts++ {
		require.Equal(t, b.account, last.Account)
		last = release(last)
	}
	require.Equal(t, 5, parts)
	require.Equal(t, "32.00", testenv.Value[money.Amount](b.Env, `SELECT allowed FROM deposit_days WHERE account_id = $1`, b.account).String())
	b.holds("0.00 32.00")
	require.Equal(t, "2.00 maxDay of tier 2: NGN 32.00", b.limitHolds()[len(b.limitHolds())-1], "of the third, the oldest that was still held")
	require.Zero(t, b.setTier(2, nil))

	b.ExecUnguarded(`
		INSERT INTO holds (id, tenant_id, account_id, amount, reason, source, entry_id, status, created_at)
		SELECT gen_random_uuid(), $1, $2, 0.01, 'x', CASE n % 2 WHEN 0 THEN 'limit' ELSE 'policy' END, gen_random_uuid(), 'open', $3 FROM generate_series(1, $4::int) n`,
		b.owner(), b.account, b.Clock.Now(), many)
	b.Exec(`ANALYZE holds`)
	most, plan := b.MostRows(testenv.Statement{SQL: ledger.LimitedSQL, Args: []any{[]uuid.UUID{b.account, b.neighbour}, uuid.Nil, uuid.Nil, 10}})
	require.Less(t, most, 100, plan)
	b.ExecUnguarded(`DELETE FROM holds WHERE amount = 0.01`)
}
