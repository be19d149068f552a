package payment_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// confirmed is a payment that the bank has confirmed.
func (b *bundle) confirmed() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	id, txn := b.paid()
	require.Equal(b.T, time.Duration(-1), b.check(id))
	return id, txn
}

// reversal is the bank's event that it has taken a payment back; its record says what it says.
func (b *bundle) reversal(txn fakebank.Transaction) payment.InboundRequest {
	b.T.Helper()
	return b.word(fakebank.PaymentReversal, txn)
}

// word is an event of the bank about a payment.
func (b *bundle) word(kind string, txn fakebank.Transaction) payment.InboundRequest {
	b.T.Helper()
	e := b.bank.Event(kind, txn)
	e.RequestID = uuid.NewString()
	body, err := json.Marshal(e)
	require.NoError(b.T, err)
	return b.sign(body)
}

// taken changes the bank's record of a payment.
func (b *bundle) taken(txn fakebank.Transaction, status string) {
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = status })
}

// held is what is held of the account, and what was taken back; the books hold all the while.
func (b *bundle) recalls() [2]string {
	b.T.Helper()
	b.books()
	testenv.FindsNothing(b.T, b.Pool, invariant.Verify)
	return b.Recalled(b.account)
}

// The event holds the sum at once, and the bank's record takes it back: entry, statement, the
// tenant's event, once.
func TestRecallAfterConfirmation(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.recalled")
	t.Run("reversed", func(t *testing.T) { recallAfterConfirmation(t, fakebank.PaymentReversal, "REFUND", "refunded") })
	t.Run("failed", func(t *testing.T) { recallAfterConfirmation(t, fakebank.PaymentFailed, "PAYMENT_FAILED", "failed") })
}

func recallAfterConfirmation(t *testing.T, event, status, says string) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook', webhook_events = '{payment.reversed}' WHERE id = $1`, b.tenant)
	other, _ := b.confirmed()
	id, txn := b.confirmed()
	b.taken(txn, status)
	r := b.receive(b.word(event, txn))
	require.Equal(t, payment.CategoryNonPayment, r.Category)
	require.Equal(t, id, r.Recalled)
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	balance, entries := b.books()
	require.Equal(t, "9950.00", balance, "the event alone proves nothing")
	require.Equal(t, []string{"credit confirmed", "credit confirmed"}, entries)

	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	balance, entries = b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit confirmed", "credit reversed", "debit reversed"}, entries)
	b.log.Has(t, "alert=recalled")
	require.Equal(t, "the bank says "+says+", after it had confirmed the payment", testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE event_type = 'payment.reversed' AND transaction_group_id = $1`, id))

	require.NoError(t, b.svc.Confirm(b.ctx, id), "and again changes nothing")
	for _, source := range []payment.RecallSource{payment.RecallByEvent, payment.RecallByReconciliation, payment.RecallByOperator} {
		again, err := b.svc.OpenRecall(b.ctx, txn.ID, source)
		require.NoError(t, err)
		require.Equal(t, uuid.Nil, again, "what was taken back is not taken back again")
	}
	require.Equal(t, "confirmed", testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE transaction_group_id = $1`, other))
}

// A payment whose reversal came before it was posted is recalled from its first moment, whatever
// was late: its event, its posting, or somebody's word about whose it is. Success in the record,
// which may lag, does not free it at once.
func TestRecallBeforeThePosting(t *testing.T) {
	t.Parallel()
	for name, arrive := range map[string]func(b *bundle, txn fakebank.Transaction) uuid.UUID{
		"before the event": func(b *bundle, txn fakebank.Transaction) uuid.UUID {
			require.Equal(b.T, uuid.Nil, b.receive(b.reversal(txn)).Recalled, "there is no payment")
			id := b.receive(b.sign(b.bank.EventFor(txn))).ID
			b.post(id)
			return id
		},
		"before the posting": func(b *bundle, txn fakebank.Transaction) uuid.UUID {
			id := b.receive(b.sign(b.bank.EventFor(txn))).ID
			b.receive(b.reversal(txn))
			b.post(id)
			return id
		},
		"with the posting": func(b *bundle, txn fakebank.Transaction) uuid.UUID {
			id := b.receive(b.sign(b.bank.EventFor(txn))).ID
			var wg sync.WaitGroup
			require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
				if _, err := tx.Exec(b.ctx, `SELECT FROM ledger_balances WHERE account_id = $1 FOR UPDATE`, b.account); err != nil {
					return err
				}
				wg.Go(func() { _, _ = b.svc.Post(b.ctx, id) })
				testenv.Eventually(b.T, time.Minute, "one to wait", func() bool { return b.LockWaits() == 1 })
				wg.Go(func() { _, _ = b.svc.Receive(b.ctx, b.reversal(txn)) })
				testenv.Eventually(b.T, time.Minute, "the reversal to wait for the posting", func() bool { return b.LockWaits() == 2 })
				return nil
			}))
			wg.Wait()
			return id
		},
		"while the reversal is committed": func(b *bundle, txn fakebank.Transaction) uuid.UUID {
			b.Exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'`)
			b.Exec(`CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON event_keys INITIALLY DEFERRED
				FOR EACH ROW WHEN (new.event_type = 'payment_reversal') EXECUTE FUNCTION wait()`)
			var id uuid.UUID
			var wg sync.WaitGroup
			require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
				if _, err := tx.Exec(b.ctx, `SELECT pg_advisory_xact_lock(1)`); err != nil {
					return err
				}
				wg.Go(func() { _, _ = b.svc.Receive(b.ctx, b.reversal(txn)) })
				testenv.Eventually(b.T, time.Minute, "one to wait", func() bool { return b.LockWaits() == 1 })
				other := b.service(b.bank.URL()) // the first one's writer waits
				r, err := other.Receive(b.ctx, b.sign(b.bank.EventFor(txn)))
				if err == nil {
					id = r.ID
					_, err = other.Post(b.ctx, id)
				}
				return err
			}))
			wg.Wait()
			// whichever process looks once more: the one that stored the reversal may have died
			again := testenv.Value[uuid.UUID](b.Env, `SELECT event_id FROM event_keys WHERE event_type = 'payment_reversal'`)
			require.Equal(b.T, time.Duration(-1), b.check(again))
			return id
		},
		"before it is assigned": func(b *bundle, txn fakebank.Transaction) uuid.UUID {
			b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, closed_at = $2 WHERE id = $1`, b.account, b.Clock.Now().Add(-time.Hour))
			id := b.receive(b.sign(b.bank.EventFor(txn))).ID
			require.Equal(b.T, payment.CategoryMisdirected, b.post(id).Category)
			b.receive(b.reversal(txn))
			_, err := b.svc.Assign(b.ctx, id, payment.Destination{AccountID: b.account}, byHand)
			require.NoError(b.T, err)
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.openAtBank()
			txn := b.paySilently("5000.00")
			id := arrive(b, txn)
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
			require.Positive(t, b.check(id))
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls(), "the record says success: it may lag")
			b.taken(txn, "REFUND")
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
			_, entries := b.books()
			require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)
		})
	}
}

// Money that was paid out is taken back too: the balance falls below zero, and somebody is called.
func TestRecallBelowZero(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.recalled")
	b := setup(t)
	id, txn := b.confirmed()
	b.debit("4000.00")
	b.taken(txn, "REFUND")
	b.receive(b.reversal(txn))
	require.Equal(t, time.Duration(-1), b.check(id))
	balance, _ := b.books()
	require.Equal(t, "-4000.00", balance)
	b.log.Has(t, "alert=negative_balance")
}

// An event that the bank's record contradicts in two answers holds the sum for one gap of the
// schedule, and no longer; the bank is asked on.
func TestRecallThatTheRecordContradicts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
	require.Equal(t, 30*time.Second, b.check(id), "the record may be behind the event")
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, 10*time.Minute, b.check(id))
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed"}, entries)
	b.log.Has(t, "alert=recall_watched")

	// The same event again, a forgery with another id, and the bank's list hold nothing and ask
	// nothing for a while.
	asked := b.bank.AllCalls()["GET /v1/transactions/accounts/single"]
	require.Equal(t, uuid.Nil, b.receive(b.reversal(txn)).Recalled)
	for range 5 {
		again, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByReconciliation)
		require.NoError(t, err)
		require.Equal(t, uuid.Nil, again)
	}
	require.NoError(t, b.svc.Confirm(b.ctx, id))
	require.Equal(t, asked, b.bank.AllCalls()["GET /v1/transactions/accounts/single"])
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())

	// Later it may be true, and each time that it was not it takes twice as long.
	for _, gap := range []time.Duration{20 * time.Minute, 40 * time.Minute, 80 * time.Minute} {
		b.Clock.Advance(gap - time.Second)
		again, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByReconciliation)
		require.NoError(t, err)
		require.Equal(t, uuid.Nil, again, gap)
		b.Clock.Advance(time.Second)
		again, err = b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByReconciliation)
		require.NoError(t, err)
		require.Equal(t, id, again, gap)
		require.Equal(t, 30*time.Second, b.check(id))
		require.Equal(t, 10*time.Minute, b.check(id))
	}
	b.taken(txn, "REFUND")
	again, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, id, again, "an operator's word opens it at any time")
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
}

// The bank takes a payment back, its record never says so, and later it takes it back in truth: of
// one transaction its second event is a repeat of the first, whatever its request id, and the list
// of the payment's days is not read any more. It opens the recall again, once the gap has passed.
func TestRecallByALaterEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
	b.check(id)
	b.check(id)
	b.Clock.Advance(20*time.Minute - time.Second)
	require.Equal(t, uuid.Nil, b.receive(b.reversal(txn)).Recalled, "not yet")
	for b.check(id) > 0 {
	}
	b.Clock.Advance(7 * 24 * time.Hour)
	b.taken(txn, "REFUND")
	later := txn
	later.Time = b.Clock.Now()
	r := b.receive(b.reversal(later))
	b.log.HasNot(t, "event_conflict")
	require.Equal(t, []any{true, id}, []any{r.Duplicate, r.Recalled})
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	require.Equal(t, uuid.Nil, b.receive(b.reversal(txn)).Recalled)
}

// The record is behind the event by one answer: the second one takes the payment back.
func TestRecordIsBehindTheRecall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	b.receive(b.reversal(txn))
	require.Positive(t, b.check(id))
	b.taken(txn, "REFUND")
	require.Equal(t, time.Duration(-1), b.check(id))
	_, entries := b.books()
	require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)
}

// Whatever is no answer about this payment decides nothing, and is asked about for as long as it
// takes, less and less often.
func TestRecallWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*bundle, fakebank.Transaction){
		"down": func(b *bundle, _ fakebank.Transaction) { b.bank.Faults.SetDown(fakebank.DownAnswer) },
		"gateway": func(b *bundle, _ fakebank.Transaction) {
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Gateway})
		},
		"not found": func(b *bundle, x fakebank.Transaction) {
			b.bank.SetTransaction(x.ID, func(x *fakebank.Transaction) { x.Hidden = true })
		},
		"another record": func(b *bundle, x fakebank.Transaction) {
			b.bank.SetTransaction(x.ID, func(x *fakebank.Transaction) { x.Wrong = true })
		},
		"another sum, refunded": func(b *bundle, x fakebank.Transaction) {
			b.bank.SetTransaction(x.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = "REFUND", money.Must("100.00") })
		},
		"another sum, success": func(b *bundle, x fakebank.Transaction) {
			b.bank.SetTransaction(x.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("100.00") })
		},
		"under way": func(b *bundle, x fakebank.Transaction) { b.taken(x, "PENDING_BILLING") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, txn := b.confirmed()
			fault(b, txn)
			opened := b.Clock.Now()
			b.receive(b.reversal(txn))
			var gap time.Duration
			for b.Clock.Now().Sub(opened) < 48*time.Hour {
				next := b.check(id)
				require.GreaterOrEqual(t, next, gap)
				gap = next
			}
			require.Equal(t, time.Hour, gap)
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
			state, err := invariant.Light(b.ctx, b.Pool, b.Clock.Now())
			require.NoError(t, err)
			require.Equal(t, int64(1), state.RecallCount)
			require.GreaterOrEqual(t, state.RecallOldest, 48*time.Hour)
			require.Zero(t, state.ProvisionalCount)
			b.bank.Faults.Clear()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { *x = txn; x.Status = "REFUND" })
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
		})
	}
}

// A recall before the confirmation: the bank is asked at once, and its first answer decides as
// ever; a success needs a second one. Until then payment.confirmed is not published.
func TestRecallBeforeConfirmation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tellsAll()
	id, txn := b.paid()
	b.taken(txn, "REFUND")
	require.Equal(t, id, b.receive(b.reversal(txn)).Recalled)
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	_, entries := b.books()
	require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)

	id, txn = b.paid()
	b.receive(b.reversal(txn))
	require.Equal(t, 30*time.Second, b.check(id))
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, "payment.received 4975.00", b.toldOf(id))
	require.Positive(t, b.check(id))
	require.Equal(t, "watched", b.recallStatus(id))
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	_, entries = b.books()
	require.Equal(t, []string{"credit reversed", "debit reversed", "credit confirmed"}, entries)
	require.Equal(t, "payment.received 4975.00, payment.confirmed 4975.00", b.toldOf(id))

	id, txn = b.paid()
	b.receive(b.reversal(txn))
	require.Positive(t, b.check(id))
	b.taken(txn, "REFUND")
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, "payment.reversed 4975.00, payment.received 4975.00", b.toldOf(id))
}

// A payment under review has nothing that could be held; once a person counts it, it is, until the
// bank has answered.
func TestRecallUnderReview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.held()
	txn := testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
	opened, err := b.svc.OpenRecall(b.ctx, txn, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, id, opened)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	require.Positive(t, b.check(id))
	_, err = b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
	require.NoError(t, err)
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Status, x.Fee = "REFUND", money.Must("25.00") })
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())

	id = b.held()
	txn = testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
	_, err = b.svc.OpenRecall(b.ctx, txn, payment.RecallByEvent)
	require.NoError(t, err)
	_, err = b.svc.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
	require.NoError(t, err)
	require.NoError(t, b.svc.Confirm(b.ctx, id), "nothing is left to ask")
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
	require.Equal(t, "reversed", testenv.Value[string](b.Env, `SELECT status FROM recalls WHERE event_id = $1`, id))

	// A provisional payment that goes under review while it is held.
	id, x := b.paid()
	b.bank.SetTransaction(x.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	b.receive(b.reversal(x))
	require.Equal(t, [2]string{"4975.00", "4975.00"}, b.recalls())
	require.Positive(t, b.check(id))
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
}

// A reversal of what the books do not have is only kept: there is nothing to be held.
func TestReversalOfNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, txn := b.confirmed()
	txn.ID = "API-VACT_TRA-ANOTHER"
	r := b.receive(b.reversal(txn))
	require.Equal(t, uuid.Nil, r.Recalled)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	d := b.reversal(txn)
	d.Signature = "forged"
	b.receive(d)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
}

// What the spool held opens the recall when it is drained, and a call that was repeated opens it
// once.
func TestRecallIsHeldOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	d := b.reversal(txn)
	require.Equal(t, id, b.receive(d).Recalled)
	require.Equal(t, uuid.Nil, b.receive(d).Recalled)
	again, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, again)
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
	require.Equal(t, []uuid.UUID{id}, b.Overdue(work.Confirm, b.Clock.Now(), b.Clock.Now().Add(time.Second), 10), "the sweep finds it, if the task is lost")
}

// Of two who report a recall at once, the second waits for the first and opens none.
func TestRecallIsOpenedOnceAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	var again uuid.UUID
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, id)
		require.NoError(t, err)
		_, err = tx.Exec(b.ctx, `INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
			SELECT id, tenant_id, account_id, 'event', 'open', 4975, $2 FROM inbound_events WHERE id = $1`, id, b.Clock.Now())
		return err
	}, func() (err error) {
		again, err = b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
		return err
	}))
	require.Equal(t, uuid.Nil, again)
	require.Equal(t, "event 1", testenv.Value[string](b.Env, `SELECT source || ' ' || opened_count FROM recalls`))
}

// Who decides a recall by hand waits for whoever has the payment, and decides what is true then:
// a recall that is opened meanwhile is ended, one that is ended meanwhile is none.
func TestRecallIsDecidedUnderThePayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.confirmed()
	lock := func(tx pg.Tx) {
		_, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, id)
		require.NoError(t, err)
	}
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		lock(tx)
		_, err := tx.Exec(b.ctx, `INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
			SELECT id, tenant_id, account_id, 'event', 'open', 0, $2 FROM inbound_events WHERE id = $1`, id, b.Clock.Now())
		return err
	}, func() error {
		_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
		return err
	}))
	require.Equal(t, "kept", testenv.Value[string](b.Env, `SELECT status FROM recalls`))
	require.ErrorIs(t, b.Meanwhile(func(tx pg.Tx) error {
		lock(tx)
		return nil
	}, func() error {
		_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
		return err
	}), payment.ErrNoRecall)
	require.Len(t, b.audited(), 1)
}

// An operator reverses what is recalled before the bank has confirmed it, and what is under review.
func TestRecallByHandOfWhatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	posted, _ := b.paid()
	for _, id := range []uuid.UUID{b.held(), posted} {
		opened, err := b.svc.OpenRecall(b.ctx, testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id), payment.RecallByOperator)
		require.NoError(t, err)
		require.Equal(t, id, opened)
		r, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
		require.NoError(t, err)
		require.Equal(t, ledger.Reversed, r.Status)
		require.Nil(t, b.DueAt(work.Confirm, id), "nothing is left to ask")
	}
	balance, _ := b.books()
	require.Equal(t, "0.00", balance)
}

// debit takes what a settlement pays out.
func (b *bundle) debit(amount string) {
	b.T.Helper()
	ref := "AJO-" + uuid.NewString()
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		out, err := ledger.PostDebits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{{AccountID: b.account, Amount: money.Must(amount), TransactionGroupID: uuid.Must(uuid.NewV7()), TransferRef: &ref}})
		if err == nil {
			err = out[0].Err
		}
		return err
	}))
}
