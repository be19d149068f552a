package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

// The run of the day fails for two days.
func TestAlertsOfReconciliation(t *testing.T) {
	a := newAlarm(t)
	roles := map[string]string{}
	roles["api"] = a.watched(func() { a.settle() })
	a.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail})
	worker := a.fresh(roles, "expire")
	a.eventually("a run of the day that failed", func() bool {
		return a.count(`SELECT count(*) FROM reconciliations WHERE kind = 'daily' AND status = 'failed'`) == 1
	})
	a.look(roles)
	a.mustNot("AjoReconcileOverdue")
	a.Exec(`UPDATE reconciliations SET due_at = due_at - interval '2 days' WHERE kind = 'daily'`)
	const late = `ajo_reconcile_overdue_seconds{kind="daily"}`
	a.eventually("a collection", func() bool {
		return sample(scrape(roles["api"]), late) > 86400 && sample(scrape(roles["worker"]), late) > 86400
	})
	a.forget()
	a.look(roles)
	a.must("AjoReconcileOverdue")
	a.says(worker, "AjoReconcileOverdue", "alert=reconciliation_failed")
	require.Regexp(t, `daily +.*failed`, a.follow("AjoReconcileOverdue", "ajo reconcile list"))
	a.follow("AjoReconcileOverdue", "SELECT kind")

	a.bank.Faults.Clear()
	a.fresh(roles, "expire")
	a.eventually("the run of the day", func() bool {
		return a.count(`SELECT count(*) FROM reconciliations WHERE kind = 'daily' AND status = 'finished'`) == 1
	})
	a.Exec(`UPDATE reconciliations SET due_at = started_at WHERE kind = 'daily'`) // else another was due a day ago
	a.eventually("a collection", func() bool {
		return sample(scrape(roles["api"]), late) == 0 && sample(scrape(roles["worker"]), late) == 0
	})
	a.quiet(roles, "AjoReconcileOverdue")
}
