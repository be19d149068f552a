package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// moveBooks makes the books those of another account at the bank, which knows nothing of before.
func (b *bundle) moveBooks() {
	b.T.Helper()
	require.NoError(b.T, transfer.RecordWallet(b.ctx, b.Pool, testenv.Epoch.Add(-time.Hour), transfer.Wallet{AccountID: "ours", Host: "bank.example"}))
	require.NoError(b.T, transfer.MoveWallet(b.ctx, b.Pool, b.Clock.Now(), transfer.Wallet{AccountID: "other", Host: "bank.example"}, byHand))
	b.bank = b.Env.Bank(fakebank.Options{})
	b.payments, b.svc = b.servicesWith(provider.Doubt(provider.DoubtOptions{Bank: b.client(), Clock: b.Clock, Log: b.log.Logger(), Known: known(b.Pool)}))
}

// After the books were moved to another account at the bank, what was made before is not compared
// with the list of the new account, and nobody asks that about it: what was not read, and what was
// open, is named until a person has dismissed it.
func TestBooksThatWereMoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	waits := b.paySilently("7000.00")
	b.recorded(waits, fakebank.StatusPending)
	b.Clock.Advance(20 * time.Minute)
	require.Empty(t, b.due().Exceptions)
	before := b.Clock.Now().Truncate(15 * time.Minute)
	b.Clock.Advance(20 * time.Minute)
	event := b.hook(b.paySilently("6000.00"))
	b.Clock.Advance(time.Minute)
	b.moveBooks()
	moved := b.Clock.Now()
	for _, find := range []provider.Known{known(b.Pool).Transaction, known(b.Pool).Account} {
		ref, err := find(b.ctx)
		require.NoError(t, err)
		require.Empty(t, ref, "the new account has nothing of before")
	}
	b.OpenAtBank(b.bank, b.account)
	_, first := b.confirmed()
	ref, err := known(b.Pool).Transaction(b.ctx)
	require.NoError(t, err)
	require.Equal(t, first.ID, ref)
	b.Clock.Advance(40 * time.Minute)

	const why = "the books were of another account at the bank then, which cannot be asked any more"
	notRead := "not_read: no run has read " + before.Format(time.RFC3339) + " to " + moved.Format(time.RFC3339) + ": " + why
	want := map[string]string{"": notRead, waits.ID: "unreadable: " + why}
	for range 2 {
		r := b.due1()
		require.Equal(t, want, said(r), "of %s nothing is said", txn.ID)
		require.Equal(t, 2, r.ExceptionCount())
	}
	_, err = b.svc.Run(b.ctx, moved.Add(-time.Second), moved.Add(time.Minute))
	require.ErrorIs(t, err, reconcile.ErrOtherAccount)

	// an event of before is not taken for a payment that the bank does not have
	got := b.receive(event)
	b.post(got.ID)
	for range 40 {
		b.Clock.Advance(time.Hour)
		_ = b.payments.Confirm(b.ctx, got.ID)
	}
	require.Equal(t, "needs_review", b.credit(got.ID))
	require.Equal(t, "confirmed", b.credit(id))

	for _, ref := range []string{testenv.Value[string](b.Env, `SELECT ref FROM reconcile_items WHERE kind = 'list'`), waits.ID} {
		_, err := dismiss(b.svc, ref)
		require.NoError(t, err)
	}
	require.Empty(t, b.due1().Exceptions)
}

// What a recall had ended before the books were moved is no exception after it.
func TestRecallBeforeTheBooksWereMoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reversedByRecall()
	b.Clock.Advance(time.Hour)
	b.moveBooks()
	b.Clock.Advance(24 * time.Hour)
	r, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(t, err)
	require.True(t, ran)
	require.Empty(t, said(r))
}

// known is what production gives the bank that doubts.
func known(pool *pg.Pool) provider.KnownRecords {
	return provider.KnownRecords{
		Transaction:      func(ctx context.Context) (string, error) { return payment.KnownAtBank(ctx, pool, uuid.Nil) },
		Payout:           func(ctx context.Context) (string, error) { return transfer.KnownPayout(ctx, pool) },
		Account:          func(ctx context.Context) (string, error) { return account.KnownAtBank(ctx, pool) },
		PaymentElsewhere: func(ctx context.Context, ref string) (bool, error) { return payment.AtOtherAccount(ctx, pool, ref) },
		PayoutElsewhere:  func(ctx context.Context, ref string) (bool, error) { return transfer.AtOtherAccount(ctx, pool, ref) },
	}
}
