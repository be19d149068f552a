package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// An event that could not be posted is posted with the time of the bank's record; if that has none,
// with its own.
func TestRepostHasTheRecordsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	for _, name := range []string{"the record's", "the event's"} {
		txn := b.paySilently("5000.00")
		event := b.bank.Event(fakebank.PaymentSuccess, txn)
		event.Data.Transaction.Fee = []byte(`null`)
		own := txn.Time.Add(-time.Hour).Truncate(time.Second)
		event.Data.Transaction.Time = own.Format(time.RFC3339)
		id := b.receive(b.eventOf(event)).ID
		require.Equal(t, payment.CategoryProcessingError, b.post(id).Category)
		want := txn.Time
		if name == "the event's" { // from now on
			want, b.svc = own, b.serviceWith(testenv.BankWith{Bank: b.client(), AfterTransaction: func(t *provider.Transaction) { t.Time = time.Time{} }})
		}
		plan, err := b.svc.PlanRepost(b.ctx, id)
		require.NoError(t, err)
		require.True(t, want.Equal(plan.Record.Time), name)
		_, err = b.svc.Repost(b.ctx, id, byHand)
		require.NoError(t, err)
		require.WithinDuration(t, want, testenv.Value[time.Time](b.Env, `SELECT occurred_at FROM inbound_events WHERE id = $1`, id), time.Microsecond, name)
	}
}

// One that is posted and has no account is misdirected: its money is in suspense.
func TestRepostOfAMisdirectedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stray := uuid.New()
	_, err := b.client().CreateAccount(b.ctx, newAccount(stray))
	require.NoError(t, err)
	id := b.paidTo(stray.String(), func(x *fakebank.EventTransaction) { x.Fee = []byte(`null`) }, payment.CategoryProcessingError)
	suspense, _ := b.suspense()
	require.Equal(t, "0.00", suspense)
	p, err := b.svc.Repost(b.ctx, id, byHand)
	require.NoError(t, err)
	require.Equal(t, payment.CategoryMisdirected, p.Category)
	suspense, tenants := b.suspense()
	require.Equal(t, []string{"4975.00", "0.00"}, []string{suspense, tenants})
}
