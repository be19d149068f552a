package reconcile_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// refuse has Postgres refuse the rows of a table about a payment, as it refuses what a column
// cannot take, until the function that it returns is called.
func (b *bundle) refuse(table, ref string) (allow func()) {
	b.T.Helper()
	b.Exec(`CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room for it' USING ERRCODE = '22003'; END $$`)
	b.Exec(`CREATE TRIGGER refuse_row BEFORE INSERT ON ` + table + ` FOR EACH ROW WHEN (NEW.provider_txn_ref = '` + ref + `') EXECUTE FUNCTION refuse_row()`)
	return func() { b.Exec(`DROP FUNCTION refuse_row CASCADE`) }
}

// A record of the list that Postgres refuses is named, and keeps no other from being stored.
func TestRecordThatCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bad, good := b.paySilently("5000.00"), b.paySilently("6000.00")
	allow := b.refuse("inbound_events", bad.ID)
	for range 2 {
		r := b.lastHour()
		b.postAll(r.ToPost)
		require.Contains(t, said(r)[bad.ID], "unreadable: the record could not be stored: ")
		require.Contains(t, said(r)[bad.ID], "no room for it")
		require.Positive(t, r.Suspicious())
		balance, _ := b.books()
		require.Equal(t, "5975.00", balance, "of %s", good.ID)
	}
	allow()
	r := b.lastHour()
	require.Contains(t, said(r)[bad.ID], "missing_event: ")
	b.postAll(r.ToPost)
	require.Empty(t, b.lastHour().Exceptions)
	balance, _ := b.books()
	require.Equal(t, "10950.00", balance)
}

// An event that could not be posted, and that Postgres refuses from the bank's own record too, is
// named until it can be.
func TestEventThatCannotBeHealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	spoilt := b.bank.Event(fakebank.PaymentSuccess, txn)
	spoilt.Data.Transaction.Fee = []byte(`null`)
	require.Equal(t, payment.CategoryProcessingError, b.post(b.receive(b.eventOf(spoilt)).ID).Category)
	other := b.paySilently("6000.00")
	allow := b.refuse("ledger_entries", txn.ID)
	for range 2 {
		r := b.lastHour()
		b.postAll(r.ToPost)
		require.Contains(t, said(r)[txn.ID], "unposted: from the bank's own record it cannot be posted either: ")
		require.Contains(t, said(r)[txn.ID], "no room for it")
		balance, _ := b.books()
		require.Equal(t, "5975.00", balance, "of %s", other.ID)
	}
	allow()
	require.Contains(t, said(b.lastHour())[txn.ID], "healed: ")
	require.Empty(t, b.lastHour().Exceptions)
	balance, _ := b.books()
	require.Equal(t, "10950.00", balance)
}

// The event of a payment comes under another id at the moment at which the payment is stored from
// the list: what was stored is held back, and one of the two is posted.
func TestLookAlikeComesWhileItsRecordIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.sessionless(b.paySilently("5000.00"))
	b.Exec(`CREATE FUNCTION its_event() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, amount, fee, currency, alias, alias_number, occurred_at,
			digest, received_at)
		VALUES (gen_random_uuid(), 'webhook', true, true, 'its-event', 'another-id', 'payment_success', 'received', NEW.amount, NEW.fee, NEW.currency, NEW.alias, NEW.alias_number,
			NEW.occurred_at, NEW.digest, NEW.received_at);
		RETURN NULL; END $$`)
	b.Exec(`CREATE TRIGGER its_event AFTER INSERT ON inbound_events FOR EACH ROW WHEN (NEW.source = 'reconciliation') EXECUTE FUNCTION its_event()`)
	r := b.lastHour()
	require.Empty(t, r.ToPost)
	require.Equal(t, map[reconcile.ExceptionKind]int{reconcile.LookAlike: 1}, r.Counts)
	require.Contains(t, said(r)[txn.ID], "look_alike: it looks like the payment another-id")
	require.Equal(t, "failed processing_error", testenv.Value[string](b.Env, `SELECT status || ' ' || category FROM inbound_events WHERE provider_txn_ref = $1`, txn.ID))
	for _, ref := range []string{txn.ID, "another-id"} {
		id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE provider_txn_ref = $1`, ref)
		b.Exec(`INSERT INTO work (kind, id, due_at) VALUES ('ingest', $1, $2) ON CONFLICT DO NOTHING`, id, b.Clock.Now())
		b.post(id)
	}
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Len(t, entries, 1)
}

// Its event comes, and is posted, before what the list brought is stored, and a worker is there to
// post that at once: it is not posted before the run has looked once more. If the look takes too
// long, the report says that both are.
func TestLookAlikeIsPostedWhileItsRecordIsStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes          time.Duration
		balance, found string
	}{
		"as long as usual": {0, "4975.00", "it is not posted"},
		"too long":         {time.Minute, "9950.00", "both are posted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := b.paySilently("5000.00")
			listed := "TRF-" + txn.ID
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.ListedAs = listed })
			t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) {
				for _, m := range items {
					if m.Kind == work.Ingest {
						b.Clock.Advance(c.takes)
						_, _ = b.payments.Post(b.ctx, m.ID) // which is posted counts
					}
				}
			}))
			other, _ := b.servicesWith(b.client())
			var r reconcile.Report
			require.NoError(t, b.InOrder(func(tx pg.Tx) error {
				if _, err := tx.Exec(b.ctx, `SAVEPOINT stored`); err != nil {
					return err
				}
				_, err := tx.Exec(b.ctx, `INSERT INTO event_keys (request, transaction, event_id, event_type) SELECT gen_random_uuid(), event_key($1), gen_random_uuid(), 'payment_success'`, listed)
				return err
			}, func(tx pg.Tx) error {
				if _, err := other.Receive(b.ctx, b.hook(txn)); err != nil {
					return err
				}
				_, err := tx.Exec(b.ctx, `ROLLBACK TO SAVEPOINT stored`)
				return err
			}, func() (err error) {
				r, err = b.svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
				return err
			}))
			balance, _ := b.books()
			require.Equal(t, c.balance, balance)
			require.Contains(t, said(r)[listed], "look_alike: it looks like the payment "+txn.ID)
			require.Contains(t, said(r)[listed], c.found)
			if c.takes == 0 {
				require.Contains(t, said(b.lastHour())[listed], c.found)
			}
		})
	}
}

// The event of a payment that looks like another comes after the list was read and before the
// payment would be held back: it is a payment of its own, as the bank has sent an event of each.
func TestEventComesBeforeItsRecordIsHeldBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	b.post(b.receive(b.hook(x)).ID)
	var once sync.Once
	var id uuid.UUID
	_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(from, to time.Time) error {
		if to.Sub(from) < 10*time.Minute { // the list around a payment, no more that of the hour
			once.Do(func() { id = b.receive(b.hook(y)).ID })
		}
		return nil
	}})
	r := b.lastHour()
	require.NotEqual(t, uuid.Nil, id, "the event came")
	require.Empty(t, r.ToPost)
	require.NotContains(t, r.Counts, reconcile.LookAlike)
	require.NotContains(t, r.Counts, reconcile.MissingEvent)
	require.Equal(t, payment.CategoryPayment, b.post(id).Category)
	balance, entries := b.books()
	require.Equal(t, "9950.00", balance)
	require.Len(t, entries, 2)
}
