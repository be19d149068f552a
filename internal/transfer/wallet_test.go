package transfer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// The books are of one account at the bank. Another one would not know the payout whose answer was
// lost, and pay it again: a process that names it does not start, and operators cannot move the
// books there before the first has said how it ended.
func TestBooksAreOfOneWallet(t *testing.T) {
	b := setup(t, func(o *transfer.Options) { o.Rechecks = []time.Duration{time.Hour} })
	ours, other := transfer.Wallet{AccountID: "ours", Host: "bank.example"}, transfer.Wallet{AccountID: "other", Host: "bank.example"}
	sandbox := transfer.Wallet{AccountID: "ours", Host: "sandbox.bank.example"}
	start := func(w transfer.Wallet) error { return transfer.RecordWallet(b.ctx, b.Pool, b.Clock.Now(), w) }
	move := func(w transfer.Wallet) error {
		return transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), w, audit.By{Actor: "cli:test", Reason: "a test"})
	}
	require.NoError(t, transfer.CheckWallet(b.ctx, b.Pool, other), "nobody has started yet")
	empty := testenv.New(t)
	for _, w := range []transfer.Wallet{other, ours} {
		require.NoError(t, transfer.RecordWallet(b.ctx, empty.Pool, b.Clock.Now(), w), "there is no account yet")
	}
	require.ErrorIs(t, transfer.CheckWallet(b.ctx, empty.Pool, other), transfer.ErrWallet)
	unnamed := testenv.New(t)
	unnamed.Schedule(work.Ingest, uuid.New(), b.Clock.Now())
	require.NoError(t, transfer.MoveWallet(b.ctx, unnamed.Pool, b.Clock.Now(), ours, audit.By{Actor: "cli:test", Reason: "a test"}), "they have been of no other account")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := start(ours); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, w := range []transfer.Wallet{other, sandbox} {
		require.ErrorIs(t, start(w), transfer.ErrWallet)
		require.ErrorIs(t, transfer.CheckWallet(b.ctx, b.Pool, w), transfer.ErrWallet)
	}

	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("100.00")
	_ = b.svc.Advance(b.ctx, p.ID) // submits it, and loses the answer
	require.ErrorIs(t, move(other), transfer.ErrWalletWaits)
	require.NoError(t, move(sandbox), "the same account: the bank has another address")
	require.NoError(t, start(sandbox))
	b.run(p)
	require.ErrorIs(t, move(other), transfer.ErrWalletWaits, "it is asked about once more")
	b.untilDue(p)
	require.NoError(t, b.svc.Advance(b.ctx, p.ID))
	b.Clock.Advance(time.Second)

	// what is posted or assigned later is confirmed by the account that it reached: another one
	// does not know it, and it would be reversed
	event := uuid.New()
	b.Schedule(work.Ingest, event, b.Clock.Now())
	require.ErrorIs(t, move(other), transfer.ErrWalletWaits)
	b.Exec(`DELETE FROM work WHERE id = $1`, event)
	suspense := func(d ledger.Direction) {
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{{
				Account: ledger.Suspense, Direction: d, Amount: money.Must("5.00"), Kind: ledger.KindSuspense, TransactionGroupID: event,
			}})
		}))
	}
	suspense(ledger.Credit)
	require.ErrorIs(t, move(other), transfer.ErrWalletWaits)
	suspense(ledger.Debit)
	b.fund("15.00")
	b.settle("10.00") // submitted to nobody yet: the other account pays it

	require.NoError(t, move(other))
	require.ErrorIs(t, start(ours), transfer.ErrWallet)
	require.NoError(t, start(other))
	ref, err := transfer.KnownPayout(b.ctx, b.Pool)
	require.NoError(t, err)
	require.Empty(t, ref, "the other account has not paid it")
	elsewhere, err := transfer.AtOtherAccount(b.ctx, b.Pool, p.MerchantTxRef)
	require.NoError(t, err)
	require.True(t, elsewhere)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'wallet.move' AND reason = 'a test'`))
}

// The refund of a misdirected payment asks the bank about the payment before it leaves: another
// account does not know it, so the books stay until the refund has ended, although nothing is in
// suspense any more.
func TestBooksStayWhileAMisdirectedPaymentGoesBack(t *testing.T) {
	b := setup(t)
	ours, other := transfer.Wallet{AccountID: "ours", Host: "bank.example"}, transfer.Wallet{AccountID: "other", Host: "bank.example"}
	move := func() error {
		return transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), other, audit.By{Actor: "cli:test", Reason: "a test"})
	}
	require.NoError(t, transfer.RecordWallet(b.ctx, b.Pool, b.Clock.Now(), ours))
	event := uuid.Must(uuid.NewV7())
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{{
			Account: ledger.Suspense, Direction: ledger.Credit, Amount: money.Must("5.00"), Kind: ledger.KindSuspense, ProviderTxnRef: "stray-1",
			TransactionGroupID: ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, event),
		}})
	}))
	require.ErrorIs(t, move(), transfer.ErrWalletWaits)
	ref, err := b.svc.RefundSuspense(b.ctx, transfer.SuspenseRefund{
		EventID: event,
		Record:  provider.Transaction{ID: "stray-1", SenderName: "Amina Bello", SenderAccount: "0123456789", SenderBankCode: "058"},
		Lock:    func(context.Context, pg.Tx) error { return nil },
	}, audit.By{Actor: "cli:test", Reason: "the payer mistyped the number"})
	require.NoError(t, err)
	require.Equal(t, "0.00", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, ledger.Suspense.ID()).String())
	require.ErrorIs(t, move(), transfer.ErrWalletWaits, "the refund was not submitted yet")
	b.Exec(`DELETE FROM work WHERE id = (SELECT id FROM transfers WHERE merchant_tx_ref = $1)`, ref)
	require.NoError(t, move(), "it has ended")
}

// What a person has found paid, and the bank never finds, does not keep the books at an account for
// ever.
func TestBooksMoveDaysAfterAPersonsWord(t *testing.T) {
	b := setup(t)
	move := func() error {
		return transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "other", Host: "bank.example"}, byHand)
	}
	require.NoError(t, transfer.RecordWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "ours", Host: "bank.example"}))
	b.fund("100.00")
	b.bank.Faults.Set(lags(365 * 24 * time.Hour))
	p := b.settle("100.00")
	b.asked(p, 1)
	b.Clock.Advance(72 * time.Hour)
	require.ErrorIs(t, move(), transfer.ErrWalletWaits, "nobody knows yet")
	_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.NoError(t, err)
	b.Clock.Advance(47 * time.Hour)
	require.ErrorIs(t, move(), transfer.ErrWalletWaits)
	b.Clock.Advance(2 * time.Hour)
	require.NotNil(t, b.DueAt(work.Settle, p.ID))
	require.NoError(t, move())
}

// Nor does a payout that has ended and is asked about for ever, because the account at the bank
// answers no more: it may be closed, which is why the books must move.
func TestBooksMoveFromAnAccountThatAnswersNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		ended func(*bundle) transfer.Transfer
		since fakebank.Action
	}{
		"paid": {func(b *bundle) transfer.Transfer { return b.run(b.settle("100.00")) }, fakebank.Fail},
		"not paid, by a person's word": {func(b *bundle) transfer.Transfer {
			b.bank.Faults.Set(lags(365 * 24 * time.Hour))
			p := b.settle("100.00")
			b.asked(p, 1)
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
			require.NoError(b.T, err)
			return p
		}, fakebank.Fail},
		"given back": {func(b *bundle) transfer.Transfer {
			p := b.run(b.settle("100.00"))
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(b.T, err)
			b.asked(p, 1)
			require.Equal(b.T, transfer.Refunded, b.get(p.MerchantTxRef).Status)
			return p
		}, fakebank.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			move := func() error {
				return transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "other", Host: "bank.example"}, byHand)
			}
			require.NoError(t, transfer.RecordWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "ours", Host: "bank.example"}))
			b.fund("100.00")
			p := c.ended(b)
			b.bank.Faults.Set(answers(c.since, 0))
			b.asked(p, 2*len(defaults.SettleRechecks))
			require.ErrorIs(t, move(), transfer.ErrWalletWaits, "it may answer yet")
			b.Clock.Advance(49 * time.Hour)
			b.Exec(`UPDATE transfers SET difference = 'it differs', differs_since = now() WHERE id = $1`, p.ID)
			require.ErrorIs(t, move(), transfer.ErrWalletWaits, "a person has not dealt with it")
			b.Exec(`UPDATE transfers SET differs_since = NULL WHERE id = $1`, p.ID)
			require.NotNil(t, b.DueAt(work.Settle, p.ID))
			require.NoError(t, move())
		})
	}
}

// What suspense has paid twice of one misdirected payment hides no other that is there: the books
// stay until that one has left.
func TestBooksStayWhileOneOfTwoMisdirectedPaymentsIsThere(t *testing.T) {
	b := setup(t)
	move := func() error {
		return transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "other", Host: "bank.example"}, byHand)
	}
	require.NoError(t, transfer.RecordWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "ours", Host: "bank.example"}))
	suspense := func(event uuid.UUID, d ledger.Direction) {
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{{
				Account: ledger.Suspense, Direction: d, Amount: money.Must("5.00"), Kind: ledger.KindSuspense,
				TransactionGroupID: ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, event),
			}})
		}))
	}
	assigned, waits := uuid.New(), uuid.New()
	suspense(assigned, ledger.Credit)
	suspense(assigned, ledger.Debit)
	suspense(uuid.New(), ledger.Debit) // its refund has left as well
	suspense(waits, ledger.Credit)
	require.ErrorIs(t, move(), transfer.ErrWalletWaits)
	suspense(waits, ledger.Debit)
	require.NoError(t, move(), "suspense is below zero, and nothing can change that")
}
