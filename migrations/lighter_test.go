package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// The trigger that keeps entries as they are lets an ordinary confirmation pass by comparing all columns itself: a column
// that its condition forgets could be changed along with it.
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
