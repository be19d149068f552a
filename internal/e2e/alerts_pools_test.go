package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
)

// Somebody's open transaction holds a lock that every request waits for, with its connection in
// hand; ending it as the runbook says lets them go on.
func TestAlertsOfPostgresPool(t *testing.T) {
	const requests = 120 // above the pool's six
	a := newAlarm(t)
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	in := p.tenant.want(200, "POST", "/auth/login", map[string]string{"email": p.tenant.email, "password": p.tenant.password})
	// sessions are looked up one by one; requests with a key would wait for one another's look-up
	p.tenant.session = sessionOf(t, in)
	quick := func() {
		for range requests {
			p.tenant.want(200, "GET", "/auth/me", nil)
		}
	}
	quick()
	a.look(roles)
	ctx := context.Background()
	require.ErrorContains(t, pg.InTx(ctx, a.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE sessions`); err != nil {
			return err
		}
		var waiting sync.WaitGroup
		begun := time.Now()
		for range requests {
			waiting.Go(func() { _ = p.tenant.send("GET", "/auth/me", nil) })
		}
		a.eventually("the requests to wait long enough", func() bool {
			return time.Since(begun) > 8*time.Second && sample(scrape(roles["api"]), `ajo_postgres_connections{state="used"}`) == 6
		})
		var blocker string
		for _, row := range cells(a.follow("AjoAPISlow", "SELECT pid")) {
			if strings.HasPrefix(row[1], "idle in transaction") && row[3] == "{}" {
				blocker = row[0]
			}
		}
		require.NotEmpty(t, blocker)
		a.follow("AjoAPISlow", "SELECT pg_terminate_backend", "<pid>", blocker)
		waiting.Wait()
		_, err := tx.Exec(ctx, `SELECT 1`)
		return err
	}), "terminat")
	a.look(roles)
	a.must("AjoAPISlow", "AjoPostgresPoolExhausted")
	a.forget()
	a.look(roles)
	quick()
	a.look(roles)
	a.mustNot("AjoAPISlow", "AjoPostgresPoolExhausted", "AjoPostgresUnreachable")
}

// Redis goes silent just when many deliveries end, again and again: each task is to be taken off
// it, and there are fewer connections than tasks.
func TestAlertsOfRedisPool(t *testing.T) {
	// deliveries: more than connections, and all begun before the first call times out
	const together = 30
	a := newAlarm(t)
	a.settings["GOMAXPROCS"] = "1" // ten connections, whatever the machine has
	redis := a.proxied("AJO_REDIS_URL")
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	// so that one endpoint may have 128 calls
	roles["worker"] = a.watched(func() { a.startWorker("ingest,deliver=1024") })
	timeouts := func() int { return sample(scrape(roles["worker"]), "ajo_redis_pool_timeouts_total") }
	a.look(roles)
	payments := 0
	for timeouts() < 40 { // the rule's rate
		redis.Restore()
		a.eventually("the deliveries", func() bool { return p.progress().delivered == payments })
		release := make(chan struct{})
		let := sync.OnceFunc(func() { close(release) })
		t.Cleanup(let)
		p.endpoint.answers(func(int) int { <-release; return 200 })
		for range together { // one after the other, as deliveries that come together share a task
			calls := len(p.endpoint.received())
			p.payAndTell(p.nuban, "5000.00")
			payments++
			a.eventually("the call", func() bool { return len(p.endpoint.received()) > calls })
		}
		before := timeouts()
		redis.Stall(true)
		let()
		a.eventually("commands that find no connection", func() bool { return timeouts() >= before+5 })
	}
	a.look(roles)
	a.must("AjoRedisPoolExhausted")
	redis.Restore()
	a.follow("AjoRedisPoolExhausted", "redis-cli")
	a.eventually("the deliveries", func() bool { return p.progress().delivered == payments })
	a.eventually("a look", func() bool { return sample(scrape(roles["worker"]), "ajo_redis_up") == 1 })
	t.Logf("%d payments", payments)
	a.quiet(roles, "AjoRedisPoolExhausted", "AjoRedisUnreachable")
}
