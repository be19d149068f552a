package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/retention"
	"ajo/internal/testenv"
)

// Whoever adds a table says how long its rows are kept.
func TestEveryTableHasOneRule(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	rules := map[string]bool{}
	for _, r := range retention.Rules(retention.Keep{Reports: time.Hour, Audit: time.Hour}) {
		require.False(t, rules[r.Table], "two rules for %s", r.Table)
		require.NotEmpty(t, r.Kept, r.Table)
		rules[r.Table] = true
	}
	tables := testenv.Value[[]string](e, `SELECT array_agg(c.relname::text) FROM pg_class c
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`)
	require.Greater(t, len(tables), 20)
	for _, table := range tables {
		require.True(t, rules[table], "no rule says how long %s is kept", table)
	}
	require.Len(t, rules, len(tables), "a rule for a table that there is not")
}

// What is removed by age is found by an index, and not by reading a large table.
func TestOldRowsAreFoundByAnIndex(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for _, r := range retention.Rules(retention.Keep{Reports: time.Hour, Audit: time.Hour}) {
		if r.Age == "" || r.Table == "reconciliations" || r.Table == "known_networks" { // these are small
			continue
		}
		plan := e.IndexPlan(`SELECT ctid FROM `+r.Table+` WHERE `+r.Age+` < $1 ORDER BY `+r.Age+` LIMIT 10 FOR UPDATE SKIP LOCKED`, time.Now())
		require.Contains(t, plan, "Index Scan", r.Table)
	}
}
