package payment

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// A repeat is looked for by indexes: without them each one of a batch would read all events that
// there are.
func TestOriginalsAreFoundByIndex(t *testing.T) {
	t.Parallel()
	plan := testenv.New(t).IndexPlan(originalsSQL, []uuid.UUID{uuid.New()}, []string{"a"}, []string{"b"}, []string{"c"})
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
