package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// Holds that end by themselves end in one statement, beside other tenants' settlements, and are
// bounded for that.
func TestHoldsThatEndTogetherAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("200.00"), ledger.EventConfirm)
	at := b.Clock.Now().Add(time.Hour)
	first, err := b.placeHold("0.01", &at)
	require.NoError(t, err)
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, until)
			SELECT `+testenv.IDsAfter(first.ID)+`, tenant_id, id, 0.01, 'x', 'open', $2, $3 FROM accounts, generate_series(1, 9999) WHERE id = $1`, b.account, b.Clock.Now(), at); err != nil {
			return err
		}
		_, err := tx.Exec(b.ctx, `UPDATE ledger_balances SET held = 100.00 WHERE account_id = $1`, b.account)
		return err
	}))
	_, err = b.placeHold("0.01", &at)
	require.ErrorIs(t, err, ledger.ErrManyHolds)
	_, err = b.placeHold("50.00", nil)
	require.NoError(t, err, "one that does not end by itself")
	full := b.account
	b.account = b.Account(b.owner(), "customer-2")
	b.move(b.credit("1.00"), ledger.EventConfirm)
	_, err = b.placeHold("0.01", &at)
	require.NoError(t, err, "of another account")
	b.account = full
	b.holds("50.00 150.00")
	_, err = b.releaseHold(first.ID)
	require.NoError(t, err)
	_, err = b.placeHold("0.01", &at)
	require.NoError(t, err, "in place of another")
	b.Clock.Advance(time.Hour)
	at = at.Add(time.Hour)
	_, err = b.placeHold("100.00", &at)
	require.NoError(t, err, "the others have ended")
	b.holds("50.00 150.00")
}

// What was ever held of a payment is looked up by the payment, however many holds its account has
// had, and all others: it is asked under the balance's lock, and in batches with other tenants'
// payments.
func TestHoldsOfAPaymentAreFoundBesideManyOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sql := range []string{ledger.UncountedSQL, ledger.LastHoldsSQL} {
		require.Contains(t, b.BatchPlan(sql), "holds_payment", "also by a plan that was made on a young database")
	}
	const many = 3000
	reviewed, reversed := b.credit("100.00"), b.credit("200.00")
	b.move(reviewed, ledger.EventHold)
	b.ExecUnguarded(`
		INSERT INTO holds (id, tenant_id, account_id, amount, reason, source, entry_id, status, created_at, ended_at)
		SELECT gen_random_uuid(), $1, $2, 0.01, 'x', CASE n % 2 WHEN 0 THEN 'tenant' ELSE 'policy' END, CASE n % 2 WHEN 0 THEN NULL ELSE gen_random_uuid() END,
			'released', $3, $3 FROM generate_series(1, $4::int) n`, b.owner(), b.account, b.Clock.Now(), many)
	b.Exec(`ANALYZE holds`)
	pool, asked := b.Recorded()
	for _, m := range []ledger.Move{
		{TransactionGroupID: reviewed.TransactionGroupID, Direction: ledger.Credit, Event: ledger.EventConfirm},
		{TransactionGroupID: reversed.TransactionGroupID, Direction: ledger.Credit, Event: ledger.EventReverse},
	} {
		require.NoError(t, pg.InTx(b.ctx, pool, func(tx pg.Tx) error {
			_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{m})
			return err
		}))
		looked := 0
		for _, s := range asked() {
			if !strings.Contains(s.SQL, "FROM holds") {
				continue
			}
			looked++
			most, plan := b.MostRows(s)
			require.Less(t, most, many/10, plan)
		}
		require.Positive(t, looked, m.Event)
	}
}

// What ends a hold, or those whose time has come, looks at no other open holds of the account: it
// does so under the balance's lock, and in batches with other tenants' settlements.
func TestHoldsThatEndAreFoundBesideManyOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Contains(t, b.BatchPlan(ledger.EndHoldsSQL), "Index Cond: ((account_id = ANY ($1)) AND (until <= $2))", "also by a plan that was made on a young database")
	const many = 3000
	b.move(b.credit("100.00"), ledger.EventConfirm)
	soon := b.Clock.Now().Add(time.Minute)
	ending, err := b.placeHold("10.00", &soon)
	require.NoError(t, err)
	released, err := b.placeHold("20.00", nil)
	require.NoError(t, err)
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, until)
			SELECT `+testenv.IDsAfter(ending.ID)+`, tenant_id, id, 0.01, 'x', 'open', $2, CASE i % 2 WHEN 0 THEN $3::timestamptz END
			FROM accounts, generate_series(1, $4::int) i WHERE id = $1`, b.account, b.Clock.Now(), soon.Add(time.Hour), many); err != nil {
			return err
		}
		_, err := tx.Exec(b.ctx, `UPDATE ledger_balances SET held = 60.00 WHERE account_id = $1`, b.account)
		return err
	}))
	b.Exec(`ANALYZE holds`)
	pool, asked := b.Recorded()
	for what, end := range map[string]func(tx pg.Tx) error{
		"a hold that is released": func(tx pg.Tx) error {
			_, err := ledger.ReleaseHold(b.ctx, tx, b.Clock.Now(), b.owner(), released.ID)
			return err
		},
		"a hold whose time has come": func(tx pg.Tx) error { return ledger.LockAvailable(b.ctx, tx, soon, b.account) },
	} {
		ended := 0
		require.NoError(t, pg.InTx(b.ctx, pool, end))
		for _, s := range asked() {
			if s.SQL == ledger.EndHoldsSQL {
				ended++
				most, plan := b.MostRows(s)
				require.Less(t, most, many/10, "%s:\n%s", what, plan)
			}
		}
		require.Equal(t, 1, ended, what)
	}
	b.Clock.Set(soon)
	b.holds("70.00 30.00")
}
