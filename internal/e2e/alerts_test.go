package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alarm keeps scrapes, and asks Prometheus' own promtool what the rules make of them.
type alarm struct {
	*world
	dir     string
	rules   string   // the file
	seen    samples  // so far
	checker *process // see fresh
}

// newAlarm skips a test that has no promtool: make test-rules gets it, and names it in
// AJO_PROMTOOL.
func newAlarm(t *testing.T) *alarm {
	t.Helper()
	if os.Getenv("AJO_PROMTOOL") == "" {
		t.Skip("make test-rules runs it, with Prometheus' promtool")
	}
	rules, err := filepath.Abs("../../deploy/prometheus/rules.yaml")
	require.NoError(t, err)
	a := &alarm{world: newWorld(t), dir: t.TempDir(), rules: rules}
	a.settings["AJO_SPOOL_DIR"] = filepath.Join(a.world.dir, "spool")
	// as redis-cli wants it
	a.settings["AJO_REDIS_URL"] = strings.Replace(a.settings["AJO_REDIS_URL"], "redis://:", "redis://default:", 1)
	return a
}

// look keeps a scrape of each role. Two of them are a second apart, so that they have times of
// their own.
func (a *alarm) look(roles map[string]string) {
	a.t.Helper()
	next := time.Now().Truncate(time.Second).Add(time.Second)
	time.Sleep(time.Until(next))
	for name, ops := range roles {
		a.seen.add(next, name, scrape(ops))
	}
}

// forget begins anew with no scrape, as when the time that the rules look back on has passed.
func (a *alarm) forget() { a.seen = samples{} }

// quiet looks twice, as counts need it, and forgets what was before: none of the alerts may be
// left.
func (a *alarm) quiet(roles map[string]string, names ...string) {
	a.t.Helper()
	a.forget()
	a.look(roles)
	a.look(roles)
	a.mustNot(names...)
}

// fresh runs a worker whose first check of the books sees them as they are now: the next one would
// come in a minute. It serves one queue, and takes the place of the one before, which hands back
// what it has begun: a reconciliation of a worker that was killed waits for its lease to end.
func (a *alarm) fresh(roles map[string]string, queue string) *process {
	a.t.Helper()
	if a.checker != nil {
		a.checker.Stop(syscall.SIGTERM, exitLimit)
	}
	roles["worker"] = a.watched(func() { a.checker = a.startWorker(queue) })
	a.eventually("a check of the books", func() bool { return sample(scrape(roles["worker"]), "ajo_invariant_last_run_timestamp_seconds") > 0 })
	return a.checker
}

// sooner puts another number into a rule: for one that waits longer than a test can.
func (a *alarm) sooner(rule, than string) {
	a.t.Helper()
	all, err := os.ReadFile(a.rules)
	require.NoError(a.t, err)
	require.Equal(a.t, 1, strings.Count(string(all), rule))
	a.rules = filepath.Join(a.dir, "rules.yaml")
	require.NoError(a.t, os.WriteFile(a.rules, []byte(strings.Replace(string(all), rule, than, 1)), 0o600))
}

func (a *alarm) must(names ...string) {
	a.t.Helper()
	for _, n := range names {
		out, ok := a.seen.fires(a.t, a.dir, a.rules, n)
		require.True(a.t, ok, "%s: %s", n, out)
		a.t.Logf("%-26s %s", n, out)
	}
}

func (a *alarm) mustNot(names ...string) {
	a.t.Helper()
	for _, n := range names {
		out, ok := a.seen.fires(a.t, a.dir, a.rules, n)
		require.False(a.t, ok, "%s: %s", n, out)
	}
}

// Without a worker: events wait, and nothing sweeps, checks or compares. With one, that is over.
// Without an API, the bank reaches nobody; what it could not send is in its list.
func TestAlertsWithoutWorkers(t *testing.T) {
	a := newAlarm(t)
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	p.arrive()
	a.Exec(`UPDATE work SET due_at = due_at - interval '10 minutes'`)
	a.eventually("a look at the queue", func() bool { return sample(scrape(roles["api"]), `ajo_queue_oldest_due_seconds{queue="ingest"}`) > 500 })
	a.look(roles)
	a.must("AjoNoWorker", "AjoQueueBehind", "AjoInvariantsNotChecked", "AjoSweeperStopped", "AjoReconcileNotRun")
	a.mustNot("AjoNoAPI", "AjoDown", "AjoPostgresUnreachable", "AjoRedisUnreachable", "AjoSpooling", "AjoAPIErrors", "AjoClockOff", "AjoCollectionStopped")

	require.Contains(t, a.follow("AjoNoWorker", "ajo migrate"), "up to date")
	a.follow("AjoInvariantsNotChecked", "ANALYZE")
	a.follow("AjoReconcileNotRun", "ajo reconcile list")
	a.follow("AjoReconcileNotRun", "ajo reconcile --from")
	require.Regexp(t, fmt.Sprintf(`(?m)^ingest +%d `, some), a.follow("AjoQueueBehind", "ajo work list --summary"))
	require.Len(t, anID.FindAllString(a.follow("AjoQueueBehind", "ajo work list --kind", "<queue>", "ingest"), -1), some)
	roles["worker 2"] = a.watched(func() { a.followOn("AjoQueueBehind", "ajo worker") })
	roles["worker"] = a.watched(func() { a.followOn("AjoNoWorker", "ajo worker", "<queue>", "ingest,confirm,settle,expire") })
	a.waitForEnd(some)
	const swept = "ajo_sweep_last_success_timestamp_seconds" // of all workers one sweeps
	a.eventually("a comparison, a check and a sweep", func() bool {
		s := scrape(roles["worker"])
		return sample(s, "ajo_reconcile_read_until_timestamp_seconds") > 0 && sample(s, "ajo_invariant_last_run_timestamp_seconds") > 0 &&
			max(sample(s, swept), sample(scrape(roles["worker 2"]), swept)) > 0 && sample(s, `ajo_queue_oldest_due_seconds{queue="ingest"}`) == 0 &&
			sample(scrape(roles["api"]), `ajo_queue_oldest_due_seconds{queue="ingest"}`) == 0
	})
	a.quiet(roles, "AjoNoWorker", "AjoQueueBehind", "AjoInvariantsNotChecked", "AjoSweeperStopped", "AjoReconcileNotRun", "AjoInvariantViolated",
		"AjoNegativeBalance", "AjoProvisionalOld", "AjoTransferOutcomeUnknown", "AjoEventsUnposted", "AjoPaymentNeedsReview", "AjoReconcileExceptions")

	a.api.Kill()
	a.forget()
	a.look(roles)
	a.must("AjoNoAPI", "AjoDown")
	untold := p.genuine().tx
	roles["api"] = a.watched(func() { a.startAPI() })
	require.Contains(t, a.follow("AjoNoAPI", "ajo reconcile"), "missing_event")
	a.waitForEnd(some + 1)
	require.Equal(t, 1, a.count(`SELECT count(*) FROM ledger_entries WHERE provider_txn_ref = $1`, untold.ID))
	a.quiet(roles, "AjoNoAPI", "AjoDown")
}
