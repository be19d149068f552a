package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// Who has seen one genuine payout event can send it again and again with any merchantTxRef: the
// signature does not cover it. However often a transfer is expedited, nothing is submitted or given
// back any sooner.
func TestWakingDecidesNothing(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(
		// it is paid, and nobody hears of it
		fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.NotFound},
	)
	p := b.settle("100.00")
	b.step(p)
	for range 50 {
		ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
		require.NoError(t, err)
		require.True(t, ok)
		_ = b.svc.Advance(b.ctx, p.ID)
	}
	got := b.get(p.MerchantTxRef)
	require.Equal(t, transfer.Processing, got.Status)
	require.Equal(t, 1, got.AttemptCount)
	require.Equal(t, b.Clock.Now().Add(2*time.Second), b.DueAt(work.Settle, p.ID).UTC(), "the schedule stands")
	b.bank.Faults.Clear()
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.paid(p)
}

// The same just before the last question: one that comes before its time is not the one that brings
// a submission, or the end.
func TestWakingBeforeTheLastQuestion(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.Drop, 0))
	p := b.settle("100.00")
	expedite := func() {
		t.Helper()
		ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
		require.NoError(t, err)
		require.True(t, ok)
		b.step(p)
	}
	b.step(p)
	for range 2 {
		b.untilDue(p)
		b.step(p)
	}
	expedite()
	require.Equal(t, 1, b.get(p.MerchantTxRef).AttemptCount)
	for b.get(p.MerchantTxRef).AttemptCount < 5 {
		b.untilDue(p)
		b.step(p)
	}
	start := b.Clock.Now()
	for range 6 {
		b.untilDue(p)
		b.step(p)
	}
	expedite()
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	p = b.run(p)
	require.Equal(t, transfer.Failed, p.Status)
	require.GreaterOrEqual(t, b.Clock.Now().Sub(start), 8*time.Minute, "given back only after that long")
}

// The order in which debits stand in the ledger decides who goes first, not the transfers' ids: two
// API processes may draw their ids in one order and get the account's lock in the other. Of two
// transfers and confirmed money for one, one leaves.
func TestCoverGoesByTheLedgersOrder(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	forged := b.credit("100.00")
	first := b.settle("100.00")
	second := b.settle("100.00")
	// The second one's id becomes the smaller one.
	small := uuid.UUID{0: 1, 15: 1}
	b.Exec(`ALTER TABLE ledger_entries DISABLE TRIGGER USER`)
	b.Exec(`UPDATE ledger_entries SET transaction_group_id = $2 WHERE transaction_group_id = $1`, second.ID, small)
	b.Exec(`ALTER TABLE ledger_entries ENABLE TRIGGER USER`)
	b.Exec(`UPDATE transfers SET id = $2 WHERE id = $1`, second.ID, small)
	b.Exec(`UPDATE work SET id = $2 WHERE id = $1`, second.ID, small)
	second.ID = small
	_ = b.svc.Advance(b.ctx, second.ID)
	require.Equal(t, transfer.Pending, b.get(second.MerchantTxRef).Status)
	require.Equal(t, transfer.Success, b.run(first).Status)
	b.MoveCredit(forged, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(second).Status)
	b.paid(first)
}

// AJO_SETTLE_PROVISIONAL lets unconfirmed money leave, but not money that is known to be false.
func TestKnownFalseMoneyNeverLeaves(t *testing.T) {
	b := setup(t, func(o *transfer.Options) { o.Provisional = true })
	forged := b.credit("100.00")
	p := b.settle("100.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Fail, Next: 1})
	b.Clock.Set(b.step(p))
	b.MoveCredit(forged, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(p).Status)
	b.money("0.00", "credit 100.00 reversed", "debit 100.00 reversed", "debit 100.00 reversed", "credit 100.00 reversed")
	b.paid()
}

// A repeat gets the first answer even when the bank, which would have to name the holder, is down,
// and Redis is empty.
func TestRepeatNeedsNoBank(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	o := order("100.00")
	o.AccountName = new("Amina Bello")
	first, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	again, err := b.svc.Settle(b.ctx, b.tenant, "shop", o, b.key("k", o))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer, again.Answer)
}

// A refund is believed only in full: a record of another sum is somebody's mistake.
func TestRefundOfAnotherSum(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.AlterAmount, Value: "1.00"})
	_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
	require.NoError(t, err)
	_, err = b.svc.Expedite(b.ctx, p.MerchantTxRef)
	require.NoError(t, err)
	b.step(p)
	require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
	b.money("0.00", "credit 100.00 confirmed", "debit 100.00 confirmed")
}

// The bank pays after all what it had refused to know of for so long that the money was given back.
// Nothing can be done about it by itself, but a person is notified.
func TestPaidAfterItWasGivenBack(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(
		fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.NotFound},
	)
	p := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Failed, p.Status)
	end := b.Clock.Now()
	b.untilDue(p)
	require.Equal(t, end.Add(15*time.Minute), b.Clock.Now(), "asked again, without any event")
	b.step(p)
	b.log.HasNot(t, "failed_then_paid", "not known still")
	b.bank.Faults.Clear()
	ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
	require.NoError(t, err)
	require.True(t, ok)
	b.step(p)
	require.Equal(t, transfer.Failed, b.get(p.MerchantTxRef).Status)
	b.log.Has(t, "failed_then_paid")
	b.money("100.00", "credit 100.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed")
}

// Events about a paid transfer do not use up the questions that would find a refund whose own event
// never comes.
func TestWakingLeavesTheRechecks(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	at := b.Clock.Now()
	for range 5 {
		ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, at.Add(15*time.Minute), b.step(p))
	}
	_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
	require.NoError(t, err)
	b.Clock.Set(at.Add(15 * time.Minute))
	b.step(p)
	require.Equal(t, transfer.Refunded, b.get(p.MerchantTxRef).Status)
	b.paid()
}
