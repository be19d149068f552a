package reconcile_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// wronglyReversed is a payment that was reversed because the bank said failed, and whose record it
// has corrected since.
func (b *bundle) wronglyReversed() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.recorded(txn, fakebank.StatusFailed)
	b.confirm(id)
	require.Equal(b.T, "reversed", b.credit(id))
	b.recorded(txn, fakebank.StatusSuccess)
	return id, txn
}

// confirm has the bank asked about a payment.
func (b *bundle) confirm(id uuid.UUID) {
	b.T.Helper()
	b.Clock.Advance(30 * time.Second)
	require.NoError(b.T, b.payments.Confirm(b.ctx, id))
}

// replacements are the events that stand in the place of one.
func (b *bundle) replacements(id uuid.UUID) int {
	return testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE replaces = $1`, id)
}

// restored is the line of the audit log about a restored payment.
func (b *bundle) restored(id uuid.UUID) string {
	return testenv.Value[string](b.Env, `SELECT coalesce(string_agg(actor || ' ' || action, ', '), '') FROM audit_log WHERE target = 'event:' || $1::text`, id)
}

func TestWronglyReversedIsRestored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	id, txn := b.wronglyReversed()
	r := b.lastHour()
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Healed: 1}, r.Counts)
	require.Zero(t, r.Suspicious())
	again := *r.Exceptions[0].EventID
	require.NotEqual(t, id, again)
	require.NotZero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver'`))
	require.Equal(t, b.Clock.Now().Add(30*time.Second), b.DueAt(work.Confirm, again).UTC())
	require.Equal(t, "reconciliation review.restore", b.restored(id))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit reversed", "debit reversed", "credit provisional"}, entries)
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE event_type = 'payment.received'`), "the tenant is notified of it")
	for range 2 {
		require.Empty(t, b.lastHour().Exceptions)
	}
	b.confirm(again)
	require.Equal(t, "confirmed", b.credit(again))
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())

	// The bank takes it back, and says success once more: it is a person's to decide.
	b.recorded(txn, "REFUND")
	b.lastHour()
	require.Equal(t, []uuid.UUID{again}, b.dueNow(work.Confirm))
	b.confirm(again)
	require.Equal(t, "reversed", b.credit(again))
	b.recorded(txn, fakebank.StatusSuccess)
	for range 2 {
		require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"}, said(b.lastHour()))
	}
	require.Zero(t, b.replacements(again))
	_, err := b.payments.RestoreReversed(b.ctx, again, byHand)
	require.NoError(t, err)
	require.Empty(t, b.lastHour().Exceptions)
}

// The bank says failed, then by its event that it took the payment back, and then its record says
// success, which may lag: whether the event came before the run or while it waits for the payment,
// a person decides.
func TestWhatTheBankTookBackIsNotRestored(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"before the run": false, "beside it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.wronglyReversed()
			var r reconcile.Report
			if beside {
				require.NoError(t, b.Meanwhile(func(tx pg.Tx) error { // as openRecalls does
					_, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, id)
					if err == nil {
						_, err = tx.Exec(b.ctx, `INSERT INTO event_keys (request, transaction, event_id, event_type) VALUES (event_key('r'), event_key($1), $2, 'payment_reversal')`, txn.ID, uuid.New())
					}
					return err
				}, func() error {
					r = b.lastHour()
					return nil
				}))
			} else {
				e := b.bank.Event(fakebank.PaymentReversal, txn)
				e.RequestID = uuid.NewString()
				b.receive(b.eventOf(e))
				r = b.lastHour()
			}
			want := map[string]string{txn.ID: "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"}
			require.Equal(t, want, said(r))
			require.Equal(t, want, said(b.lastHour()))
			require.Zero(t, b.replacements(id))
			_, err := b.payments.RestoreReversed(b.ctx, id, byHand)
			require.NoError(t, err)
			require.Empty(t, b.lastHour().Exceptions)
		})
	}
}

// Runs and operators at once restore a payment once.
func TestRestorationsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.wronglyReversed()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { _, _ = b.payments.RestoreReversed(b.ctx, id, byHand) })
	}
	wg.Wait()
	require.Equal(t, 1, b.replacements(id))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Len(t, entries, 3)
	require.Empty(t, b.lastHour().Exceptions)
}

// underReview is a payment that a run has seen, and that is under review since: the bank's record
// has another fee.
func (b *bundle) underReview() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	txn := b.paySilently("5000.00")
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.Clock.Advance(time.Hour)
	require.Empty(b.T, b.due().Exceptions, "bank and books agree")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	b.confirm(id)
	return id, txn
}

// A payment that an operator has decided on is asked about, though its list was read long before.
func TestDecisionThatTheBankContradicts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	b.Clock.Advance(time.Minute)
	id, txn := b.underReview()
	b.Clock.Advance(time.Hour)
	require.Empty(t, b.due().Exceptions, "it is under review")
	b.Clock.Advance(time.Minute)
	_, err := b.payments.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
	require.NoError(t, err)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
	for range 2 {
		b.Clock.Advance(time.Hour)
		r := b.due()
		require.Len(t, r.Exceptions, 1, "%+v", r)
		require.Equal(t, reconcile.Contradicts, r.Exceptions[0].Kind)
	}
	b.recorded(txn, "PAYMENT_FAILED")
	b.Clock.Advance(time.Hour)
	require.Empty(t, b.due().Exceptions, "they agree")
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// A decision that a run has no question left for is asked about by the next one.
func TestDecisionBesideManyOpenItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.underReview()
	b.Exec(`INSERT INTO reconcile_items (id, kind, ref, found_at, due_at) SELECT gen_random_uuid(), 'payment', 'lost-' || n, $1, $1 FROM generate_series(1, 200) n`,
		b.Clock.Now().Add(-30*24*time.Hour))
	_, err := b.payments.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
	require.NoError(t, err)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
	b.Clock.Advance(30 * time.Minute) // the run is of the time of the decision
	require.Empty(t, b.due().Exceptions, "it asks as often as it may")
	b.Exec(`DELETE FROM reconcile_items WHERE ref LIKE 'lost-%'`)
	b.Clock.Advance(15 * time.Minute)
	require.Equal(t, map[string]string{txn.ID: "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"}, said(b.due()))
}

func TestNotRestored(t *testing.T) {
	t.Parallel()
	const restore = "status_contradicts: the bank says success, the entry is reversed: see ajo review restore"
	for name, c := range map[string]struct {
		reverse func(b *bundle) (uuid.UUID, fakebank.Transaction)
		says    string
	}{
		"reversed in review by an operator": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			txn := b.paySilently("5000.00")
			id := b.receive(b.hook(txn)).ID
			b.post(id)
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
			b.confirm(id)
			_, err := b.payments.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
			require.NoError(b.T, err)
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("25.00") })
			return id, txn
		}, restore},
		"taken back by the bank": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.confirmed()
			b.recorded(txn, "REFUND")
			b.lastHour()
			b.confirm(id)
			b.recorded(txn, fakebank.StatusSuccess)
			return id, txn
		}, restore},
		"taken back by an operator": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.confirmed()
			require.NoError(b.T, b.payments.OpenRecallByHand(b.ctx, id, byHand))
			_, err := b.payments.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
			require.NoError(b.T, err)
			return id, txn
		}, restore},
		"of another sum": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.wronglyReversed()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
			return id, txn
		}, "status_contradicts: the bank says success, the entry is reversed, and amount is 4000.00, not 5000.00: see ajo review correct"},
		"on another account": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.wronglyReversed()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.NUBAN = "9990001112" })
			return id, txn
		}, "status_contradicts: the bank says success, the entry is reversed, and account number is 9990001112, not OURS: see ajo events assign"},
		"assigned by an operator": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.wronglyReversed()
			b.ExecUnguarded(`UPDATE inbound_events SET error_message = 'no account', alias_number = $2 WHERE id = $1`, id, txn.NUBAN)
			b.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at, closed_at) VALUES ($1, $2, $3, 'operator', 'reversed', 0, $4, $4)`,
				id, b.tenant, b.account, b.Clock.Now())
			return id, txn
		}, restore + ", or ajo events assign if that was the wrong account"},
		"only the list says success": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.wronglyReversed()
			b.payments, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransaction: func(t *provider.Transaction) { t.Status = provider.Failed }})
			return id, txn
		}, restore},
		"the bank gives no answer": {func(b *bundle) (uuid.UUID, fakebank.Transaction) {
			id, txn := b.wronglyReversed()
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Garbage, Match: txn.ID})
			return id, txn
		}, restore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := c.reverse(b)
			require.Equal(t, "reversed", b.credit(id))
			says := strings.Replace(c.says, "OURS", testenv.Value[string](b.Env, `SELECT bank_account_number FROM accounts WHERE id = $1`, b.account), 1)
			for range 2 {
				r := b.lastHour()
				require.Equal(t, map[string]string{txn.ID: says}, said(r))
			}
			require.Zero(t, b.replacements(id))
			balance, _ := b.books()
			require.Equal(t, "0.00", balance)
		})
	}
}

// What was not restored at once, as the bank gave no answer, is restored when it answers, also when
// no window has the payment any more; and what differs in its sum is corrected by an operator.
func TestReversedIsSettledLater(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bundle, id uuid.UUID){
		"restored": func(b *bundle, _ uuid.UUID) { b.bank.Faults.Clear() },
		"corrected": func(b *bundle, id uuid.UUID) {
			b.bank.Faults.Clear()
			_, err := b.payments.Correct(b.ctx, id, payment.Correction{Amount: money.Must("4000.00"), Fee: money.Must("25.00")}, byHand)
			require.NoError(b.T, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.wronglyReversed()
			want := "4975.00"
			if name == "corrected" {
				want = "3975.00"
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
			}
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Garbage, Match: txn.ID})
			b.Clock.Advance(20 * time.Minute)
			require.Equal(t, 1, b.due().Counts[reconcile.Contradicts])
			b.Clock.Advance(6 * time.Hour)
			require.Equal(t, 1, b.due().Counts[reconcile.Contradicts])
			end(b, id)
			b.Clock.Advance(time.Hour)
			r := b.due()
			require.Zero(t, r.Suspicious())
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			balance, _ := b.books()
			require.Equal(t, want, balance)
		})
	}
}

// An answer about one record that cannot be used fails no run: the record is named, asked about in
// the next run, and the others are compared.
func TestUnusableAnswerFailsNoRun(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]fakebank.Action{"a page": fakebank.Garbage, "an error": fakebank.Fail, "another's record": fakebank.WrongRecord} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("50000.00")
			broken, fine := b.paySilently("5000.00"), b.paySilently("6000.00")
			for _, txn := range []fakebank.Transaction{broken, fine} {
				b.post(b.receive(b.hook(txn)).ID)
			}
			b.payAtBank("AJO-broken", "100.00")
			b.payAtBank("AJO-fine", "200.00")
			b.Clock.Advance(2 * time.Minute)
			b.inBooks("AJO-broken", "success", "100.00", "0")
			b.inBooks("AJO-fine", "success", "200.00", "0")
			b.Exec(`UPDATE inbound_events SET occurred_at = occurred_at + interval '2 minutes' WHERE provider_txn_ref = ANY($1)`, []string{broken.ID, fine.ID})
			from := b.Clock.Now().Add(-time.Minute)
			b.Clock.Advance(40 * time.Minute)
			b.bank.Faults.Set(
				fakebank.Rule{On: fakebank.OnTransactions, Do: do, Match: broken.ID}, fakebank.Rule{On: fakebank.OnPayoutStatus, Do: do, Match: "AJO-broken"})
			for range 2 {
				r, err := b.svc.Run(b.ctx, from, b.Clock.Now())
				require.NoError(t, err)
				require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unreadable: 2}, r.Counts)
				require.Equal(t, 2, r.Elsewhere, "the others were asked about")
				require.Contains(t, said(r)[broken.ID], "gave no answer about it that can be used")
				require.Contains(t, said(r)["AJO-broken"], "gave no answer about it that can be used")
				require.Equal(t, "finished", testenv.Value[string](b.Env, `SELECT status FROM reconciliations WHERE id = $1`, r.ID))
			}
			require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
			b.bank.Faults.Clear()
			b.Clock.Advance(6 * time.Hour)
			require.Empty(t, b.due().Exceptions, "asked about again, though no window has them")
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
		})
	}
}

// A bank that answers no question is not asked about every record; none is forgotten.
func TestBankThatAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		b.post(b.receive(b.hook(b.paySilently("50.00"))).ID)
	}
	b.Exec(`UPDATE inbound_events SET occurred_at = occurred_at - interval '2 minutes'`)
	b.Clock.Advance(40 * time.Minute)
	asked := b.answersNothing()
	r, err := b.svc.Run(b.ctx, testenv.Epoch.Add(-time.Hour), testenv.Epoch.Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.Unreadable: 20}, r.Counts)
	require.Equal(t, 5, *asked)
	require.Equal(t, 20, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
	_, b.svc = b.servicesWith(b.client())
	require.Empty(t, b.lastHour().Exceptions)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// Records that never have a usable answer, as many as end the questions of a run, do not keep the
// others from being asked about.
func TestUnusableAnswersHoldUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	b.recorded(txn, fakebank.StatusPending)
	b.Clock.Advance(20 * time.Minute)
	b.due()
	b.Clock.Advance(20 * time.Hour)
	b.Exec(`INSERT INTO reconcile_items (id, kind, ref, found_at, due_at) SELECT gen_random_uuid(), 'payment', '0-' || n, $1::timestamptz - interval '30 days', $1 FROM generate_series(1, 5) n`, b.Clock.Now())
	b.payments, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), BeforeTransaction: func(id string) error {
		if strings.HasPrefix(id, "0-") {
			return provider.ErrStranger
		}
		return nil
	}})
	b.due() // from here on all are due together
	b.recorded(txn, fakebank.StatusSuccess)
	for range 3 {
		b.Clock.Advance(time.Hour)
		b.due()
	}
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}

// answersNothing has the next runs ask a bank that answers no question about a payment, and counts
// these.
func (b *bundle) answersNothing() (questions *int) {
	questions = new(int)
	_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), BeforeTransaction: func(string) error {
		*questions++
		return context.DeadlineExceeded
	}})
	return questions
}
