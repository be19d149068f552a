package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// The day begins when the payment was made, or when a run first saw it if the record does not say
// that.
func TestPendingForADay(t *testing.T) {
	t.Parallel()
	const says = "still_pending: the bank has not reported its outcome for more than a day"
	for name, c := range map[string]struct {
		from time.Duration // from the payment
		bank func(provider.Bank) provider.Bank
	}{
		"dated": {0, func(bank provider.Bank) provider.Bank { return bank }},
		"undated": {20 * time.Minute, func(bank provider.Bank) provider.Bank {
			return testenv.BankWith{Bank: bank, AfterTransaction: func(t *provider.Transaction) { t.Time = time.Time{} }, AfterTransactions: func(page *provider.Page) {
				for i := range page.Transactions {
					page.Transactions[i].Time = time.Time{}
				}
			}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.payments, b.svc = b.servicesWith(c.bank(b.client()))
			txn := b.paySilently("5000.00")
			b.recorded(txn, fakebank.StatusPending)
			b.Clock.Advance(20 * time.Minute)
			require.Empty(t, b.lastHour().Exceptions)
			b.Clock.Set(txn.Time.Add(c.from + 24*time.Hour - time.Microsecond))
			require.Empty(t, b.lastHour().Exceptions)
			b.Clock.Advance(time.Microsecond)
			require.Equal(t, map[string]string{txn.ID: says}, said(b.lastHour()))
		})
	}
}

// An event that waits to be posted is posted by its own task, whatever the list says meanwhile.
func TestRunBesideAnEventThatWaitsToBePosted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
	b.post(b.receive(b.hook(x)).ID)
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	waits := b.receive(b.hook(y)).ID
	for _, status := range []string{fakebank.StatusSuccess, fakebank.StatusPending} {
		b.recorded(y, status)
		require.Empty(t, b.lastHour().Exceptions, status)
		require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`), status)
		require.Equal(t, "received", testenv.Value[string](b.Env, `SELECT status FROM inbound_events WHERE id = $1`, waits), status)
	}
}
