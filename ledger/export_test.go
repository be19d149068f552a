package ledger

// OverviewSQL is for the test of its plan.
const OverviewSQL = overviewSQL
