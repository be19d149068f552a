package e2e

import (
	"encoding/json"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// answerLimit is what an answer may take while Redis is away: less than the bank waits, with a slow
// machine allowed for.
const answerLimit = 8 * time.Second

// Redis goes away, refusing connections or answering nothing, and comes back. Meanwhile the bank's
// events are taken with 200 and the API serves; /ready says so. Processes that are started
// meanwhile start. Afterwards everything is posted, delivered and confirmed.
func TestRedisAway(t *testing.T) {
	for name, away := range map[string]func(*testenv.Proxy, bool){"refusing": (*testenv.Proxy).Refuse, "silent": (*testenv.Proxy).Stall} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lookForRaces()
			line := w.proxied("AJO_REDIS_URL")
			p := w.settle()
			w.startWorker("ingest,confirm,expire,settle")
			w.startWorker("deliver=128")
			p.arrive()
			p.waitForEnd(some)
			w.waitForReady(true)

			away(line, true)
			for range 10 {
				begin := time.Now()
				p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
				require.Less(t, time.Since(begin), answerLimit)
			}
			w.waitForReady(false)
			p.serves()
			late := w.startWorker("expire")
			other := start(t, w.dir, w.settings, "api")
			w.procs = append(w.procs, other)
			other.logged("the API listens")
			require.Equal(t, progress{some + 10, some, some, some}, w.progress(), "what is not enqueued is not posted")

			line.Restore()
			p.waitForEnd(some + 10)
			p.checkBooks(p.endpoint)
			w.waitForReady(true)
			for _, proc := range w.procs {
				require.False(t, proc.Ended(), "%v has ended", proc.args)
			}
			late.Signal(syscall.SIGTERM)
			require.Zero(t, late.exit())
		})
	}
}

// A worker that is told to stop while Redis is away stops in its time.
func TestStopWhileRedisIsAway(t *testing.T) {
	w := newWorld(t)
	line := w.proxied("AJO_REDIS_URL")
	p := w.settle()
	worker := w.startWorker("")
	p.arrive()
	p.waitForEnd(some)
	line.Refuse(true)
	p.arrive()
	begin := time.Now()
	worker.Signal(syscall.SIGTERM)
	w.api.Signal(syscall.SIGTERM)
	require.Zero(t, worker.exit())
	require.Zero(t, w.api.exit())
	t.Logf("both stopped after %s", time.Since(begin).Round(time.Millisecond))
}

// A worker has nothing to do while Redis refuses it, and must not be busy doing it.
func TestIdleWhileRedisIsAway(t *testing.T) {
	w := newWorld(t)
	line := w.proxied("AJO_REDIS_URL")
	line.Refuse(true)
	worker := w.startWorker("")
	begin := time.Now()
	// Three sweeps fail for want of nothing but Redis; what the process has computed by then is
	// what being idle costs.
	w.eventually("a few seconds without Redis", func() bool { return time.Since(begin) > 4*time.Second })
	worker.Kill()
	idle := time.Since(begin) // four seconds, unless the machine is busy
	used := worker.State().UserTime() + worker.State().SystemTime()
	t.Logf("%s of computing in %s", used, idle)
	require.Less(t, used, idle/2)
}

// waitForReady waits until /ready says of Redis that it is there, or that it is not. Postgres is
// there all the time.
func (w *world) waitForReady(there bool) {
	w.t.Helper()
	var a answer
	w.eventually("/ready to say so", func() bool {
		begin := time.Now()
		a = w.send("GET", "/ready", nil, http.Header{})
		require.Less(w.t, time.Since(begin), answerLimit)
		var body struct {
			Status string
			Checks map[string]string
		}
		require.NoError(w.t, json.Unmarshal(a.body, &body), "%s", a.body)
		// a Postgres that is busy may miss one of these checks
		return body.Checks["postgres"] == "ok" && there == (body.Checks["redis"] == "ok") && there == (body.Status == "ok")
	})
	require.Contains(w.t, []int{200, 503}, a.status)
}

// serves asks the API for one of each: something read, something written, something that needs the
// bank.
func (p *paid) serves() {
	p.t.Helper()
	begin := time.Now()
	require.Equal(p.t, "14925.00", p.tenant.balance("shop-1"))
	require.Len(p.t, p.tenant.statement("shop-1").Lines, some)
	p.tenant.open("shop-2")
	p.tenant.want(200, "POST", "/auth/webhook-url", map[string]string{"url": p.endpoint.URL})
	p.tenant.want(200, "POST", "/auth/login", map[string]string{"email": p.tenant.email, "password": p.tenant.password})
	require.Less(p.t, time.Since(begin), 5*answerLimit)
}
