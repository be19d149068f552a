package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// The clock of a worker is off by ten minutes. It is told, and none of its figures is wrong for it:
// nothing is behind that is due in five minutes only, and nothing stands still.
func TestAlertsOfClocks(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			a := newAlarm(t)
			a.settings["AJO_DELIVERY_DELAYS"] = "5m"
			var p *paid
			var worker *process
			roles := map[string]string{}
			roles["api"] = a.watched(func() { p = a.settle() })
			p.endpoint.answers(func(int) int { return 503 })
			roles["worker"] = a.watched(func() { worker = a.startSkewed(off) })
			p.arrive()
			a.eventually("failed deliveries", func() bool {
				return a.count(`SELECT count(*) FROM deliveries WHERE attempt_count = 1`) == some
			})
			a.eventually("all that a worker shows", func() bool {
				s := scrape(roles["worker"])
				return sample(s, "ajo_reconcile_read_until_timestamp_seconds") > 0 && sample(s, "ajo_invariant_last_run_timestamp_seconds") > 0 && sample(s, "ajo_sweep_last_success_timestamp_seconds") > 0
			})
			a.look(roles)
			a.look(roles) // and by then it has looked again
			a.must("AjoClockOff")
			a.says(worker, "AjoClockOff", "alert=clock")
			a.mustNot("AjoQueueBehind", "AjoCollectionStopped", "AjoSweeperStopped", "AjoInvariantsNotChecked", "AjoReconcileNotRun", "AjoEventsUnposted")
		})
	}
}

// A worker's clock leaps, and is mended: the worker needs no restart.
func TestAlertsOfMendedClock(t *testing.T) {
	a := newAlarm(t)
	var leap func(time.Duration)
	roles := map[string]string{}
	roles["worker"] = a.watched(func() { _, leap = a.startSkewedBySteps() })
	a.eventually("a collection", func() bool { return sample(scrape(roles["worker"]), "ajo_collection_last_run_timestamp_seconds") > 0 })
	a.quiet(roles, "AjoClockOff")
	leap(-10 * time.Minute)
	a.eventually("a collection", func() bool { return sample(scrape(roles["worker"]), "ajo_clock_offset_seconds") > 500 })
	a.look(roles)
	a.must("AjoClockOff")
	leap(0)
	a.eventually("a collection", func() bool { return sample(scrape(roles["worker"]), "ajo_clock_offset_seconds") == 0 })
	a.quiet(roles, "AjoClockOff")
}

// A process answers scrapes, but what it looks at hangs: here the spool's disk, as one that is
// mounted from elsewhere may.
func TestAlertsOfCollection(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_OPS_USER"], a.settings["AJO_OPS_PASSWORD"] = "ops", "a-password-of-the-operators"
	roles := map[string]string{}
	roles["api"] = a.watched(func() { a.startAPI() })
	pipe := filepath.Join(a.settings["AJO_SPOOL_DIR"], "0.spool")
	a.eventually("a collection", func() bool { return sample(scrape(roles["api"]), "ajo_collection_last_run_timestamp_seconds") > 0 })
	require.NoError(t, syscall.Mkfifo(pipe, 0o600)) // to open it takes for ever
	testenv.Eventually(t, 3*time.Minute, "two minutes without a look", func() bool {
		return time.Now().Unix()-int64(sample(scrape(roles["api"]), "ajo_collection_last_run_timestamp_seconds")) > 121
	})
	a.look(roles)
	a.must("AjoCollectionStopped")
	a.mustNot("AjoDown", "AjoSpooling")

	if _, err := exec.LookPath("curl"); err != nil {
		t.Log("there is no curl here: the runbook's line is not run")
	} else {
		require.Contains(t, a.follow("AjoCollectionStopped", "curl", "<operations address>", roles["api"]), "spool.(*Spool).State")
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // the disk is back
	require.NoError(t, err)
	require.NoError(t, os.Remove(pipe))
	require.NoError(t, writer.Close())
	a.api.Kill()
	roles["api"] = a.watched(func() { a.startAPI() })
	a.eventually("a collection", func() bool { return sample(scrape(roles["api"]), "ajo_collection_last_run_timestamp_seconds") > 0 })
	a.quiet(roles, "AjoCollectionStopped")
}
