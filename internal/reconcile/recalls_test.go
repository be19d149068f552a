package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// No event came: the bank's list says that the payment was given back. It is held, asked about, and
// taken back; a second run finds nothing.
func TestReconciliationOpensARecall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	_, err := b.bank.ReverseSilently(b.ctx, txn.ID)
	require.NoError(t, err)
	b.Clock.Advance(time.Minute)
	r, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, 1, r.Counts[reconcile.Contradicts])
	require.Equal(t, []uuid.UUID{id}, b.dueNow(work.Confirm))
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	r, err = b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now())
	require.NoError(t, err)
	require.Empty(t, r.Exceptions)
	require.Empty(t, b.dueNow(work.Confirm))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))

	// The bank pays it after all, when its list of that day is not read any more.
	b.Clock.Advance(10 * 24 * time.Hour)
	b.recorded(txn, "SUCCESS")
	r, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"}, said(r))

	// It takes back what is under review, which waits for a person: the float knows.
	txn = b.paySilently("5000.00")
	b.recorded(txn, fakebank.StatusPending)
	id = b.receive(b.hook(txn)).ID
	b.post(id)
	b.Clock.Advance(10 * 24 * time.Hour)
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	for _, status := range []string{fakebank.StatusSuccess, fakebank.StatusRefund} {
		b.recorded(txn, status)
		_, err = b.payments.OpenRecall(b.ctx, txn.ID, payment.RecallByEvent)
		require.NoError(t, err)
		_, ran, err = b.svc.RunDaily(b.ctx, 72*time.Hour)
		require.NoError(t, err)
		require.True(t, ran)
		b.Clock.Advance(24 * time.Hour)
	}
	require.Equal(t, "-4975.00", testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items WHERE ref = $1`, txn.ID).String())
}

// Of more payments that recalls have reversed than the day's run may ask about, the next runs ask
// about the rest.
func TestManyThatTheBankTookBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.reversedByRecall()
	b.Exec(`INSERT INTO inbound_events (id, received_at, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, digest)
		SELECT ('ffffffff-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, $1, 'webhook', true, true, 'lost-' || n, 'lost-' || n, 'payment_success', 'ignored', sha256('lost')
		FROM generate_series(1, 200) n`, b.Clock.Now())
	b.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at, closed_at)
		SELECT id, $1, $2, 'event', 'reversed', 0, $3, $3 FROM inbound_events WHERE provider_txn_ref LIKE 'lost-%'`, b.tenant, b.account, b.Clock.Now())
	b.Clock.Advance(10 * 24 * time.Hour)
	b.recorded(txn, "SUCCESS")
	_, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(t, err)
	require.True(t, ran)
	b.Exec(`DELETE FROM reconcile_items WHERE ref LIKE 'lost-%'`)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"}, said(b.due()))
}

// A recall that the window no longer reaches is found by the item that an earlier run left, and one
// that an operator has dismissed holds nothing again.
func TestReconciliationRecallsAfterTheWindow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	b.recorded(txn, "REFUND")
	b.Clock.Advance(20 * time.Minute)
	b.due()
	require.Equal(t, []uuid.UUID{id}, b.dueNow(work.Confirm))
	_, err := b.payments.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	b.Clock.Advance(9 * time.Hour) // the window moves on
	b.due()
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	_, err = b.payments.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	b.Clock.Advance(45 * time.Minute) // a recall may be opened again, but the bank is not asked yet
	b.due()
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	_, err = dismiss(b.svc, txn.ID)
	require.NoError(t, err)
	b.Clock.Advance(25 * time.Hour)
	b.due() // a person has said what to make of it
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
}

// A person keeps a payment, of which the bank's record says that a part was given back: the next
// run names it, although no run reads the list of its day any more.
func TestKeptAgainstTheBanksRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	id, txn := b.confirmed()
	b.Clock.Advance(5 * 24 * time.Hour)
	require.Empty(t, b.due().Exceptions)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must("100.00") })
	_, err := b.payments.OpenRecall(b.ctx, txn.ID, payment.RecallByEvent)
	require.NoError(t, err)
	require.Error(t, b.payments.Confirm(b.ctx, id), "its record differs: a person must decide")
	_, err = b.payments.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	b.Clock.Advance(20 * time.Minute)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says refunded, the entry is confirmed"}, said(b.due()))
}

// So it is if nothing was held any more since the bank's record said success: what an operator
// keeps then, the bank is asked about no more.
func TestWatchedIsKeptAgainstTheBanksRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	id, txn := b.confirmed()
	b.Clock.Advance(5 * 24 * time.Hour)
	require.Empty(t, b.due().Exceptions)
	_, err := b.payments.OpenRecall(b.ctx, txn.ID, payment.RecallByEvent)
	require.NoError(t, err)
	for range 2 {
		require.Error(t, b.payments.Confirm(b.ctx, id), "its record says success: it is asked on")
		b.Clock.Advance(10 * time.Minute)
	}
	require.Equal(t, "watched", testenv.Value[string](b.Env, `SELECT status FROM recalls`))
	b.Clock.Advance(3 * 24 * time.Hour)
	require.Empty(t, b.due().Exceptions)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must("100.00") })
	_, err = b.payments.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	b.Clock.Advance(20 * time.Minute)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says refunded, the entry is confirmed"}, said(b.due()))
}

// A payment that a recall has reversed needs no question of the periodic run: the run of the day
// asks about it.
func TestReversedByARecallIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	id, txn := b.confirmed()
	b.Clock.Advance(5 * 24 * time.Hour)
	require.Empty(t, b.due().Exceptions)
	b.recorded(txn, "REFUND")
	_, err := b.payments.OpenRecall(b.ctx, txn.ID, payment.RecallByEvent)
	require.NoError(t, err)
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	require.Equal(t, "reversed", b.credit(id))
	asked := b.answersNothing()
	b.Clock.Advance(20 * time.Minute)
	require.Empty(t, b.due().Exceptions)
	require.Zero(t, *asked)
}

// A reversed payment is in no balance: whether the list has it is no question.
func TestReversedPaymentThatTheListLacks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.reversedByRecall()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	b.Clock.Advance(40 * time.Minute)
	asked := b.answersNothing()
	r := b.lastHour()
	require.Empty(t, r.Exceptions)
	require.Equal(t, []int{0, 1}, []int{*asked, r.Books.Reversed.Count})
}

// What is not confirmed yet is held like what is, from when the bank took it back.
func TestReconciliationRecallsWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.Clock.Advance(time.Minute)
	reversed := b.Clock.Now()
	_, err := b.bank.ReverseSilently(b.ctx, txn.ID)
	require.NoError(t, err)
	b.Clock.Advance(time.Minute)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says refunded, the entry is provisional"}, said(b.lastHour()))
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, reversed, b.since(txn.ID))
}

// The bank gave a part of a payment back, and an operator has counted the rest, which is what the
// bank's record says: no run opens a recall of the rest, and none reports it.
func TestCorrectedToWhatTheBankDidNotGiveBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	b.Clock.Advance(time.Minute)
	txn, rest := b.correctedTo("4900.00", "100.00")
	for range 3 {
		b.Clock.Advance(time.Hour)
		require.Empty(t, b.due().Exceptions)
		require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))

	// Another part is another matter.
	b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Amount = money.Must("200.00") })
	got, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-5*time.Hour), b.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, map[string]string{txn: "status_contradicts: the bank says refunded, the entry is confirmed"}, said(got))
	require.Equal(t, [2]string{"4875.00", "0.00"}, b.recalls())
	require.Equal(t, "confirmed", b.credit(rest))
}

// What the bank gave back is as much as an operator has counted: that may be all that there was.
func TestAllOfACorrectedPaymentIsGivenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	b.Clock.Advance(time.Minute)
	txn, _ := b.correctedTo("2500.00", "2500.00")
	b.Clock.Advance(time.Hour)
	require.Equal(t, map[string]string{txn: "status_contradicts: the bank says refunded, the entry is confirmed"}, said(b.due()))
	require.Equal(t, [2]string{"2475.00", "0.00"}, b.recalls())
}

// correctedTo makes a payment of 5,000.00, of which the bank's record says that a part was given
// back, and corrects its sum. It returns its transaction and the event that replaces it.
func (b *bundle) correctedTo(sum, part string) (string, uuid.UUID) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must(part) })
	b.confirm(id)
	require.Equal(b.T, "needs_review", b.credit(id))
	r, err := b.payments.Correct(b.ctx, id, payment.Correction{Amount: money.Must(sum), Fee: money.Must("25.00")}, byHand)
	require.NoError(b.T, err)
	return txn.ID, r.Replacement
}

// The bank has not said the end of a payment in a day, which goes under review, and says it weeks
// later: what the wallet has of it is known then.
func TestReviewOfWhatWasUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, txn := b.underWayForADay()
	for _, want := range []string{"0.00", "-4975.00"} {
		_, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-26*time.Hour), b.Clock.Now())
		require.NoError(t, err)
		require.Equal(t, want, testenv.Value[money.Amount](b.Env, `SELECT effect FROM reconcile_items WHERE ref = $1`, txn.ID).String())
		b.Clock.Advance(20 * 24 * time.Hour)
		b.recorded(txn, fakebank.StatusFailed)
	}
}
