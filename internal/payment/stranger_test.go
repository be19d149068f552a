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

// strangers is [testenv.Strangers] for the payments.
func strangers(t *testing.T, test func(t *testing.T, b *bundle, lie, honest func())) {
	t.Helper()
	testenv.Strangers(t, func(t *testing.T, wrap func(provider.Bank) provider.Bank) (*bundle, *fakebank.Bank) {
		b := setup(t)
		b.svc = b.serviceWith(wrap(b.client()))
		return b, b.bank
	}, test)
}

// Another's record neither confirms a payment, nor reverses it, nor has it held; it is asked about
// until there is an answer.
func TestStrangersRecordConfirmsNothing(t *testing.T) {
	t.Parallel()
	strangers(t, func(t *testing.T, b *bundle, lie, honest func()) {
		id, _ := b.paid()
		lie()
		for range 6 {
			require.Positive(t, b.check(id))
		}
		require.Zero(t, b.misses(id), "nor is it a not found")
		balance, entries := b.books()
		require.Equal(t, "4975.00", balance)
		require.Equal(t, []string{"credit provisional"}, entries)
		honest()
		require.Equal(t, time.Duration(-1), b.check(id))
	})
}

// Nor does it end a recall, either way.
func TestStrangersRecordEndsNoRecall(t *testing.T) {
	t.Parallel()
	strangers(t, func(t *testing.T, b *bundle, lie, honest func()) {
		id, txn := b.confirmed()
		opened, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
		require.NoError(t, err)
		require.Equal(t, id, opened)
		lie()
		for range 6 {
			require.Positive(t, b.check(id))
		}
		require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
		require.Equal(t, "open 0", testenv.Value[string](b.Env, `SELECT status || ' ' || successes FROM recalls WHERE event_id = $1`, id))
		honest()
		b.taken(txn, "REFUND")
		require.Equal(t, time.Duration(-1), b.check(id))
		require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	})
}

// A "not found" is not proven by another's record: the bank that answers so finds nothing.
func TestStrangersRecordProvesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, known := b.confirmed()
	id := b.gone()
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.WrongRecord, Match: known.ID})
	for range 8 {
		require.Positive(t, b.check(id))
	}
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed", "credit provisional"}, entries)
	b.log.Has(t, "alert=not_found_doubted")
}

// Nor is an event that could not be posted posted from it by hand.
func TestStrangersRecordRepostsNothing(t *testing.T) {
	t.Parallel()
	strangers(t, func(t *testing.T, b *bundle, lie, honest func()) {
		b.openAtBank()
		id, _ := b.unposted()
		lie()
		_, err := b.svc.PlanRepost(b.ctx, id)
		require.Error(t, err)
		_, err = b.svc.Repost(b.ctx, id, byHand)
		require.Error(t, err)
		balance, entries := b.books()
		require.Equal(t, "0.00", balance)
		require.Empty(t, entries)
		honest()
		_, err = b.svc.Repost(b.ctx, id, byHand)
		require.NoError(t, err)
		balance, _ = b.books()
		require.Equal(t, "4975.00", balance)
	})
}

// Nor does a reversed payment count again for it.
func TestStrangersRecordRestoresNothing(t *testing.T) {
	t.Parallel()
	strangers(t, func(t *testing.T, b *bundle, lie, honest func()) {
		id, txn := b.confirmed()
		_, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
		require.NoError(t, err)
		b.taken(txn, "REFUND")
		require.Equal(t, time.Duration(-1), b.check(id))
		b.taken(txn, fakebank.StatusSuccess)
		lie()
		_, err = b.svc.PlanRestore(b.ctx, id)
		require.Error(t, err)
		_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
		require.Error(t, err)
		balance, entries := b.books()
		require.Equal(t, "0.00", balance)
		require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)
		honest()
		_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
		require.NoError(t, err)
	})
}

// unposted is a payment whose event came spoilt, and could not be posted.
func (b *bundle) unposted() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	event := b.bank.Event(fakebank.PaymentSuccess, txn)
	event.Data.Transaction.Fee = []byte(`null`)
	id := b.receive(b.eventOf(event)).ID
	require.Equal(b.T, payment.CategoryProcessingError, b.post(id).Category)
	return id, txn
}
