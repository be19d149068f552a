package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/freeze"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// The end of a payout books the bank's fee, for whose account all payouts wait, before it waits for
// the feed of its tenant.
func TestLockOrderOfAnEnd(t *testing.T) {
	b := setup(t)
	b.Exec(`UPDATE tenants SET listening_until = $2 WHERE id = $1`, b.tenant, b.Clock.Now().Add(time.Hour))
	b.fund("1000.00")
	b.run(b.settle("100.00")) // and the account of the fees has its balance
	next := b.settle("100.00")
	_ = b.InOrder(testenv.LocksBalance(ledger.BankFees.ID()), testenv.LocksFeed(b.tenant), func() error { return b.svc.Advance(b.ctx, next.ID) })
	require.Equal(t, transfer.Success, b.get(next.MerchantTxRef).Status)
}

// Claims put some transfers off and end others: the items of all are locked by their ids, as by
// whoever lifts a freeze, and so are the balances.
func TestLockOrderOfClaims(t *testing.T) {
	b := setup(t)
	doubtful := b.credit("100.00")
	older := b.settle("60.00")
	other := b.anotherAccount(t)
	other.fund("100.00")
	frozen := other.settle("60.00")
	other.freeze(freeze.New{Scope: freeze.Account, Subject: other.account})
	claims := func(ids ...uuid.UUID) func() error {
		return func() error {
			_, _ = b.svc.ClaimTogether(b.ctx, ids...)
			return nil
		}
	}
	_ = b.InOrder(testenv.LocksItem(older.ID), testenv.LocksItem(frozen.ID), claims(older.ID, frozen.ID))
	require.Contains(t, row[string](b, older, "last_error"), "waits until the bank has confirmed")
	require.Contains(t, row[string](b, frozen, "last_error"), "frozen")

	b.MoveCredit(doubtful, ledger.EventReverse) // the first will never be covered
	third := b.anotherAccount(t)
	late := third.waiting(1)
	b.Clock.Advance(25 * time.Hour)
	_ = b.InOrder(testenv.LocksBalance(b.account), testenv.LocksBalance(third.account), claims(older.ID, late.ID))
	require.Equal(t, []transfer.Status{transfer.Failed, transfer.Failed}, []transfer.Status{b.get(older.MerchantTxRef).Status, third.get(late.MerchantTxRef).Status})
}

// A transfer that has ended has no item: a person who changes it makes one, for which a worker
// waits whom an event of the bank gives the transfer meanwhile. What the person decides leaves
// none.
func TestWorkersWaitForAPerson(t *testing.T) {
	b := setup(t, func(o *transfer.Options) { o.Rechecks = []time.Duration{} })
	b.fund("1000.00")
	p := b.run(b.settle("100.00"))
	require.Nil(t, b.DueAt("settle", p.ID))
	byHand := b.service(func(o *transfer.Options) { o.Bank, o.Rechecks = nil, []time.Duration{} })
	expedited := make(chan error, 1)
	worker := func(pg.Tx) error {
		go func() {
			_, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
			expedited <- err
		}()
		testenv.Eventually(t, time.Minute, "the event to wait for the person", func() bool { return b.LockWaits() == 2 || len(expedited) > 0 })
		require.Empty(t, expedited)
		return nil
	}
	require.NoError(t, b.InOrder(testenv.LocksBalance(b.account), worker, func() error {
		_, err := byHand.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, stop)
		return err
	}))
	require.NoError(t, <-expedited)
	require.NotNil(t, b.DueAt("settle", p.ID), "the event came later")
	require.Equal(t, transfer.Refunded, b.get(p.MerchantTxRef).Status)

	b.Exec(`DELETE FROM work`)
	b.Exec(`UPDATE transfers SET difference = 'the bank says so', differs_since = $2 WHERE id = $1`, p.ID, b.Clock.Now())
	_, err := byHand.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, stop)
	require.NoError(t, err)
	require.Nil(t, b.DueAt("settle", p.ID))
}
