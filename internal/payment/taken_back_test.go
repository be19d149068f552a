package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// What recalls have taken back since a time: what they have reversed from then on, and what is
// under review while one is open; neither what was kept nor what is still in the balance.
func TestWhatRecallsHaveTakenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opened := func(id uuid.UUID) string {
		t.Helper()
		e, err := b.svc.InboundEvent(b.ctx, id)
		require.NoError(t, err)
		require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
		return e.ProviderTxnRef
	}
	reversed := func() string {
		t.Helper()
		id, _ := b.confirmed()
		ref := opened(id)
		_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
		require.NoError(t, err)
		return ref
	}
	reversed()
	last := reversed() // the clock stands still from its end on
	since := b.Clock.Now()
	kept, _ := b.confirmed()
	opened(kept)
	_, err := b.svc.DecideRecall(b.ctx, kept, payment.RecallKept, byHand)
	require.NoError(t, err)
	held := opened(b.held())
	confirmed, _ := b.confirmed()
	opened(confirmed)
	is := func(since time.Time, limit int, want ...string) {
		t.Helper()
		found, err := b.svc.TakenBack(b.ctx, since, limit)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
	is(since, 10, held, last)
	is(since, 1, held)
	is(since.Add(time.Microsecond), 10, held)
	require.Len(t, testenv.Value[[]string](b.Env, `SELECT array_agg(status) FROM recalls WHERE status = 'reversed'`), 2)
}

// A person has kept a payment that the bank was said to have taken back, and counts it once more
// after a review: the recall is over, and holds nothing.
func TestReviewOfAPaymentThatWasKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.paid()
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	require.NotNil(t, b.DueAt(work.Confirm, id), "the bank has not confirmed it yet")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	require.Equal(t, time.Duration(-1), b.check(id))
	r, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	require.Equal(t, ledger.Confirmed, r.Status)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	require.Nil(t, b.DueAt(work.Confirm, id))
	require.Equal(t, "kept", testenv.Value[string](b.Env, `SELECT status FROM recalls`))
}

// A payment that the bank has denied is in no balance: nothing of it can be recalled.
func TestRecallOfADeniedPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.wronglyReversed()
	for _, source := range []payment.RecallSource{payment.RecallByEvent, payment.RecallByReconciliation, payment.RecallByOperator} {
		opened, err := b.svc.OpenRecall(b.ctx, txn.ID, source)
		require.NoError(t, err)
		require.Equal(t, uuid.Nil, opened)
	}
	require.ErrorIs(t, b.svc.OpenRecallByHand(b.ctx, id, byHand), payment.ErrNotRecallable)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM recalls`))
	require.Equal(t, "the bank says failed", testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id))
}

// Whoever opens a recall waits for the payment, and not for an event that says that it was taken
// back: who has that one may wait for the payment.
func TestRecallLocksNoReversal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	word := b.receive(b.reversal(txn)).ID
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	var opened uuid.UUID
	require.NoError(t, b.Beside(testenv.Runs(`SELECT FROM inbound_events WHERE id = $1 FOR UPDATE`, word), func() (err error) {
		opened, err = b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
		return err
	}))
	require.Equal(t, id, opened)
}
