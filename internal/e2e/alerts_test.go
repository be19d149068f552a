package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/ledger"
)

// alarm keeps scrapes, and asks Prometheus's own engine what the rules make of them.
type alarm struct {
	*world
	dir    string
	scrape []string // the files so far
}

// newAlarm skips a test that has no engine: make test-rules builds it, and names it in AJO_PROMRULES.
func newAlarm(t *testing.T) *alarm {
	t.Helper()
	if os.Getenv("AJO_PROMRULES") == "" {
		t.Skip("make test-rules runs it, with the engine that it builds")
	}
	return &alarm{world: newWorld(t), dir: t.TempDir()}
}

// look keeps a scrape of each role. Two of them are a second apart, so that they have times of their own.
func (a *alarm) look(roles map[string]string) {
	a.t.Helper()
	next := time.Now().Truncate(time.Second).Add(time.Second)
	time.Sleep(time.Until(next))
	for name, ops := range roles {
		path := filepath.Join(a.dir, fmt.Sprintf("%d-%s", next.UnixMilli(), name))
		require.NoError(a.t, os.WriteFile(path, []byte(scrape(ops)), 0o600))
		a.scrape = append(a.scrape, path)
	}
}

// forget begins anew with no scrape.
func (a *alarm) forget() { a.scrape = nil }

func (a *alarm) fires(name string) (string, bool) {
	a.t.Helper()
	rules, err := filepath.Abs("../../deploy/prometheus/rules.yaml")
	require.NoError(a.t, err)
	out, err := exec.Command(os.Getenv("AJO_PROMRULES"), append([]string{"fires", rules, name}, a.scrape...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

func (a *alarm) must(names ...string) {
	a.t.Helper()
	for _, n := range names {
		out, ok := a.fires(n)
		require.True(a.t, ok, "%s: %s", n, out)
		a.t.Logf("%-26s %s", n, out)
	}
}

func (a *alarm) mustNot(names ...string) {
	a.t.Helper()
	for _, n := range names {
		out, ok := a.fires(n)
		require.False(a.t, ok, "%s: %s", n, out)
		require.Contains(a.t, out, "is quiet")
	}
}

// Without a worker: events wait, and nothing sweeps, checks or compares. With one, that is over.
func TestAlertsWithoutWorkers(t *testing.T) {
	a := newAlarm(t)
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	p.arrive()
	a.Exec(`UPDATE inbound_events SET next_attempt_at = next_attempt_at - interval '10 minutes'`)
	a.eventually("a look at the queue", func() bool { return sample(scrape(roles["api"]), `ajo_queue_oldest_due_seconds{queue="ingest"}`) > 500 })
	a.look(roles)
	a.must("AjoNoWorker", "AjoQueueBehind", "AjoInvariantsNotChecked", "AjoSweeperStopped", "AjoReconcileNotRun")
	a.mustNot("AjoNoAPI", "AjoDown", "AjoPostgresUnreachable", "AjoRedisUnreachable", "AjoSpooling", "AjoAPIErrors", "AjoClockOff", "AjoWatchStopped")

	roles["worker"] = a.watched(func() { a.startWorker("") })
	a.waitForEnd(some)
	a.eventually("a comparison, a check and a sweep", func() bool {
		s := scrape(roles["worker"])
		return sample(s, "ajo_reconcile_read_until_timestamp_seconds") > 0 && sample(s, "ajo_invariant_last_run_timestamp_seconds") > 0 &&
			sample(s, "ajo_sweep_last_success_timestamp_seconds") > 0 && sample(s, `ajo_queue_oldest_due_seconds{queue="ingest"}`) == 0 &&
			sample(scrape(roles["api"]), `ajo_queue_oldest_due_seconds{queue="ingest"}`) == 0
	})
	a.forget()
	a.look(roles)
	a.mustNot("AjoNoWorker", "AjoQueueBehind", "AjoInvariantsNotChecked", "AjoSweeperStopped", "AjoReconcileNotRun", "AjoInvariantViolated",
		"AjoNegativeBalance", "AjoProvisionalOld", "AjoTransferOutcomeUnknown", "AjoEventsUnposted", "AjoPaymentNeedsReview", "AjoReconcileExceptions")

	a.api.kill()
	a.forget()
	a.look(roles)
	a.must("AjoNoAPI", "AjoDown")
}

// Money that is late, contradicted or gone: the first check of a worker that serves none of it shows it.
func TestAlertsOfMoney(t *testing.T) {
	a := newAlarm(t)
	s := newSettlerIn(a.world)
	roles := map[string]string{"api": a.watched(func() { a.startAPI() })}
	s.fund("rich", money.Must("1000.00"))
	for i := range 2 {
		ok, err := s.order(&payout{account: "rich", accountNumber: fmt.Sprintf("012345678%d", i), amount: money.Must("10.00")})
		require.NoError(t, err)
		require.True(t, ok)
	}
	a.Exec(`UPDATE transfers SET created_at = created_at - interval '3 hours', next_attempt_at = now() + interval '1 day'`)
	a.Exec(`UPDATE transfers SET status = 'processing', attempt_count = 1, submitted_at = now() - interval '40 minutes' WHERE account_number = '0123456781'`)
	poor := s.Account(s.tenant, "poor")
	s.credit(poor, money.Must("5.00"))
	s.move(s.credit(poor, money.Must("7.00")), ledger.EventHold)
	a.Exec(`UPDATE inbound_events SET processed_at = processed_at - interval '3 hours' WHERE status = 'processed'`)
	a.Exec(`UPDATE ledger_balances SET total_debits = total_credits + 1, provisional_credits = total_credits + 1 WHERE account_id = $1`, poor)
	roles["worker"] = a.watched(func() { a.startWorker("expire") })
	a.eventually("a check of the books", func() bool { return sample(scrape(roles["worker"]), "ajo_invariant_last_run_timestamp_seconds") > 0 })
	a.look(roles)
	a.must("AjoInvariantViolated", "AjoNegativeBalance", "AjoTransferOutcomeUnknown", "AjoTransferNotSubmitted", "AjoProvisionalOld", "AjoPaymentNeedsReview")
	a.mustNot("AjoInvariantsNotChecked", "AjoDown")
}

// The bank and tenants' endpoints fail, and somebody forges.
func TestAlertsOfParties(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_DELIVERY_DELAYS"] = "1s"
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	roles["worker"] = a.watched(func() { a.startWorker("") })
	a.look(roles)
	p.endpoint.answers(func(int) int { return 410 }) // 5xx would open the breaker, and the crowd would take its time
	for range 15 {
		p.payAndTell(p.nuban, "5000.00")
	}
	forged := p.genuine()
	for range 60 {
		p.sends(forged.body, headersWith("no signature", "now"))
	}
	a.eventually("dead letters", func() bool { return a.count(`SELECT count(*) FROM deliveries WHERE status = 'dead_letter'`) == 15 })
	a.bank.Faults.SetDown(fakebank.DownAnswer)
	for range 10 {
		p.tenant.want(502, "POST", "/v1/transfers/lookup", map[string]string{"bankCode": "058", "accountNumber": "0123456789"})
	}
	a.look(roles)
	a.must("AjoDeliveriesFailing", "AjoDeadLetters", "AjoEventsForged", "AjoBankFailing", "AjoAPIErrors")
	a.mustNot("AjoEventsRefused", "AjoPostingRefused", "AjoSpooling", "AjoRowsFailing")
}

// Postgres and Redis go away, one after the other, and come back.
func TestAlertsOfDatabases(t *testing.T) {
	a := newAlarm(t)
	hostOf := func(name string) *proxy {
		_, rest, _ := strings.Cut(a.settings[name], "@")
		host, _, _ := strings.Cut(rest, "/")
		p := newProxy(t, host)
		a.settings[name] = strings.Replace(a.settings[name], host, p.addr, 1)
		return p
	}
	postgres, redis := hostOf("AJO_DATABASE_URL"), hostOf("AJO_REDIS_URL")
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	a.look(roles)
	a.mustNot("AjoSpooling", "AjoSpoolDamaged", "AjoPostgresUnreachable", "AjoRedisUnreachable", "AjoRateLimitFallback")

	redis.set(cut)
	request := func() { _ = a.send("GET", "/v1/accounts", nil, http.Header{"X-Api-Key": {p.tenant.key}}) }
	request()
	a.eventually("a look at Redis", func() bool { return sample(scrape(roles["api"]), "ajo_redis_up") == 0 })
	a.forget()
	a.look(roles)
	a.must("AjoRedisUnreachable", "AjoRateLimitFallback")
	redis.set(open)

	postgres.set(cut)
	p.arrive()
	a.eventually("a look at Postgres and the spool", func() bool {
		s := scrape(roles["api"])
		return sample(s, "ajo_postgres_up") == 0 && sample(s, "ajo_spool_records") == some && sample(s, "ajo_spool_bytes") > 0 && sample(s, "ajo_redis_up") == 1
	})
	require.NoError(t, os.WriteFile(filepath.Join(a.world.dir, ".ajo/spool/0.damaged"), []byte("x"), 0o600))
	a.eventually("a look at the damage", func() bool { return sample(scrape(roles["api"]), "ajo_spool_damaged_segments") == 1 })
	a.forget()
	a.look(roles)
	a.must("AjoPostgresUnreachable", "AjoSpooling", "AjoSpoolDamaged")
	a.mustNot("AjoRedisUnreachable", "AjoSpoolFilling")

	postgres.set(open)
	a.eventually("an empty spool", func() bool {
		s := scrape(roles["api"])
		return sample(s, "ajo_spool_records") == 0 && sample(s, "ajo_postgres_up") == 1 && sample(s, `ajo_inbound_events_total{outcome="spooled"}`) == some
	})
	a.forget()
	a.look(roles)
	a.mustNot("AjoPostgresUnreachable", "AjoSpooling")
}
