package e2e

import (
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

const (
	many  = 200 // payments
	kills = 6
)

// Workers are killed (kill -9) and started again in the middle of many payments, at moments drawn
// from a seed. Each payment is posted exactly once, delivered at least once, and confirmed; the
// books agree.
func TestKilledWorkers(t *testing.T) {
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	p := newWorld(t).settle()
	nubans := []string{p.nuban, p.tenant.open("shop-2").BankAccountNumber, p.tenant.open("shop-3").BankAccountNumber}
	workers := []*process{p.startWorker(""), p.startWorker("")}

	var paying sync.WaitGroup
	var paid atomic.Int64
	for i := range 4 {
		paying.Go(func() {
			for j := range many / 4 {
				// Not all at once: a worker is to be killed while it posts, too.
				p.eventually("some of the payments to be posted", func() bool { return int(paid.Load())-p.progress().posted < many/8 })
				paid.Add(1)
				// every other payment hits the first account
				p.pay(nubans[(i+j)%len(nubans)*(j%2)], "5000.00")
			}
		})
	}
	// A payment makes three steps, so the moments lie anywhere from the first posting to the last
	// confirmation.
	moments := make([]int, kills)
	for i := range moments {
		moments[i] = 1 + rng.IntN(3*many*95/100)
	}
	slices.Sort(moments)
	for _, moment := range moments {
		var at progress
		p.eventually("the moment to kill", func() bool {
			at = p.progress()
			return at.posted+at.delivered+at.confirmed >= moment
		})
		i := rng.IntN(len(workers))
		workers[i].Kill()
		t.Logf("killed worker %d at %+v", i, at)
		workers[i] = p.startWorker("")
	}
	paying.Wait()
	p.txs = p.bank.Transactions()
	require.Len(t, p.txs, many)
	p.minutePasses()
	p.waitForEnd(many)
	p.checkBooks(p.endpoint)
	t.Logf("%d deliveries of %d payments", len(p.endpoint.received()), many)
}

// seedOf draws a seed, or takes the one of AJO_E2E_SEED, and logs it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if v := os.Getenv("AJO_E2E_SEED"); v != "" {
		var err error
		seed, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("AJO_E2E_SEED=%d", seed)
	return seed
}

// minutePasses ends the leases that killed workers have left, which would run out by themselves
// within a minute. A worker that lives finds its own claim gone, and what it does done again, which
// must be harmless too. With AJO_E2E_PATIENT set the test waits for the minute instead.
func (w *world) minutePasses() {
	if patient() {
		return
	}
	w.Exec(`UPDATE work SET leased_until = now() WHERE leased_until > now()`)
	w.Exec(`UPDATE confirm_lists SET leased_until = now() WHERE read_at IS NULL AND leased_until > now()`)
}

// patient reports whether faults are waited out in real time, which takes minutes.
func patient() bool { return os.Getenv("AJO_E2E_PATIENT") != "" }

// The API and the workers are asked to stop (SIGTERM) under load, and are replaced: each ends with
// code 0 in its time, what the API has answered 200 is stored, a call under way is finished and
// recorded, and nothing is lost.
func TestStopUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.lookForRaces()
	p := w.settle()
	workers := []*process{p.startWorker("ingest,confirm,expire,settle"), p.startWorker("deliver=128")}
	var paying sync.WaitGroup
	for range 4 {
		paying.Go(func() {
			for range many / 4 {
				p.pay(p.nuban, "5000.00")
			}
		})
	}
	p.eventually("a quarter of the events", func() bool { return p.progress().stored >= many/4 })
	p.stops(p.api)
	taken := 0
	for _, hook := range p.bank.Webhooks() {
		if hook.State == fakebank.HookDelivered {
			taken++
		}
	}
	require.GreaterOrEqual(t, p.progress().stored, taken, "what was answered 200 is stored")
	for i, queues := range []string{"ingest,confirm,expire,settle", "deliver=128"} {
		p.stops(workers[i])
		workers[i] = p.startWorker(queues)
	}
	p.startAPI()
	p.eventually("three quarters of the deliveries", func() bool { return p.progress().delivered >= many*3/4 })
	p.stops(workers[0])
	p.startWorker("ingest,confirm,expire,settle")
	paying.Wait()
	p.txs = p.bank.Transactions()
	p.waitForEnd(many)
	p.checkBooks(p.endpoint)
	require.Len(t, p.endpoint.received(), many, "no delivery was cut off, so none was made again")
}

// A worker that is asked to stop while a tenant's endpoint has its call waits for the answer and
// records it.
func TestStopFinishesTheCallUnderWay(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := newWorld(t).settle()
			answer := make(chan struct{})
			var once sync.Once
			release := func() { once.Do(func() { close(answer) }) }
			t.Cleanup(release)
			p.endpoint.answers(func(int) int { <-answer; return 200 })
			worker := p.startWorker("")
			p.arrive()
			p.eventually("the calls of the endpoint", func() bool { return len(p.endpoint.received()) == some })
			worker.Signal(sig)
			release()
			require.Zero(t, worker.exit())
			require.Equal(t, some, p.progress().delivered)
			p.startWorker("")
			p.waitForEnd(some)
			p.checkBooks(p.endpoint)
			require.Len(t, p.endpoint.received(), some)
		})
	}
}

// Clients open connections in advance. The API does not wait for what never comes on them, but has
// its log and its code as if they were not there.
func TestStopWithUnusedConnections(t *testing.T) {
	w := newWorld(t)
	w.startAPI()
	for range 4 {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.apiURL, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	require.Equal(t, 200, w.send("GET", "/health", nil, http.Header{}).status)
	w.stops(w.api)
	require.Nil(t, w.api.out.line("requests were cut off"), "it waited for them to its limit")
}

// stops asks a process to stop and waits for its end.
func (w *world) stops(p *process) {
	w.t.Helper()
	begin := time.Now()
	p.Signal(syscall.SIGTERM)
	require.Zero(w.t, p.exit(), "%s", p.out.tail(2000))
	w.t.Logf("ajo %v stopped after %s", p.args, time.Since(begin).Round(time.Millisecond))
}
