package reconcile_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A payment that the bank has under way for longer than the window, and whose event never comes, is
// posted when the bank has done.
func TestPendingRecordIsAskedAboutUntilItIsFinal(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"paid": fakebank.StatusSuccess, "failed": fakebank.StatusFailed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := b.paySilently("5000.00")
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = fakebank.StatusPending })
			b.Clock.Advance(20 * time.Minute)
			require.Empty(t, b.due().Exceptions)
			b.Clock.Advance(25 * time.Hour) // the window has long moved on
			r := b.due()
			require.Equal(t, map[string]string{txn.ID: "still_pending: the bank has not reported its outcome for more than a day"}, said(r))
			require.Equal(t, 1, r.Suspicious())
			b.Clock.Advance(5 * 24 * time.Hour)
			b.due()

			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = end })
			b.Clock.Advance(time.Hour)
			r = b.due()
			balance, _ := b.books()
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			if end == fakebank.StatusFailed {
				require.Equal(t, "0.00", balance)
				require.Empty(t, r.Exceptions)
				return
			}
			require.Equal(t, "4975.00", balance)
			require.True(t, b.receive(b.hook(txn)).Duplicate, "the event that comes after all")
			b.Clock.Advance(time.Hour)
			require.Empty(t, b.due().Exceptions)
			balance, _ = b.books()
			require.Equal(t, "4975.00", balance)
		})
	}
}

// The record of a payment that is confirmed, or reversed, is under way again when the list is read:
// the bank is asked about it until it is final, since nobody else asks any more.
func TestRecordThatIsUnderWayAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(b *bundle) (uuid.UUID, fakebank.Transaction)
		end  string
		then func(b *bundle, id uuid.UUID, ref string, r reconcile.Report)
	}{
		"confirmed, and taken back": {(*bundle).confirmed, fakebank.StatusRefund, func(b *bundle, id uuid.UUID, ref string, r reconcile.Report) {
			require.Equal(b.T, map[string]string{ref: "status_contradicts: the bank says refunded, the entry is confirmed"}, said(r))
			require.Equal(b.T, [2]string{"4975.00", "0.00"}, b.recalls())
			require.NoError(b.T, b.payments.Confirm(b.ctx, id))
			require.Equal(b.T, [2]string{"0.00", "4975.00"}, b.recalls())
		}},
		"reversed, and paid after all": {(*bundle).wronglyReversed, fakebank.StatusSuccess, func(b *bundle, id uuid.UUID, _ string, _ reconcile.Report) {
			require.Equal(b.T, 1, b.replacements(id))
			balance, _ := b.books()
			require.Equal(b.T, "4975.00", balance)
			require.Zero(b.T, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := c.make(b)
			b.recorded(txn, fakebank.StatusPending)
			b.Clock.Advance(20 * time.Minute)
			require.Empty(t, b.due().Exceptions)
			b.Clock.Advance(5 * 24 * time.Hour) // no run reads the list of that day any more
			require.Equal(t, map[string]string{txn.ID: "still_pending: the bank has not reported its outcome for more than a day"}, said(b.due()))
			b.recorded(txn, c.end)
			b.Clock.Advance(2 * time.Hour)
			c.then(b, id, txn.ID, b.due())
		})
	}
}

// A person counts a payment that the bank has had under way for more than a day: the bank is asked
// on, and may say otherwise weeks later.
func TestDecisionAboutWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.underWayForADay()
	_, err := b.payments.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	b.Clock.Advance(20 * time.Minute)
	for range 2 {
		require.Equal(t, map[string]string{txn.ID: "still_pending: the bank has not reported its outcome for more than a day"}, said(b.due()))
		b.Clock.Advance(5 * 24 * time.Hour)
	}
	b.recorded(txn, fakebank.StatusFailed)
	b.due()
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
}

// The record of a payment, asked for by its id, has no time: the payment has its event's, or waits
// for a record that has one.
func TestRecordWithoutATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broken, waits := b.paySilently("6000.00"), b.paySilently("5000.00")
	spoilt := b.bank.Event(fakebank.PaymentSuccess, broken)
	spoilt.Data.Transaction.Fee = []byte(`null`)
	id := b.receive(b.eventOf(spoilt)).ID
	require.Equal(t, payment.CategoryProcessingError, b.post(id).Category)
	b.recorded(broken, fakebank.StatusPending)
	b.recorded(waits, fakebank.StatusPending)
	b.Clock.Advance(20 * time.Minute)
	b.due()
	b.Clock.Advance(4 * time.Hour)
	b.due() // from here on no window has them
	b.recorded(broken, fakebank.StatusSuccess)
	b.recorded(waits, fakebank.StatusSuccess)
	b.payments, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransaction: func(t *provider.Transaction) { t.Time = time.Time{} }})
	occurred := `SELECT occurred_at FROM inbound_events WHERE provider_txn_ref = $1`
	at := testenv.Value[time.Time](b.Env, occurred, broken.ID)
	b.Clock.Advance(time.Hour)
	require.Equal(t, "unreadable: the record is not stored: it does not say when the payment was made", said(b.due())[waits.ID])
	balance, _ := b.books()
	require.Equal(t, "5975.00", balance)
	require.Equal(t, at, testenv.Value[time.Time](b.Env, occurred, broken.ID))

	b.payments, b.svc = b.servicesWith(b.client())
	b.Clock.Advance(2 * time.Hour)
	b.due()
	balance, _ = b.books()
	require.Equal(t, "10950.00", balance)
	require.Equal(t, at, testenv.Value[time.Time](b.Env, occurred, waits.ID))
}

// A bank that does not answer, or does not find by its id what it has listed, is asked again.
func TestPendingRecordOfABankThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = fakebank.StatusPending })
	b.Clock.Advance(20 * time.Minute)
	b.due()
	b.Clock.Advance(4 * time.Hour)
	b.due()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = fakebank.StatusSuccess })
	for _, do := range []fakebank.Action{fakebank.NotFound, fakebank.Fail} {
		b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: do, Match: txn.ID})
		b.Clock.Advance(4 * time.Hour)
		b.due()
		require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`), do)
	}
	b.bank.Faults.Clear()
	b.Clock.Advance(time.Hour)
	b.due()
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
}

// What the list shows later than the periodic runs look is found by the run of the day, once for
// all workers, at the latest when three days are over.
func TestDailyRunLooksBackThreeDays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := b.paySilently("5000.00")
	b.bank.SetTransaction(late.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	b.Clock.Advance(20 * time.Minute)
	b.due()
	b.Clock.Advance(47 * time.Hour)
	b.due()
	b.daily(0)
	b.bank.SetTransaction(late.ID, func(x *fakebank.Transaction) { x.Hidden = false })
	require.Empty(t, b.due1().ToPost, "no periodic run looks so far back")
	b.Clock.Set(testenv.Epoch.Truncate(24 * time.Hour).Add(72*time.Hour + 3*time.Minute))
	r := b.daily(1)
	require.Equal(t, "daily", r.Kind)
	require.Equal(t, testenv.Epoch.Truncate(24*time.Hour), r.From, "three days ago")
	b.postAll(r.ToPost)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	_, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(t, err)
	require.False(t, ran, "once a day")
	b.Clock.Advance(24 * time.Hour)
	b.daily(0)

	b.Clock.Advance(5 * 24 * time.Hour) // nobody works
	r = b.daily(0)
	require.Equal(t, 5*24*time.Hour, r.To.Sub(r.From), "from where the last one ended")
}

// daily does the run of the day, which finds so many payments whose event never came.
func (b *bundle) daily(missing int) reconcile.Report {
	b.T.Helper()
	r, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(b.T, err)
	require.True(b.T, ran)
	require.Equal(b.T, missing, r.Counts[reconcile.MissingEvent])
	return r
}

// due1 is the next periodic run.
func (b *bundle) due1() reconcile.Report {
	b.T.Helper()
	b.Clock.Advance(15 * time.Minute)
	return b.due()
}

// An event that could not be posted is posted from the bank's own record, of which nothing in the
// event is left that the signature does not cover.
func TestProcessingErrorIsHealedByTheBanksRecord(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*fakebank.Event){
		"no fee":            func(e *fakebank.Event) { e.Data.Transaction.Fee = []byte(`null`) },
		"no amount":         func(e *fakebank.Event) { e.Data.Transaction.TransactionAmount = []byte(`"x"`) },
		"another currency":  func(e *fakebank.Event) { e.Data.Transaction.Currency = "USD" },
		"fee equals amount": func(e *fakebank.Event) { e.Data.Transaction.Fee = []byte(`5000`) },
		"fee above amount":  func(e *fakebank.Event) { e.Data.Transaction.Fee = []byte(`6000`) },
		"somebody else's account": func(e *fakebank.Event) {
			e.Data.Transaction.Fee, e.Data.Transaction.AliasReference, e.Data.Transaction.AliasNumber = []byte(`null`), uuid.NewString(), "0123456789"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
			txn := b.paySilently("5000.00")
			event := b.bank.Event(fakebank.PaymentSuccess, txn)
			spoil(&event)
			id := b.receive(b.eventOf(event)).ID
			require.Equal(t, payment.CategoryProcessingError, b.post(id).Category)

			r := b.lastHour()
			require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Healed: 1}, r.Counts)
			require.Zero(t, r.Suspicious())
			require.Equal(t, id, *r.Exceptions[0].EventID)
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver'`))
			got := testenv.Value[string](b.Env, `SELECT concat_ws(' ', status, category, error_message) FROM inbound_events WHERE id = $1`, id)
			require.Equal(t, "processed payment ", got)
			balance, entries := b.books()
			require.Equal(t, "4975.00", balance)
			require.Len(t, entries, 1)
			require.True(t, b.receive(b.eventOf(event)).Duplicate)
			require.Empty(t, b.lastHour().Exceptions)
			b.Clock.Advance(time.Minute)
			require.NoError(t, b.payments.Confirm(b.ctx, id))
			_, entries = b.books()
			require.Equal(t, []string{"credit confirmed"}, entries)
		})
	}
}

// An operator reposts what no run has healed, once, from the bank's own record only, with a trace
// in the audit log.
func TestRepostByAnOperator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	event := b.bank.Event(fakebank.PaymentSuccess, txn)
	event.Data.Transaction.Fee = []byte(`null`)
	id := b.receive(b.eventOf(event)).ID
	_, err := b.payments.Repost(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrNotUnposted, "it waits to be posted")
	b.post(id)

	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	_, err = b.payments.Repost(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrNotAtBank)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden, x.Status = false, fakebank.StatusPending })
	_, err = b.payments.Repost(b.ctx, id, byHand)
	require.ErrorContains(t, err, "the bank says pending")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Currency = fakebank.StatusSuccess, "USD" })
	_, err = b.payments.Repost(b.ctx, id, byHand)
	require.ErrorContains(t, err, "the bank's own record cannot be posted")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Currency = money.Currency })
	_, err = b.payments.Repost(b.ctx, uuid.New(), byHand)
	require.ErrorIs(t, err, payment.ErrEventNotFound)

	p, err := b.payments.Repost(b.ctx, id, byHand)
	require.NoError(t, err)
	require.Equal(t, payment.CategoryPayment, p.Category)
	require.Equal(t, b.Clock.Now().Add(30*time.Second), p.ConfirmAt)
	_, err = b.payments.Repost(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrNotUnposted)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'events.repost' AND target = $1`, "event:"+id.String()))
}

// Two operators at once: one posts it, the other hears that it is posted.
func TestRepostsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	event := b.bank.Event(fakebank.PaymentSuccess, b.paySilently("5000.00"))
	event.Data.Transaction.Fee = []byte(`null`)
	id := b.receive(b.eventOf(event)).ID
	b.post(id)
	ended := make(chan error, 2)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id = $1 FOR UPDATE`, id)
		require.NoError(t, err)
		for range 2 {
			go func() {
				_, err := b.payments.Repost(b.ctx, id, byHand)
				ended <- err
			}()
		}
		testenv.Eventually(t, time.Minute, "both to wait for the event", func() bool { return b.LockWaits() == 2 })
		return nil
	}))
	first, second := <-ended, <-ended
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.ErrorIs(t, second, payment.ErrNotUnposted)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
}

// An event that comes after the bank's list had its payment is its repeat. It is reported only when
// it is about other money: the list writes the rest in its own way.
func TestEventAfterTheList(t *testing.T) {
	t.Parallel()
	type tx = fakebank.EventTransaction
	for name, c := range map[string]struct {
		change   func(*tx)
		conflict bool
	}{
		"nothing":   {func(*tx) {}, false},
		"narration": {func(x *tx) { x.Narration = "another text" }, false},
		"no number": {func(x *tx) { x.AliasNumber = "" }, false},
		"amount":    {func(x *tx) { x.TransactionAmount = []byte("999999.0") }, true},
		"fee":       {func(x *tx) { x.Fee = []byte("0.0") }, true},
		"no fee":    {func(x *tx) { x.Fee = []byte("null") }, true},
		"currency":  {func(x *tx) { x.Currency = "USD" }, true},
		"number":    {func(x *tx) { x.AliasNumber = "0000000001" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := b.paySilently("5000.00")
			b.due1()
			b.due1()
			event := b.bank.Event(fakebank.PaymentSuccess, txn)
			c.change(&event.Data.Transaction)
			require.True(t, b.receive(b.eventOf(event)).Duplicate)
			if c.conflict {
				b.log.Has(t, "event_conflict")
			} else {
				b.log.HasNot(t, "event_conflict")
			}
			balance, _ := b.books()
			require.Equal(t, "4975.00", balance)
		})
	}
}

// A dismissed exception is quiet until it changes.
func TestDismissedExceptionIsQuietUntilItChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
	require.Len(t, b.lastHour().Exceptions, 1)
	_, err := dismiss(b.svc, "nobody's")
	require.ErrorIs(t, err, reconcile.ErrNotOpen)
	x, err := dismiss(b.svc, txn.ID)
	require.NoError(t, err)
	require.Equal(t, reconcile.Differs, x.Kind)
	require.Empty(t, b.lastHour().Exceptions)
	b.Clock.Advance(5 * time.Hour)
	require.Empty(t, b.lastHour().Exceptions)
	items, _, err := b.svc.OpenItems(b.ctx, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.NotNil(t, items[0].DismissedAt)
	require.Equal(t, "-1000.00", items[0].Effect.String())
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'reconcile.dismiss'`))

	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("3000.00") })
	require.Equal(t, map[string]string{txn.ID: "differs: amount is 3000.00, not 5000.00"}, said(b.lastHour()))
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("5000.00") })
	require.Empty(t, b.lastHour().Exceptions)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A report that agrees by now, as a run which was under way has found, is not dismissed.
func TestAReportThatIsGoneIsNotDismissed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
	require.Len(t, b.lastHour().Exceptions, 1)
	seen, err := b.svc.OpenException(b.ctx, txn.ID)
	require.NoError(t, err)
	require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `DELETE FROM reconcile_items WHERE ref = $1`, txn.ID)
		return err
	}, func() error {
		return b.svc.Dismiss(b.ctx, seen, byHand)
	}), reconcile.ErrNotOpen)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'reconcile.dismiss'`))
}

// What a later run has reported in its place, nobody has seen.
func TestAnotherReportIsNotDismissed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.post(b.receive(b.hook(txn)).ID)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
	require.Len(t, b.lastHour().Exceptions, 1)
	seen, err := b.svc.OpenException(b.ctx, txn.ID)
	require.NoError(t, err)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("3000.00") })
	require.Len(t, b.lastHour().Exceptions, 1)
	require.ErrorIs(t, b.svc.Dismiss(b.ctx, seen, byHand), reconcile.ErrOther)
	require.Len(t, b.lastHour().Exceptions, 1, "it is still reported")
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'reconcile.dismiss'`))
}
