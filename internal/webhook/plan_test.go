package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The plans of a batch are made once a connection. Made on an empty table, or on one that was
// analysed with few rows, they must still look up each row that the batch names, and go neither by
// all rows nor by all that are pending. Rows are locked in the order of the array as long as the
// array is the outer side.
func TestBatchesLookTheirRowsUp(t *testing.T) {
	b := setup(t)
	const lookup = `.*Index Scan using deliveries_\w+_pkey on deliveries_\w+ d_\d [^\n]*\n\s+Index Cond: \(id = `
	check := func() {
		t.Helper()
		for sql, want := range map[string]string{
			loadSQL:   `Nested Loop.*Function Scan on (unnest )?m ` + lookup,
			recordSQL: `Nested Loop.*Function Scan on m ` + lookup,
		} {
			plan := b.BatchPlan(sql)
			require.Regexp(t, "(?s)"+want, plan)
			require.NotContains(t, plan, "Seq Scan")
		}
	}
	check()
	for range 30 {
		b.queueOne("https://example.com/")
	}
	b.Exec(`ANALYZE deliveries`)
	check()
}
