package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
)

// strangers is [testenv.Strangers] for the reconciliation.
func strangers(t *testing.T, test func(t *testing.T, b *bundle, lie, honest func())) {
	t.Helper()
	testenv.Strangers(t, func(t *testing.T, wrap func(provider.Bank) provider.Bank) (*bundle, *fakebank.Bank) {
		b := setup(t)
		b.payments, b.svc = b.servicesWith(wrap(b.client()))
		return b, b.bank
	}, test)
}

// Another's record neither settles nor heals what reconciliation asks about because the list shows
// it no more: payments that were under way, events that could not be posted, and payouts.
func TestStrangersRecordSettlesNoItem(t *testing.T) {
	t.Parallel()
	strangers(t, func(t *testing.T, b *bundle, lie, honest func()) {
		broken := b.paySilently("5000.00")
		spoilt := b.bank.Event(fakebank.PaymentSuccess, broken)
		spoilt.Data.Transaction.Fee = []byte(`null`)
		id := b.receive(b.eventOf(spoilt)).ID
		require.Equal(t, payment.CategoryProcessingError, b.post(id).Category)
		b.recorded(broken, fakebank.StatusPending)
		waits := b.paySilently("6000.00")
		b.recorded(waits, fakebank.StatusPending)
		b.payAtBank("AJO-lost", "100.00")
		b.Clock.Advance(20 * time.Minute)
		require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.UnknownPayout: 1}, b.due().Counts)
		const open = `SELECT count(*) FROM reconcile_items`
		require.Equal(t, 3, testenv.Value[int](b.Env, open))

		b.Clock.Advance(4 * time.Hour)
		b.due() // from here on no window has them
		b.recorded(broken, fakebank.StatusSuccess)
		b.recorded(waits, fakebank.StatusSuccess)
		lie()
		for range 3 {
			b.Clock.Advance(4 * time.Hour)
			r := b.due()
			require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.UnknownPayout: 1}, r.Counts)
			require.Equal(t, 3, testenv.Value[int](b.Env, open))
		}
		balance, entries := b.books()
		require.Equal(t, "0.00", balance)
		require.Empty(t, entries)
		honest()
		b.Clock.Advance(time.Hour)
		require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.UnknownPayout: 1, reconcile.Healed: 1, reconcile.MissingEvent: 1}, b.due().Counts)
		balance, _ = b.books()
		require.Equal(t, "10950.00", balance)
		require.Equal(t, "processed", testenv.Value[string](b.Env, `SELECT status FROM inbound_events WHERE id = $1`, id))
	})
}
