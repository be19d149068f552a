package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/payment"
	"ajo/internal/transfer"
)

// A payment was refunded, by its account's policy, then taken back by the bank, and is restored: it
// went back to its sender already, and does not go back once more, by the policy or by hand,
// however long after and whatever other money the account has.
func TestARestoredPaymentWasRefunded(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 10)
	id, txn := b.pays("4000.00")
	b.toTheEnd(id, 10)
	refund := []string{"success 3975.00 058 0123456789 true"}
	require.Equal(t, refund, b.sent())
	b.receive(b.reversal(txn))
	b.taken(txn, "REFUND")
	b.toTheEnd(id, 10)
	require.Equal(t, "1000.00", b.left(), "the bank and the refund have taken it")

	b.Clock.Advance(8 * 24 * time.Hour)
	b.taken(txn, "SUCCESS")
	r, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	b.toTheEnd(r.Replacement, 10)
	require.Equal(t, refund, b.sent())
	require.Empty(t, b.hold(r.Replacement))
	require.Equal(t, "4975.00", b.left())
	require.ErrorIs(t, b.refundByHand(r.Replacement, ""), transfer.ErrRefunded)
	for _, which := range []uuid.UUID{id, r.Replacement} { // each page of it says so
		shown, err := b.svc.Timeline(b.ctx, b.tenant, which)
		require.NoError(t, err)
		var refunds []string
		for _, s := range shown.Timeline {
			if s.Step == payment.StepRefunded {
				refunds = append(refunds, s.Outcome+" "+s.Amount.String())
			}
		}
		require.Equal(t, []string{"success 3975.00"}, refunds)
	}
}
