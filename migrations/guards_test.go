package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// The trigger that keeps entries unchanged lets an ordinary confirmation pass by comparing all
// columns in its condition: a column missing there could be changed by a confirmation.
func TestEveryColumnOfAnEntryIsGuarded(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	trigger := testenv.Value[string](e, `SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'ledger_entries_unchanged'`)
	columns := strings.Fields(testenv.Value[string](e, `
		SELECT string_agg(attname, ' ') FROM pg_attribute WHERE attrelid = 'ledger_entries'::regclass AND attnum > 0 AND NOT attisdropped`))
	require.Greater(t, len(columns), 15)
	for _, c := range columns {
		require.Regexp(t, `\bold\.`+c+`\b`, trigger)
		require.Regexp(t, `\bnew\.`+c+`\b`, trigger)
	}
}

// Columns that every payment or settlement changes stand in no index, nor in an index' condition:
// otherwise each update writes new entries in all indexes of its row. (transfers.status and
// the due times have to.)
func TestHotColumnsAreInNoIndex(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	for table, columns := range map[string]string{
		"ledger_balances": "total_credits total_debits balance provisional_credits last_seq chain_head",
		"ledger_entries":  "status",
		"ledger_days":     "money_in money_out",
		"inbound_events":  "status category error_message tenant_id account_id processed_at attempt_count misses last_error",
		"deliveries":      "status attempt_count last_error delivered_at",
		"work":            "leased_until version attempts last_error",
		"transfers":       "ask_count unknown_count last_error",
	} {
		for _, column := range strings.Fields(columns) {
			require.Equal(t, 1, testenv.Value[int](e, `SELECT count(*) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2`, table, column), column)
			require.Empty(t, testenv.Value[string](e, `
				SELECT coalesce(string_agg(DISTINCT i.indexrelid::regclass::text, ' '), '') FROM pg_index i
				JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid
				WHERE i.indrelid = $1::regclass AND a.attname = $2`, table, column), "%s.%s", table, column)
		}
	}
}

// A BEFORE UPDATE trigger locks each row, and logs that, before its condition is evaluated. So
// guards of these tables run after the update.
func TestHotTablesAreCheckedAfterTheUpdate(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	const rowBeforeUpdate = 1 | 2 | 16 // of pg_trigger.tgtype
	for _, table := range []string{"ledger_balances", "ledger_entries", "ledger_days", "inbound_events", "deliveries", "transfers"} {
		require.Empty(t, testenv.Value[string](e, `
			SELECT coalesce(string_agg(tgname, ' '), '') FROM pg_trigger WHERE tgrelid = $1::regclass AND NOT tgisinternal AND tgtype::int & $2 = $2`,
			table, rowBeforeUpdate), table)
	}
}
