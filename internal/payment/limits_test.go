package payment_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A payment above a limit of the customer's tier is posted, with its delivery, and what is above is
// held: in one batch with others, when its event comes twice, and when it is posted again. Once the
// bank has taken it back its hold has ended.
func TestPaymentsAboveALimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_day, created_at, actor, reason) VALUES ($1, 1, $2, 5000, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	held := func() string {
		return testenv.Value[money.Amount](b.Env, `SELECT coalesce(held, 0) FROM ledger_balances WHERE account_id = $1`, b.account).String()
	}
	first := b.receive(b.event(nil))
	again := b.event(nil)
	second := b.receive(again)
	b.receive(again)
	for _, o := range b.svc.PostAll(b.ctx, []uuid.UUID{first.ID, second.ID, first.ID}) {
		require.NoError(t, o.Err)
	}
	b.post(second.ID)
	require.Equal(t, "4950.00", held(), "5,000.00 of 9,950.00 are allowed")
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM holds WHERE entry_id = (SELECT id FROM ledger_entries WHERE transaction_group_id = $1)`, second.ID))

	confirmed, txn := b.confirmed()
	require.Equal(t, "9925.00", held())
	b.taken(txn, "REFUND")
	b.receive(b.reversal(txn))
	b.check(confirmed)
	require.Equal(t, "4950.00", held())
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}
