package reconcile

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// The payments that others may be repeats of are looked for in the time of these alone, and held
// against hashed lists: a comparison of each with each took a core for minutes.
func TestLookAlikesAreReadOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	rows := []likeness{{Account: uuid.New(), Number: "0123456789", Alias: "a", Amount: money.Must("1.00"), Session: "s"}}
	plan := testenv.New(t).IndexPlan(lookAlikesSQL, pg.Columns(rows, now.Add(-time.Minute), now)...)
	require.Contains(t, plan, "inbound_events_later_occurred_at_idx", plan)
	require.Contains(t, plan, "hashed SubPlan", plan)
	require.NotContains(t, plan, "Seq Scan on inbound_events", plan)
	require.NotContains(t, plan, "Nested Loop", plan)
}

// The float's sums are read by what is new or open, not by all that was ever reversed or reviewed.
func TestFloatReadsNoHistory(t *testing.T) {
	t.Parallel()
	plan := testenv.New(t).IndexPlan(booksSQL, time.Now(), []string{}, time.Now(), time.Now())
	require.Contains(t, plan, "ledger_entries_reversals", plan)
	require.Contains(t, plan, "ledger_entries_reviews", plan)
}
