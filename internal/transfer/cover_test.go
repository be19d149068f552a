package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/spec"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// What the bank has not confirmed does not leave: the transfer waits, and goes as soon as it is
// confirmed.
func TestConfirmedMoneyOnly(t *testing.T) {
	spec.Shows(t, "endpoint.settle.confirmed")
	b := setup(t)
	b.fund("40.00")
	c := b.credit("60.00")
	p := b.settle("100.00")
	start := b.Clock.Now()
	for b.Clock.Now().Before(start.Add(3 * time.Hour)) {
		b.untilDue(p)
		b.step(p)
	}
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
	require.Zero(t, b.bank.Calls(lookupCall))
	require.Zero(t, b.bank.Calls(payCall))
	b.money("0.00", "credit 40.00 confirmed", "credit 60.00 provisional", "debit 100.00 provisional")
	b.MoveCredit(c, ledger.EventConfirm)
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.paid(p)
	b.money("0.00", "credit 40.00 confirmed", "credit 60.00 confirmed", "debit 100.00 confirmed")
}

// A provisional credit that proves false never leaves: its settlement fails, and takes nothing
// along.
func TestFalseMoney(t *testing.T) {
	spec.Shows(t, "endpoint.settle.confirmed", "state.transfer.pending-failed")
	for event, status := range map[ledger.Event]string{ledger.EventReverse: "reversed", ledger.EventHold: "needs_review"} {
		t.Run(status, func(t *testing.T) {
			b := setup(t)
			b.fund("30.00")
			c := b.credit("100.00")
			covered, forged := b.settle("30.00"), b.settle("100.00")
			b.step(forged)
			b.MoveCredit(c, event)
			require.Equal(t, transfer.Failed, b.run(forged).Status)
			require.Equal(t, transfer.Success, b.run(covered).Status)
			require.Zero(t, b.get(forged.MerchantTxRef).AttemptCount)
			b.paid(covered)
			require.Nil(t, b.DueAt(work.Settle, forged.ID), "the bank never heard of it")
			lines := []string{"credit 30.00 confirmed", "credit 100.00 " + status, "debit 30.00 confirmed", "debit 100.00 reversed"}
			if event == ledger.EventReverse {
				b.money("0.00", append(lines, "debit 100.00 reversed", "credit 100.00 reversed")...)
				return
			}
			b.money("0.00", append(lines, "credit 100.00 reversed")...)
			b.MoveCredit(c, ledger.EventConfirm) // an operator finds that it was true after all
			b.money("100.00", "credit 30.00 confirmed", "credit 100.00 confirmed", "debit 30.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed")
		})
	}
}

// The earlier of two transfers goes first. One that waits for a huge provisional credit holds up
// those behind it, though each would be covered by itself, until the credit has ended one way or
// the other.
func TestTheEarlierGoesFirst(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	huge := b.credit("1000.00")
	first, second := b.settle("1000.00"), b.settle("100.00")
	b.step(second)
	b.step(first)
	require.Zero(t, b.bank.Calls(payCall))
	b.MoveCredit(huge, ledger.EventReverse)
	b.untilDue(second)
	b.step(second) // the first, which stands before it, has not failed yet, but it will
	require.Equal(t, transfer.Failed, b.run(first).Status)
	require.Equal(t, transfer.Success, b.run(second).Status)
	b.paid(second)
}

// A transfer that is behind another one in the ledger does not hold it up, however large it is.
func TestTheLaterHoldsNobodyUp(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.credit("1000.00")
	first, second := b.settle("100.00"), b.settle("1000.00")
	b.step(second)
	require.Equal(t, transfer.Success, b.run(first).Status)
	require.Equal(t, transfer.Pending, b.get(second.MerchantTxRef).Status)
	b.paid(first)
}

// Many transfers against confirmed money for some of them, all steps at once and in any order: no
// more leaves than is covered.
func TestManyAgainstTheCover(t *testing.T) {
	b := setup(t)
	b.fund("50.00")
	forged := b.credit("50.00")
	var all []transfer.Transfer
	for range 10 {
		all = append(all, b.settle("10.00"))
	}
	done := make(chan struct{})
	for i := range all {
		p := all[(i*7)%len(all)]
		go func() {
			defer func() { done <- struct{}{} }()
			_ = b.svc.Advance(b.ctx, p.ID)
		}()
	}
	for range all {
		<-done
	}
	b.paid(all[:5]...)
	b.MoveCredit(forged, ledger.EventHold)
	for _, p := range all[5:] {
		require.Equal(t, transfer.Failed, b.run(p).Status)
	}
	b.paid(all[:5]...)
}

func TestProvisionalMayLeaveWhereItIsAllowed(t *testing.T) {
	b := setup(t, func(o *transfer.Options) { o.Provisional = true })
	c := b.credit("100.00")
	p := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Success, p.Status)
	b.paid(p)
	b.MoveCredit(c, ledger.EventReverse)
	b.money("-100.00", "credit 100.00 reversed", "debit 100.00 confirmed", "debit 100.00 reversed")
}

// It is reported from the tenth minute on, not before.
func TestReportedFromTheTenthMinuteOn(t *testing.T) {
	b := setup(t)
	b.fund("200.00")
	b.bank.Faults.Set(names(fakebank.Fail, 0))
	p, q := b.settle("100.00"), b.settle("100.00")
	b.Clock.Advance(10*time.Minute - time.Microsecond)
	b.step(p)
	b.log.HasNot(t, "not_submitted")
	b.Clock.Advance(time.Microsecond)
	b.step(q)
	b.log.Has(t, "not_submitted")
}

// A transfer whose destination cannot be named for long is reported: its money is held, and nobody
// else would notice.
func TestNotSubmittedForLong(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(names(fakebank.Fail, 0))
	p := b.settle("100.00")
	for range 9 {
		b.log.HasNot(t, "not_submitted")
		b.untilDue(p)
		b.step(p)
	}
	b.untilDue(p)
	b.step(p)
	b.log.Has(t, "not_submitted")
	b.bank.Faults.Clear()
	require.Equal(t, transfer.Success, b.run(p).Status)
}
