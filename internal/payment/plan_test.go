package payment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// A repeat is looked for by indexes: without them each one of a batch would read all events that
// there are.
func TestOriginalsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	plan := testenv.New(t).IndexPlan(originalsSQL, pg.Columns([]*inbound{{RequestID: "a", Type: typePayment}})...)
	require.Contains(t, plan, "event_keys_request")
	require.Contains(t, plan, "event_keys_transaction")
	require.NotContains(t, plan, "Seq Scan", plan)
}

// What may be a repeat is looked for among what the list brought of the same account, sum and time.
func TestRepeatsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	plan := testenv.New(t).BatchPlan(heldBackSQL)
	require.Contains(t, plan, "listed_payments_alike")
	require.NotContains(t, plan, "Seq Scan", plan)
}

// Whether a payment was taken back before it was posted is looked up by its transaction.
func TestTakenBackIsFoundByIndex(t *testing.T) {
	t.Parallel()
	require.Contains(t, testenv.New(t).BatchPlan(postedSQL), "event_keys_transaction")
}

// What was ever held of a payment is looked up by the payment: its account may have had any number
// of holds.
func TestHoldsOfAPaymentAreFoundByIndex(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for name, sql := range map[string]string{"left": leftSQL, "published": publishedSQL} {
		plan := e.BatchPlan(sql)
		require.Contains(t, plan, "holds_payment", name)
		require.NotContains(t, plan, "holds_list", "%s: %s", name, plan)
	}
}

// The statements of a batch find each row by its id, and none goes through all that are due, of
// which there may be a backlog.
func TestBatchesGoByTheID(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for name, sql := range map[string]string{"check": checkSQL, "finding": findingSQL, "received": receivedSQL, "posted": postedSQL} {
		plan := e.BatchPlan(sql)
		require.Contains(t, plan, "inbound_events_later_pkey", name)
		require.NotContains(t, plan, "Seq Scan", "%s: %s", name, plan)
	}
}

// A misdirected payment stays one for ever. Those that the bank took back are found by its recent
// reversals, not by reading all that were ever misdirected.
func TestMisdirectedTakenBackReadsNoHistory(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	now := e.Clock.Now()
	const many = 3000
	add := func(kind, status, category string, at time.Time, first, last int) {
		e.ExecUnguarded(`
			INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
			SELECT gen_random_uuid(), 'webhook', true, true, $1::text || '-' || n, 'T-' || n, $1::text, $2::text, $3::text, decode(repeat('00', 16), 'hex'), $4::timestamptz
			FROM generate_series($5::int, $6::int) n`, kind, status, category, at, first, last)
	}
	add(typePayment, "failed", "misdirected", now.Add(-30*24*time.Hour), 1, many)
	add(typeReversal, "ignored", "non_payment_event", now.Add(-24*time.Hour), 7, 7)
	add(typeReversal, "ignored", "non_payment_event", now.Add(-20*24*time.Hour), 8, 8)
	add(typeReversal, "ignored", "non_payment_event", now, many+1, many+1) // of no payment that is known
	e.KeyEvents()
	e.Exec(`ANALYZE inbound_events, event_keys`)
	pool, asked := e.Recorded()
	found, err := (&Service{Options: Options{Pool: pool}}).MisdirectedTakenBack(t.Context(), now.Add(-14*24*time.Hour), 100)
	require.NoError(t, err)
	require.Equal(t, []string{"T-7"}, found)
	statements := asked()
	require.Len(t, statements, 1)
	most, plan := e.MostRows(statements[0])
	require.Less(t, most, many/10, plan)
}
