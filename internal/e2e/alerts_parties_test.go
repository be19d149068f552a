package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

// The bank and tenants' endpoints fail, and somebody forges.
func TestAlertsOfParties(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_DELIVERY_DELAYS"] = "1s"
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	roles["worker"] = a.watched(func() { a.startWorker("") })
	a.look(roles)
	// 5xx would open the breaker, and the crowd would take its time
	p.endpoint.answers(func(int) int { return 410 })
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

	a.says(a.api, "AjoAPIErrors", "request failed")
	a.says(a.api, "AjoBankFailing", "request failed")
	p.endpoint.answers(nil)
	a.bank.Faults.Clear()
	a.follow("AjoDeliveriesFailing", "ajo deliveries list")
	failing := cells(a.follow("AjoDeliveriesFailing", "SELECT"))
	require.Equal(t, [][]string{{p.tenant.id, "HTTP 410", "30"}}, failing)
	letter := anID.FindString(a.follow("AjoDeadLetters", "ajo deliveries list"))
	require.Contains(t, a.follow("AjoDeadLetters", "ajo deliveries show", "<delivery>", letter), "HTTP 410")
	a.follow("AjoDeadLetters", "ajo deliveries replay", "<delivery>", letter)
	a.eventually("the replay", func() bool { return a.count(`SELECT count(*) FROM deliveries WHERE status = 'delivered'`) == 1 })
	require.Contains(t, a.follow("AjoEventsForged", "ajo events list"), "sig_invalid")
	require.Contains(t, a.follow("AjoEventsForged", "ajo reconcile"), "missing_event")
	a.eventually("the payment whose event was forged", func() bool {
		return a.count(`SELECT count(*) FROM ledger_entries WHERE provider_txn_ref = $1`, forged.tx.ID) == 1
	})
	p.tenant.want(200, "POST", "/v1/transfers/lookup", map[string]string{"bankCode": "058", "accountNumber": "0123456789"})
	a.quiet(roles, "AjoDeliveriesFailing", "AjoDeadLetters", "AjoEventsForged", "AjoBankFailing", "AjoAPIErrors")
}

// The bank and an endpoint answer late, and the NIN service not at all.
func TestAlertsOfSlowParties(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_DELIVERY_DELAYS"] = "1h"
	a.settings["AJO_IDENTITY_URL"], a.settings["AJO_IDENTITY_APP_ID"], a.settings["AJO_IDENTITY_KEY"] = a.settings["AJO_PROVIDER_URL"], "test", "an-identity-key-of-this-test"
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	roles["worker"] = a.watched(func() { a.startWorker("") })
	var asked atomic.Int64
	lookUp := func() { // another account each time, as a name is kept for a while
		p.tenant.want(200, "POST", "/v1/transfers/lookup", map[string]string{"bankCode": "058", "accountNumber": fmt.Sprintf("01%08d", asked.Add(1))})
	}
	for range 10 { // so that the slow ones are not the first of all
		lookUp()
		p.payAndTell(p.nuban, "5000.00")
	}
	a.eventually("quick deliveries", func() bool { return p.progress().delivered == 10 })
	p.endpoint.answers(func(n int) int { return map[bool]int{true: 503, false: 200}[n <= 10+some] })
	p.arrive()
	a.eventually("failed deliveries", func() bool {
		return a.count(`SELECT count(*) FROM deliveries WHERE status = 'pending' AND attempt_count = 1`) == some
	})
	a.look(roles)
	// the hour has passed
	a.Exec(`UPDATE deliveries SET created_at = created_at - interval '1 hour' WHERE status = 'pending'`)
	a.Exec(`UPDATE work SET due_at = now() WHERE kind = 'deliver'`)
	a.eventually("the deliveries", func() bool { return p.progress().delivered == 10+some })

	a.bank.Faults.Set(
		fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Slow, Delay: 8500 * time.Millisecond},
		fakebank.Rule{On: fakebank.OnNIN, Do: fakebank.Fail},
	)
	var lookups sync.WaitGroup
	for range 5 {
		lookups.Go(lookUp)
	}
	var customers []string
	for i := range 3 {
		c := p.tenant.open(fmt.Sprintf("customer-%d", i)).CustomerID
		p.tenant.want(200, "POST", "/v1/customers/"+c+"/kyc", map[string]string{"nin": nin})
		customers = append(customers, c)
	}
	lookups.Wait()
	a.look(roles)
	a.must("AjoDeliveriesSlow", "AjoBankSlow", "AjoNINFailing")

	a.says(a.api, "AjoNINFailing", "a NIN check gave no answer")
	require.Equal(t, 3, a.count(`SELECT count(*) FROM customers WHERE kyc_status = 'pending_review'`))
	waiting := a.follow("AjoNINFailing", "ajo customers review")
	for _, c := range customers {
		require.Contains(t, waiting, c)
		a.follow("AjoNINFailing", "ajo customers approve", "<customer>", c)
	}
	require.Zero(t, a.count(`SELECT count(*) FROM customers WHERE kyc_status = 'pending_review'`))
	a.bank.Faults.Clear()
	a.bank.AddPerson(nin, fakebank.Person{FirstName: "Ada", LastName: "Obi"})
	a.forget()
	a.look(roles)
	for range 10 {
		lookUp()
	}
	p.tenant.want(200, "POST", "/v1/customers/"+p.tenant.open("customer-4").CustomerID+"/kyc", map[string]string{"nin": nin})
	p.arrive()
	a.eventually("quick deliveries", func() bool { return p.progress().delivered == 10+2*some })
	a.look(roles)
	a.mustNot("AjoDeliveriesSlow", "AjoBankSlow", "AjoNINFailing")
}

// An endpoint is down for longer than the rule bears, which is made three seconds here: nothing can
// make a worker believe that it has had a breaker open for half an hour.
func TestAlertsOfBreaker(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_DELIVERY_DELAYS"] = "24h"
	a.sooner("ajo_delivery_breaker_oldest_open_seconds) > 1800", "ajo_delivery_breaker_oldest_open_seconds) > 3")
	var p *paid
	var worker *process
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	roles["worker"] = a.watched(func() { worker = a.startWorker("") })
	p.endpoint.answers(func(int) int { return 503 })
	const payments = 15
	for range payments {
		p.payAndTell(p.nuban, "5000.00")
	}
	a.eventually("an open breaker", func() bool { return sample(scrape(roles["worker"]), "ajo_delivery_breakers_open") == 1 })
	a.eventually("it to be open for longer", func() bool { return sample(scrape(roles["worker"]), "ajo_delivery_breaker_oldest_open_seconds") > 3 })
	a.look(roles)
	a.must("AjoBreakerOpen")
	a.says(worker, "AjoBreakerOpen", "an endpoint is down")
	a.follow("AjoBreakerOpen", "ajo tenant show", "<tenant id>", fmt.Sprint(worker.logged("an endpoint is down: its deliveries are held while one at a time probes it")["tenant"]))
	p.endpoint.answers(nil)
	a.Exec(`UPDATE work SET due_at = now() WHERE kind = 'deliver'`) // the day has passed
	a.eventually("the deliveries", func() bool { return p.progress().delivered == payments })
	a.eventually("a closed breaker", func() bool { return sample(scrape(roles["worker"]), "ajo_delivery_breakers_open") == 0 })
	a.quiet(roles, "AjoBreakerOpen")
}

// A worker whose work fails for a reason that nobody expected, and then Redis, emptied under it.
func TestAlertsOfWork(t *testing.T) {
	const rows = 160 // half a row a second, for five minutes, is 150
	a := newAlarm(t)
	a.settings["AJO_CONFIRM_DELAYS"] = "1h"
	var p *paid
	var worker *process
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	roles["worker"] = a.watched(func() { worker = a.startWorker("") })
	a.look(roles)
	a.Exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file'; END $$`)
	a.Exec(`CREATE TRIGGER fail BEFORE UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION fail()`)
	p.arrive()
	a.eventually("failures", func() bool {
		return sample(scrape(roles["worker"]), `ajo_queue_rows_total{outcome="failed",queue="deliver"}`) >= some
	})
	a.look(roles)
	a.must("AjoRowsFailing")
	a.mustNot("AjoSweeperFinds")
	a.says(worker, "AjoRowsFailing", "a task failed")
	require.Contains(t, fmt.Sprint(worker.out.line("a task failed")), "could not extend file")
	require.Contains(t, a.follow("AjoRowsFailing", "ajo work list"), "could not extend file")
	a.Exec(`DROP TRIGGER fail ON deliveries`)
	a.eventually("the deliveries", func() bool { return p.progress().delivered == some })
	a.quiet(roles, "AjoRowsFailing")

	for range rows - some {
		p.payAndTell(p.nuban, "5000.00")
	}
	a.eventually("the deliveries", func() bool { return p.progress().delivered == rows })
	a.forget()
	a.look(roles)
	a.flush()
	// the hour has passed
	a.Exec(`UPDATE work SET due_at = now() - interval '1 minute' WHERE kind = 'confirm'`)
	a.eventually("the confirmations", func() bool { return p.progress().confirmed == rows })
	a.look(roles)
	a.must("AjoSweeperFinds")
	require.Contains(t, a.follow("AjoSweeperFinds", "redis-cli"), "noeviction")
	require.Contains(t, a.follow("AjoSweeperFinds", "ajo work list"), "confirm")
	a.quiet(roles, "AjoSweeperFinds")
}
