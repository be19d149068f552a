package idempotency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// Each key of a batch is looked up by itself: a tenant may have millions of them.
func TestKeysAreFoundByIndex(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for range 2 {
		plan := e.BatchPlan(recordsSQL)
		require.Regexp(t, `Index Cond: \(\(tenant_id = .*k\.tenant_id.*\) AND \(key = .*k\.key.*\)\)`, plan)
		require.NotContains(t, plan, "Seq Scan", plan)
		require.NotContains(t, plan, "Join Filter", plan)
		e.Exec(`VACUUM ANALYZE idempotency_keys`) // while it is empty
	}
}
