package payment_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/idempotency"
	"ajo/internal/transfer"
)

// paysOutOfFalseMoney has a payout accepted against a payment that then proves false, and returns
// another payment, which is not the sum that the account expects.
func (b *policies) paysOutOfFalseMoney() (under uuid.UUID) {
	b.T.Helper()
	forged, txn := b.pays("5000.00")
	_, err := b.transfers.Settle(b.ctx, b.tenant, "customer-1", transfer.Order{Amount: "3000.00", BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
	require.NoError(b.T, err)
	under, _ = b.pays("4000.00")
	b.taken(txn, "PAYMENT_FAILED")
	b.toTheEnd(forged, 3)
	b.toTheEnd(under, 3)
	return under
}

// A payout was accepted against a payment that proves false, and what else the account has goes
// back to its sender by the account's policy: the payout fails, as that money is not for it, and
// the refund leaves. They do not wait for each other.
func TestAPolicyRefundIsNotHeldUpByFalseMoney(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Refund})
	under := b.paysOutOfFalseMoney()
	require.Equal(t, "refund 3975.00 under: NGN 4000.00 of NGN 5000.00 expected", b.hold(under))
	b.sent()
	b.toTheEnd(under, 5)
	require.Equal(t, []string{"failed 3000.00 058 0123456789 false", "success 3975.00 058 0123456789 true"}, b.sent())
	require.Empty(t, b.hold(under))
	require.Equal(t, "0.00", b.left())
}

// What a policy holds until the tenant decides can still pay for such a payout: it waits for that.
func TestAPolicyHoldCanStillPayForAPayout(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	under := b.paysOutOfFalseMoney()
	require.Equal(t, []string{"pending 3000.00 058 0123456789 false"}, b.sent())
	b.release(under)
	require.Equal(t, []string{"success 3000.00 058 0123456789 false"}, b.sent())
}
