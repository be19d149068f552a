package payment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/partition"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// aged gives a stored event an id of two years ago, as if it had come then, and with it a place in
// another partition.
func (b *bundle) aged(id uuid.UUID) uuid.UUID {
	b.T.Helper()
	old := partition.Floor(time.Now().AddDate(-2, 0, 0))
	copy(old[6:], id[6:])
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		for _, sql := range []string{
			`SET LOCAL session_replication_role = replica`, `UPDATE inbound_events SET id = '` + old.String() + `' WHERE id = '` + id.String() + `'`,
			`UPDATE event_keys SET event_id = '` + old.String() + `' WHERE event_id = '` + id.String() + `'`,
		} {
			if _, err := tx.Exec(b.ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(b.T, "inbound_events_earlier", testenv.Value[string](b.Env, `SELECT tableoid::regclass::text FROM inbound_events WHERE id = $1`, old))
	return old
}

// An event is the only one of its request, and of its transaction and type, whatever partition the
// first one is in.
func TestRepeatsOfAnOldEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var was fakebank.Event
	d := b.event(func(e *fakebank.Event) { was = *e })
	old := b.aged(b.receive(d).ID)
	for name, again := range map[string]payment.InboundRequest{
		"the same":                d,
		"under another request":   b.event(func(e *fakebank.Event) { e.Data.Transaction.TransactionID = was.Data.Transaction.TransactionID }),
		"of another transaction":  b.event(func(e *fakebank.Event) { e.RequestID = was.RequestID }),
		"of the same transaction": b.event(func(e *fakebank.Event) { *e = was; e.RequestID = uuid.NewString() }),
	} {
		r := b.receive(again)
		require.True(t, r.Duplicate, name)
		require.Equal(t, old, r.ID, name)
	}
	require.Equal(t, 1, strings.Count(b.log.String(), "event_conflict"), "another transaction under the same request: %s", b.log)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM event_keys`))
	known, err := b.svc.Known(b.ctx, []string{was.Data.Transaction.TransactionID, "another", ""})
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.Equal(t, old, known[was.Data.Transaction.TransactionID].EventID)
	// another type of the same transaction is another event
	other := b.receive(b.event(func(e *fakebank.Event) {
		e.EventType, e.Data.Transaction.TransactionID = "payment_pending", was.Data.Transaction.TransactionID
	}))
	require.False(t, other.Duplicate)
}

// Two payments with the same hash of their transactions would be a hash that is broken. Then the
// second is named, as one whose content differs from the first, and nothing is posted under it.
func TestKeysOfAnotherPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids fakebank.Event
	first := b.receive(b.event(nil))
	second := b.event(func(e *fakebank.Event) { ids = *e; e.Data.Transaction.TransactionAmount = []byte("7000.0") })
	b.Exec(`INSERT INTO event_keys (request, transaction, event_id, event_type) SELECT gen_random_uuid(), event_key($2), $1, 'payment_success'`,
		first.ID, ids.Data.Transaction.TransactionID)
	r := b.receive(second)
	require.True(t, r.Duplicate)
	require.Equal(t, first.ID, r.ID)
	require.Contains(t, b.log.String(), "event_conflict")
	known, err := b.svc.Known(b.ctx, []string{ids.Data.Transaction.TransactionID})
	require.NoError(t, err)
	require.Empty(t, known, "for a reconciliation it is missing")
	opened, err := b.svc.OpenRecall(b.ctx, ids.Data.Transaction.TransactionID, payment.RecallByEvent)
	require.NoError(t, err)
	require.Equal(t, uuid.Nil, opened)
}

// An event without a valid signature has no keys, so that it stands in nobody's way.
func TestForgedEventsHaveNoKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.event(nil)
	forged := d
	forged.Signature = "AAAA" + d.Signature[4:]
	for range 2 {
		require.False(t, b.receive(forged).Duplicate)
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM event_keys`))
	require.False(t, b.receive(d).Duplicate)
	_, err := b.Pool.Exec(b.ctx, `DELETE FROM event_keys`)
	require.Error(t, err, "keys are for ever")
}
