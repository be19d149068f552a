package transfer_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// The refund of a misdirected payment that only the bank has is one of that payment again, also
// where the payment was moved out of suspense since.
func TestAdoptedRefundOfAMisdirectedPayment(t *testing.T) {
	b := setup(t)
	group := uuid.Must(uuid.NewV7())
	for _, d := range []ledger.Direction{ledger.Credit, ledger.Debit} {
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{{
				Account: ledger.Suspense, Direction: d, Amount: money.Must("5.00"), Kind: ledger.KindSuspense, ProviderTxnRef: "stray-1", TransactionGroupID: group,
			}})
		}))
	}
	suspense, sum := ledger.Suspense.ID(), sha256.Sum256([]byte("stray-1"))
	ref := "AJR" + hex.EncodeToString(suspense[8:]) + hex.EncodeToString(sum[:4]) + "00000001"
	b.paysOutside(ref, "5.00")
	require.NoError(t, b.svc.Adopt(b.ctx, ref, uuid.Nil, byHand))
	d, err := b.svc.Show(b.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, transfer.Processing, d.Status)
	require.Equal(t, b.entryOf(group), *d.RefundOf)
}

// Books that were restored from before the refund of a misdirected payment make its reference
// again, by which the bank knows that it has paid; of one payment's refunds each has its own.
func TestRefundOfAMisdirectedPaymentAfterARestore(t *testing.T) {
	t.Parallel()
	var refs [2][2]string
	for books := range refs {
		b := newBundle(t)
		event := uuid.Must(uuid.NewV7())
		group := ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, event)
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			return ledger.PostMovements(b.ctx, tx, b.Clock.Now(), []ledger.Movement{{
				Account: ledger.Suspense, Direction: ledger.Credit, Amount: money.Must("5.00"), Kind: ledger.KindSuspense, ProviderTxnRef: "stray-1", TransactionGroupID: group,
			}})
		}))
		for n := range refs[books] {
			ref, err := b.svc.RefundSuspense(b.ctx, transfer.SuspenseRefund{
				EventID: event, Record: provider.Transaction{ID: "stray-1", SenderName: "Bola Ojo", SenderAccount: "0123456789", SenderBankCode: "035"},
				Lock: func(context.Context, pg.Tx) error { return nil },
			}, byHand)
			require.NoError(t, err)
			refs[books][n] = ref
			_, err = b.svc.Cancel(b.ctx, ref, byHand)
			require.NoError(t, err)
		}
	}
	require.Equal(t, refs[0], refs[1])
	require.NotEqual(t, refs[0][0], refs[0][1])
}
