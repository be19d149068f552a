package transfer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
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
