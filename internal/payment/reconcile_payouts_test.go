package payment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
)

// A payout that the bank made and that no transfer accounts for is named; one that has a transfer, or moved no money, is not.
func TestReconcileFlagsUnknownPayouts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	for _, ref := range []string{"AJO-lost", "AJO-ours"} {
		_, err := b.client().Pay(b.ctx, provider.NewPayout{Ref: ref, Amount: money.Must("100.00"), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores"})
		require.NoError(t, err)
	}
	b.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, id, 'AJO-ours', 'success', 100, '058', '0123456789', now(), now() FROM accounts LIMIT 1`)
	r := b.lastHour()
	require.Equal(t, map[payment.ExceptionKind]int{payment.UnknownPayout: 1}, r.Counts)
	require.Equal(t, "AJO-lost", r.Exceptions[0].MerchantTxRef)
	require.Equal(t, "100.00", r.Exceptions[0].BankAmount.String())
	require.Equal(t, 1, r.Suspicious())
}
