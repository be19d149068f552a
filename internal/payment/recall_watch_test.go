package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// watched is a payment that the bank's event says was taken back, and that its record says twice
// was not: the hold has ended, and the bank is asked on.
func (b *bundle) watched() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	id, txn := b.confirmed()
	b.receive(b.reversal(txn))
	require.Equal(b.T, 30*time.Second, b.check(id))
	require.Positive(b.T, b.check(id), "it is asked on")
	require.Equal(b.T, [2]string{"0.00", "0.00"}, b.recalls(), "two answers free the money")
	return id, txn
}

func (b *bundle) recallStatus(id uuid.UUID) string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT status FROM recalls WHERE event_id = $1`, id)
}

// recallSteps are what a payment's timeline says of its recall.
func (b *bundle) recallSteps(id uuid.UUID) (steps []string) {
	b.T.Helper()
	line, err := b.svc.Timeline(b.ctx, b.tenant, id)
	require.NoError(b.T, err)
	for _, s := range line.Timeline {
		if s.Step == payment.StepRecalled || s.Step == payment.StepRecallClosed {
			steps = append(steps, string(s.Step)+" "+s.Outcome)
		}
	}
	return steps
}

// The bank's question by id is served from a copy that lags for hours or days behind its event: it
// says success, the hold ends, and the reversal was real all the same.
func TestRecordIsDaysBehindTheRecall(t *testing.T) {
	t.Parallel()
	for name, lag := range map[string]time.Duration{"five hours": 5 * time.Hour, "ten days": 10 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.watched()
			since, asked := b.Clock.Now(), 0
			for ; b.Clock.Now().Sub(since) < lag; asked++ {
				require.Positive(t, b.check(id))
			}
			require.Less(t, asked, 20, "less and less often")
			b.taken(txn, "REFUND")
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
			require.Equal(t, "reversed", b.recallStatus(id))
			b.log.Has(t, "alert=recalled")
		})
	}
}

// What still says success after two weeks is believed. Until then it is listed, and counts among
// what is open; what is no answer does not end it.
func TestWatchedRecallEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.watched()
	since := b.Clock.Now()
	list, _, err := b.svc.Recalls(b.ctx, payment.RecallWatched, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []any{id, since.Add(10 * time.Minute)}, []any{list[0].EventID, list[0].NextAttemptAt.UTC()})
	require.Contains(t, list[0].LastError, "asked for two more weeks")
	state, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 1, 0}, []int64{state.RecallCount, state.WatchedCount, state.ProvisionalCount})
	require.Equal(t, []string{"recalled watched"}, b.recallSteps(id), "its tenant is not told that it was not taken back")
	for b.Clock.Now().Sub(since) < 13*24*time.Hour {
		require.Positive(t, b.check(id))
	}
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	for range 3 {
		require.Equal(t, 24*time.Hour, b.check(id))
	}
	b.bank.Faults.Clear()
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, "kept", b.recallStatus(id))
	require.Equal(t, []string{"recalled ", "recall_closed kept"}, b.recallSteps(id))
	require.Equal(t, since, testenv.Value[time.Time](b.Env, `SELECT closed_at FROM recalls`).UTC(), "when its hold ended")
	require.Empty(t, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id))
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
}

// A payment that was said to be taken back several times says so of each time.
func TestTimelineHasEveryRecall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.watched()
	b.Clock.Advance(time.Hour)
	require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
	require.Equal(t, []string{"recalled ", "recalled open"}, b.recallSteps(id), "it was watched")
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	b.Clock.Advance(time.Hour)
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	require.Equal(t, []string{"recalled ", "recalled ", "recall_closed kept", "recalled open"}, b.recallSteps(id))
	b.Clock.Advance(time.Hour)
	_, err = b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
	require.NoError(t, err)
	require.Equal(t, []string{"recalled ", "recalled ", "recall_closed kept", "recalled ", "recall_closed reversed"}, b.recallSteps(id))
}

// An operator who has the bank's word ends it either way.
func TestWatchedRecallIsDecided(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.watched()
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	require.Equal(t, "kept", b.recallStatus(id))
	require.NoError(t, b.svc.Confirm(b.ctx, id), "nothing is left to ask")

	id, txn := b.watched()
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	b.check(id)
	b.check(id)
	require.Equal(t, "watched", b.recallStatus(id))
	r, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
	require.NoError(t, err)
	require.Equal(t, "4975.00", r.Balance.String())
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	require.Equal(t, "reversed", b.recallStatus(id))
	b.taken(txn, "REFUND")
	require.NoError(t, b.svc.Confirm(b.ctx, id), "and again changes nothing")
}

// An operator confirms a payment under review while the bank is asked whether it took the payment
// back: payment.confirmed is published once that is clear, if it did not, and once.
func TestReviewConfirmedDuringARecall(t *testing.T) {
	t.Parallel()
	const confirmed, reversed = "payment.received 4975.00, payment.confirmed 4975.00", "payment.reversed 4975.00, payment.received 4975.00"
	record := func(status string) func(*bundle, uuid.UUID, fakebank.Transaction) {
		return func(b *bundle, id uuid.UUID, txn fakebank.Transaction) {
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Fee = status, money.Must("25.00") })
			for status == "SUCCESS" && b.check(id) == 30*time.Second {
				require.Equal(b.T, "payment.received 4975.00", b.toldOf(id), "the record may lag")
			}
			if status != "SUCCESS" {
				require.Equal(b.T, time.Duration(-1), b.check(id))
			}
		}
	}
	for name, c := range map[string]struct {
		end  func(*bundle, uuid.UUID, fakebank.Transaction)
		told string
	}{
		"the record says success": {record("SUCCESS"), confirmed},
		"the record says refund":  {record("REFUND"), reversed},
		"an operator keeps it": {func(b *bundle, id uuid.UUID, _ fakebank.Transaction) {
			_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
			require.NoError(b.T, err)
		}, confirmed},
		"an operator reverses it": {func(b *bundle, id uuid.UUID, _ fakebank.Transaction) {
			_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
			require.NoError(b.T, err)
		}, reversed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tellsAll()
			id, txn := b.paid()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
			b.receive(b.reversal(txn))
			require.Positive(t, b.check(id), "it is under review, and the bank is asked on")
			_, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
			require.NoError(t, err)
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
			require.Equal(t, "payment.received 4975.00", b.toldOf(id))
			require.Positive(t, b.check(id), "the record differs still")
			require.Equal(t, "payment.received 4975.00", b.toldOf(id))
			c.end(b, id, txn)
			require.Equal(t, c.told, b.toldOf(id))
			if c.told == confirmed { // a recall later on has nothing to catch up on
				b.Exec(`UPDATE tenants SET listening_until = $2 WHERE id = $1`, b.tenant, b.Clock.Now().Add(time.Hour))
				if b.recallStatus(id) == "watched" {
					_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
					require.NoError(t, err)
				}
				require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
				_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
				require.NoError(t, err)
				require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM listen_events`))
			}
		})
	}
}

// The bank's record of a watched recall catches up. What says that the whole sum went back reverses
// the payment, whether or not the fee was given back as well; any other record than "success" holds
// the sum again until a later one, or a person, decides.
func TestRecordOfAWatchedRecallChanges(t *testing.T) {
	t.Parallel()
	none := money.Zero
	for name, c := range map[string]struct {
		change func(*fakebank.Transaction)
		held   bool
	}{
		"refunded, with its fee": {func(x *fakebank.Transaction) { x.Status, x.Fee = "REFUND", none }, false},
		"failed, without a fee":  {func(x *fakebank.Transaction) { x.Status, x.Fee = "PAYMENT_FAILED", none }, false},
		"a part refunded":        {func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must("2000.00") }, true},
		"the rest is paid":       {func(x *fakebank.Transaction) { x.Amount = money.Must("3000.00") }, true},
		"under way":              {func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.watched()
			b.bank.SetTransaction(txn.ID, c.change)
			next := b.check(id)
			if !c.held {
				require.Equal(t, time.Duration(-1), next)
				require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
				require.Equal(t, "reversed", b.recallStatus(id))
				return
			}
			require.Equal(t, 30*time.Second, next)
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
			require.Equal(t, "open", b.recallStatus(id))
			require.Equal(t, []string{"recalled ", "recalled open"}, b.recallSteps(id))
			b.log.Has(t, "alert=recall_held_again")
			require.Positive(t, b.check(id))
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls(), "once")
			state, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now().Add(3*time.Hour))
			require.NoError(t, err)
			require.Equal(t, []any{int64(1), int64(0)}, []any{state.RecallCount, state.WatchedCount})
			require.GreaterOrEqual(t, state.RecallOldest, 3*time.Hour)
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { *x = txn; x.Status = "REFUND" })
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
		})
	}
}

// What is no answer about the payment neither holds it again nor ends the recall.
func TestWatchedRecallWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.watched()
	for _, change := range []func(*fakebank.Transaction){
		func(x *fakebank.Transaction) { x.Hidden = true },
		func(x *fakebank.Transaction) { x.Hidden, x.Wrong = false, true },
	} {
		b.bank.SetTransaction(txn.ID, change)
		require.Positive(t, b.check(id))
		require.Equal(t, []any{"watched", [2]string{"0.00", "0.00"}}, []any{b.recallStatus(id), b.recalls()})
	}
}
