package ledger

// Statements of SQL are for the tests of their plans.
const (
	OverviewSQL  = overviewSQL
	PageSQL      = pageSQL
	LinesSQL     = linesSQL
	UncountedSQL = uncountedSQL
	LastHoldsSQL = lastHoldsSQL
	EndHoldsSQL  = endHoldsSQL
	LimitedSQL   = limitedSQL

	NewestFirstSQL = newestFirstSQL
)
