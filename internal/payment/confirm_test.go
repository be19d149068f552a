package payment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

func newAccount(id uuid.UUID) provider.NewAccount {
	return provider.NewAccount{Ref: id.String(), Name: "Ada Obi Stores"}
}

// paid makes a payment at the bank and posts its event; its id is the event's.
func (b *bundle) paid() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	b.openAtBank()
	txn := b.paySilently("5000.00")
	r := b.receive(b.sign(b.bank.EventFor(txn)))
	require.Equal(b.T, payment.CategoryPayment, b.post(r.ID).Category)
	return r.ID, txn
}

// check lets the first check's time come and asks once; it returns the gap to the next check, or -1
// at the end.
func (b *bundle) check(id uuid.UUID) time.Duration {
	b.T.Helper()
	next := b.DueAt(work.Confirm, id)
	require.NotNil(b.T, next, "a check is due")
	if next.After(b.Clock.Now()) {
		b.Clock.Set(*next)
	}
	err := b.svc.Confirm(b.ctx, id)
	if err == nil {
		require.Nil(b.T, b.DueAt(work.Confirm, id))
		return -1
	}
	at, ok := retry.When(err)
	require.True(b.T, ok, "%v", err)
	return at.Sub(b.Clock.Now())
}

func TestConfirmed(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.confirmed")
	b := setup(t)
	id, _ := b.paid()
	require.NoError(t, b.svc.Confirm(b.ctx, id), "not due yet: nothing happens")
	_, entries := b.books()
	require.Equal(t, []string{"credit provisional"}, entries)
	require.Equal(t, time.Duration(-1), b.check(id))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit confirmed"}, entries)
	require.NoError(t, b.svc.Confirm(b.ctx, id), "and again changes nothing")
}

// The payment was published to the tenant once, when it was posted; that it is confirmed stands in
// the statement only.
func TestConfirmationIsNotDelivered(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.out.no-second", "event.out.statement", "state.entry.confirmed.silent")
	b := setup(t)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	id, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(id))
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
	require.Equal(t, []string{"payment.received provisional"}, b.Published(id))
}

// The other ends: in each the statement's totals agree with the balance (books checks it).
func TestFourEndsOfAConfirmation(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.reversed", "state.entry.review")
	reversed := []string{"credit reversed", "debit reversed"}
	cases := map[string]struct {
		change  func(*fakebank.Transaction)
		balance string
		entries []string
		why     string
	}{
		"failed":           {func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" }, "0.00", reversed, "the bank says failed"},
		"given back":       {func(x *fakebank.Transaction) { x.Status = "REFUND" }, "0.00", reversed, "the bank says refunded"},
		"part given back":  {func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must("100.00") }, "0.00", []string{"credit needs_review"}, "the bank says refunded, but its record differs: amount is 100.00, not 5000.00"},
		"different amount": {func(x *fakebank.Transaction) { x.Amount = money.Must("4999.99") }, "0.00", []string{"credit needs_review"}, "the bank's record differs: amount is 4999.99, not 5000.00"},
		"different fee":    {func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") }, "0.00", []string{"credit needs_review"}, "the bank's record differs: fee is 10.00, not 25.00"},
		"other currency":   {func(x *fakebank.Transaction) { x.Currency = "USD" }, "0.00", []string{"credit needs_review"}, "the bank's record differs: currency is USD, not NGN"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.paid()
			b.bank.SetTransaction(txn.ID, c.change)
			require.Equal(t, time.Duration(-1), b.check(id))
			balance, entries := b.books()
			require.Equal(t, c.balance, balance)
			require.Equal(t, c.entries, entries)
			require.Equal(t, c.why, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id))
			b.log.HasNot(t, "alert=negative_balance")
			if c.entries[0] == reversed[0] {
				b.log.Has(t, "alert=reversed")
			} else {
				b.log.HasNot(t, "alert=reversed")
			}
		})
	}
}

func TestNotFoundReversesAfterThreeChecksAndHalfAnHour(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.reversed", "state.entry.reversed.entry")
	b := setup(t)
	id, txn := b.paid()
	posted := b.Clock.Now()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	var at []time.Duration
	for b.check(id) >= 0 {
		at = append(at, b.Clock.Now().Sub(posted))
		_, entries := b.books()
		require.Equal(t, []string{"credit provisional"}, entries)
	}
	require.GreaterOrEqual(t, len(at)+1, 3)
	require.GreaterOrEqual(t, b.Clock.Now().Sub(posted), 30*time.Minute)
	require.Less(t, at[len(at)-1], 30*time.Minute, "the first check after half an hour decides")
	balance, entries := b.books()
	require.Equal(t, "0.00", balance)
	require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)
}

func TestFoundLateIsConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.paid()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	require.Equal(t, time.Minute, b.check(id))
	require.Equal(t, 2*time.Minute, b.check(id))
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = false })
	require.Equal(t, time.Duration(-1), b.check(id))
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
}

// A bank that is down, answers with somebody else's record, or says "under way" gives no answer:
// after a day a person looks.
func TestUnclearForADayNeedsReview(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.review")
	cases := map[string]func(b *bundle, txn string){
		"down": func(b *bundle, _ string) { b.bank.Faults.SetDown(fakebank.DownAnswer) },
		"another record": func(b *bundle, txn string) {
			b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Wrong = true })
		},
		"under way": func(b *bundle, txn string) {
			b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" })
		},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.paid()
			deadline := b.Clock.Now().Add(24 * time.Hour)
			fault(b, txn.ID)
			for b.check(id) >= 0 {
				require.True(t, b.Clock.Now().Before(deadline))
				_, entries := b.books()
				require.Equal(t, []string{"credit provisional"}, entries)
				b.Exec(`UPDATE work SET due_at = least(due_at, $1)`, deadline)
			}
			require.Equal(t, deadline, b.Clock.Now())
			balance, entries := b.books()
			require.Equal(t, "0.00", balance)
			require.Equal(t, []string{"credit needs_review"}, entries)
			b.log.Has(t, "alert=needs_review")
		})
	}
}

// While nobody asked for a day, a bank that does not answer the first questions after that has not
// been given its time: it is asked on as after any posting.
func TestNobodyAskedForADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.paid()
	b.Clock.Advance(25 * time.Hour)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	for range len(defaults.ConfirmDelays) - 1 {
		require.Positive(t, b.check(id))
		_, entries := b.books()
		require.Equal(t, []string{"credit provisional"}, entries)
	}
	b.bank.Faults.Clear()
	require.Equal(t, time.Duration(-1), b.check(id))
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
}

// A question that had no turn was not asked, and has no answer: however often that happens, and
// however old the payment is, it is asked on as before.
func TestAQuestionWithoutATurnIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	busy := true // the limit of calls leaves no turn for questions
	b.svc = b.serviceWith(testenv.BankWith{Bank: b.client(), BeforeTransaction: func(string) error {
		if busy {
			return fmt.Errorf("not sent: %w", provider.ErrBusy)
		}
		return nil
	}})
	id, _ := b.paid()
	b.Clock.Advance(25 * time.Hour)
	for range 2 * len(defaults.ConfirmDelays) {
		require.Equal(t, 5*time.Second, b.check(id))
		_, entries := b.books()
		require.Equal(t, []string{"credit provisional"}, entries)
	}
	var asked int
	require.NoError(t, b.Pool.QueryRow(b.ctx, `SELECT attempt_count FROM inbound_events WHERE id = $1`, id).Scan(&asked))
	require.Zero(t, asked)
	busy = false
	require.Equal(t, time.Duration(-1), b.check(id))
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
}

// A worker that dies between its claim and its record costs a lease, not a payment.
func TestLostLeaseIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.paid()
	b.Clock.Advance(30 * time.Second)
	b.Exec(`UPDATE work SET leased_until = $2 WHERE id = $1`, id, b.Clock.Now().Add(time.Minute))
	require.NoError(t, b.svc.Confirm(b.ctx, id), "somebody else has it")
	_, entries := b.books()
	require.Equal(t, []string{"credit provisional"}, entries)
	require.Empty(t, b.Overdue(work.Confirm, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), "what is leased is not overdue")
	b.Clock.Advance(time.Minute)
	require.Equal(t, []uuid.UUID{id}, b.Overdue(work.Confirm, b.Clock.Now(), b.Clock.Now(), 10))
	require.NoError(t, b.svc.Confirm(b.ctx, id))
	_, entries = b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
}

func TestKnownNamesWhatWasAskedForAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, first := b.paid()
	event, second := b.paid()
	known, err := b.svc.Known(b.ctx, []string{second.ID, "nobody's"})
	require.NoError(t, err)
	require.Len(t, known, 1, "not %s", first.ID)
	require.Equal(t, event, known[second.ID].EventID)
	require.Equal(t, "4975.00", known[second.ID].Entry.Amount.Sub(known[second.ID].Entry.Fee).String())
}
