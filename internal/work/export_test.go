package work

import (
	"time"

	"ajo/internal/page"
)

// The statements, for the tests of their plans.
const (
	SummarySQL     = summarySQL
	ItemsSQL       = itemsSQL
	InTurnSQL      = inTurnSQL
	InTurnSettings = inTurnSettings
)

func ListArgs(now time.Time, f Filter, r page.Request) (string, []any, error) {
	return listArgs(now, f, r)
}
