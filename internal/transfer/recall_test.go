package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// recall holds a credit, as the bank's event does.
func (b *bundle) recall(group uuid.UUID) {
	b.T.Helper()
	b.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at) VALUES ($1, $2, $3, 'event', 'open', 0, now())`, group, b.tenant, b.account)
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.HoldRecalled(b.ctx, tx, b.Clock.Now(), []uuid.UUID{group})
		return err
	}))
}

// answered ends the hold; taken reports whether the bank took the money back.
func (b *bundle) answered(group uuid.UUID, amount string, taken bool) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if taken {
			moves := []ledger.Move{{TransactionGroupID: group, Direction: ledger.Credit, Event: ledger.EventRecall}}
			moved, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), moves)
			if err != nil {
				return err
			}
			if moved[0].Err != nil {
				return moved[0].Err
			}
		}
		return ledger.ReleaseRecalled(b.ctx, tx, map[uuid.UUID]money.Amount{b.account: money.Must(amount)})
	}))
}

func (b *bundle) funded(amount string) uuid.UUID {
	b.T.Helper()
	c := b.credit(amount)
	b.MoveCredit(c, ledger.EventConfirm)
	return c
}

// waits lets hours go by in which the transfer is claimed, and must not go.
func (b *bundle) waits(p transfer.Transfer) {
	b.T.Helper()
	for range 8 {
		b.untilDue(p)
		b.step(p)
		require.Equal(b.T, transfer.Pending, b.get(p.MerchantTxRef).Status)
	}
	require.Zero(b.T, b.bank.Calls(payCall))
}

// What the bank may have taken back covers nothing until its record says that it has not.
func TestHeldMoneyDoesNotLeave(t *testing.T) {
	for name, provisional := range map[string]bool{"confirmed money only": false, "provisional money too": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, func(o *transfer.Options) { o.Provisional = provisional })
			c := b.funded("100.00")
			b.recall(c)
			p := b.settle("60.00")
			b.waits(p)
			b.answered(c, "100.00", false)
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.paid(p)
			b.money("40.00", "credit 100.00 confirmed", "debit 60.00 confirmed")
		})
	}
}

// What was taken back ends no settlement that had its cover before: it waits for other money.
func TestSettlementWaitsAfterARecall(t *testing.T) {
	b := setup(t)
	c := b.funded("100.00")
	p := b.settle("60.00")
	b.recall(c)
	b.waits(p)
	b.answered(c, "100.00", true)
	b.money("-60.00", "credit 100.00 reversed", "debit 60.00 provisional", "debit 100.00 reversed")
	b.waits(p)
	b.funded("60.00")
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.paid(p)
}

// Money that is not held leaves as ever, beside a hold, and what false money was to pay still
// fails.
func TestHoldOnlyWhatIsRecalled(t *testing.T) {
	b := setup(t)
	b.funded("50.00")
	c := b.funded("100.00")
	b.recall(c)
	first, second := b.settle("50.00"), b.settle("100.00")
	require.Equal(t, transfer.Success, b.run(first).Status)
	b.untilDue(second)
	b.step(second)
	require.Equal(t, transfer.Pending, b.get(second.MerchantTxRef).Status)
	forged := b.credit("500.00")
	third := b.settle("500.00")
	b.MoveCredit(forged, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(third).Status)
	b.answered(c, "100.00", false)
	require.Equal(t, transfer.Success, b.run(second).Status)
	b.paid(first, second)
}

// The bank's word comes between the check of the cover and the submission, while the holder is
// being named: nothing is submitted.
func TestRecallWhileTheHolderIsNamed(t *testing.T) {
	b := setup(t)
	c := b.funded("100.00")
	p := b.settle("100.00")
	once := false
	slow := &testenv.BankWith{Bank: b.client, AfterLookup: func(*provider.Holder) {
		if !once {
			once = true
			b.recall(c)
		}
	}}
	svc := b.service(func(o *transfer.Options) { o.Bank = slow })
	at, again := retry.When(svc.Advance(b.ctx, p.ID))
	require.True(t, again && at.Equal(b.Clock.Now()), "it is due again at once")
	require.True(t, once)
	require.Zero(t, b.bank.Calls(payCall))
	require.Equal(t, transfer.Pending, b.get(p.MerchantTxRef).Status)
	require.Equal(t, []uuid.UUID{p.ID}, b.Overdue(work.Settle, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), "and by the sweep, if the task is lost")
	b.waits(p)
	b.answered(c, "100.00", false)
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.paid(p)
}

// What a recall took back before a settlement was accepted was never its cover: if the money that
// it waits for proves false, it fails, and the account's next money stays there.
func TestFalseMoneyAfterAnOldRecall(t *testing.T) {
	b := setup(t)
	c := b.funded("100.00")
	b.recall(c)
	b.answered(c, "100.00", true)
	b.funded("100.00")
	p := b.settle("100.00")
	require.Equal(t, transfer.Success, b.run(p).Status)
	forged := b.credit("50.00")
	late := b.settle("50.00")
	b.step(late)
	b.MoveCredit(forged, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(late).Status)
	b.funded("50.00")
	b.paid(p)
}

// A payment that was taken back and counts again is in the balance, and not taken back as well.
func TestFalseMoneyAfterARestoredPayment(t *testing.T) {
	b := setup(t)
	c := b.funded("100.00")
	forged := b.credit("100.00")
	p := b.settle("200.00")
	b.recall(c)
	b.answered(c, "100.00", true)
	again := uuid.Must(uuid.NewV7())
	b.Exec(`INSERT INTO event_keys (request, transaction, event_id, event_type) VALUES ($1, event_key($2), $1, 'payment_restored:1')`, again, c.String())
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{{
			AccountID: b.account, Amount: money.Must("100.00"), TransactionGroupID: again, ProviderTxnRef: c.String(),
		}})
		return err
	}))
	b.waits(p)
	b.MoveCredit(again, ledger.EventHold) // it is not there, for the moment
	b.waits(p)
	b.MoveCredit(again, ledger.EventConfirm)
	b.MoveCredit(forged, ledger.EventReverse)
	require.Equal(t, transfer.Failed, b.run(p).Status)
}
