package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair are two API processes on fixed addresses and what stands before them: a client that goes to
// the other one when a connection is refused, or when an answer asks it to close the connection. It
// tries nothing else again: a request that gets no answer for any other reason is lost.
type pair struct {
	*paid
	client  *http.Client
	addrs   [2]string
	apis    [2]*process
	prefers atomic.Int32

	answered, turned, lost atomic.Int64
	why                    sync.Map
}

func newPair(p *paid) *pair {
	r := &pair{paid: p, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	for i := range r.addrs {
		r.addrs[i] = freeAddress(p.t)
		r.startsAPI(i)
	}
	return r
}

// startsAPI starts one of the two and waits until it listens.
func (r *pair) startsAPI(i int) {
	r.t.Helper()
	settings := maps.Clone(r.settings)
	settings["AJO_HTTP_ADDR"] = r.addrs[i]
	r.apis[i] = startProgram(r.t, r.dir, settings, r.command([]string{"api"}), []string{"api"})
	r.procs = append(r.procs, r.apis[i])
	r.apis[i].logged("the API listens")
}

// send makes one request, and returns the status of its answer; 0: it was lost.
func (r *pair) send(method, path string, body []byte, header http.Header) int {
	for try := 0; ; try++ {
		to := r.prefers.Load()
		req, err := http.NewRequest(method, "http://"+r.addrs[to]+path, bytes.NewReader(body))
		if err != nil {
			r.t.Error(err)
			return 0
		}
		req.Header = header.Clone()
		resp, err := r.client.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) && try < 100:
			r.prefers.CompareAndSwap(to, 1-to)
			r.turned.Add(1)
			continue
		case err != nil:
			r.lost.Add(1)
			r.why.Store(err.Error(), true)
			return 0
		case resp.Close:
			r.prefers.CompareAndSwap(to, 1-to)
			r.turned.Add(1)
		}
		r.answered.Add(1)
		return resp.StatusCode
	}
}

// pays has the bank send payments, and the tenant ask and open accounts, until done says so. It
// returns how many payments and accounts there were.
func (r *pair) pays(done func() bool) (payments, accounts int64) {
	var paid, opened atomic.Int64
	var wg sync.WaitGroup
	key := http.Header{"X-Api-Key": {r.tenant.key}, "Content-Type": {"application/json"}}
	for range 3 {
		wg.Go(func() {
			for !done() {
				e := r.genuine()
				if status := r.send("POST", "/webhooks/provider", e.body, e.headers); status != 200 {
					r.t.Errorf("an event was answered %d", status)
				}
				paid.Add(1)
			}
		})
	}
	wg.Go(func() {
		for i := 0; !done(); i++ {
			body := fmt.Appendf(nil, `{"externalRef":"rolling-%d","name":"Ada Obi"}`, i)
			if status := r.send("POST", "/v1/accounts", body, key); status != 201 {
				r.t.Errorf("an account was answered %d", status)
			}
			opened.Add(1)
			if status := r.send("GET", "/v1/accounts/shop-1/statement", nil, key); status != 200 {
				r.t.Errorf("a statement was answered %d", status)
			}
		}
	})
	wg.Wait()
	return paid.Load(), opened.Load()
}

// helpedBySweep waits until so many payments have ended, and starts a worker that sweeps if a
// process says that Redis did not take its task in time: only such tasks are left to the sweep.
func (r *pair) helpedBySweep(payments int) {
	r.t.Helper()
	sweeps := false
	r.whileMoving("the payments to end, those that were not enqueued after a sweep", r.progress, func() bool {
		leaves := func(p *process) bool {
			return p.out.line("a task was not enqueued; the sweep will find its items") != nil
		}
		if !sweeps && slices.ContainsFunc(r.procs, leaves) {
			r.settings["AJO_SWEEP_EVERY"], sweeps = "1s", true
			r.startWorker("")
		}
		return r.progress() == progress{payments, payments, payments, payments}
	})
}

// Two workers and two APIs are replaced, one after the other and twice over, while payments come
// in: no request is lost, no task is left to the sweep, which does not run here unless Redis fails,
// and the books are right.
func TestRollingReplacement(t *testing.T) {
	w := newWorld(t)
	w.lookForRaces()
	w.settings["AJO_SWEEP_EVERY"] = "1h"
	p := w.settle()
	r := newPair(p)
	w.bank.SetWebhookURL("http://" + r.addrs[0] + "/webhooks/provider")
	p.stops(p.api)
	workers := []*process{p.startWorker(""), p.startWorker("")}

	replaced := make(chan struct{})
	go func() {
		defer close(replaced)
		for range 2 {
			for i := range workers {
				workers[i].Signal(syscall.SIGTERM)
				<-workers[i].Done()
				workers[i] = p.startWorker("")
			}
			for i := range r.apis {
				r.apis[i].Signal(syscall.SIGTERM)
				<-r.apis[i].Done()
				r.startsAPI(i)
			}
		}
	}()
	payments, accounts := r.pays(func() bool {
		select {
		case <-replaced:
			return true
		default:
			return false
		}
	})
	for _, p := range w.procs[:len(w.procs)-4] { // all but the four that run
		require.Zero(t, p.exit(), "ajo %v", p.args)
	}
	r.why.Range(func(why, _ any) bool { t.Errorf("a request was lost: %v", why); return true })
	require.Zero(t, r.lost.Load())
	r.helpedBySweep(int(payments))
	p.waitForEnd(int(payments))
	p.txs = p.bank.Transactions()
	p.checkBooks(p.endpoint)
	require.Equal(t, int(accounts)+1, p.count(`SELECT count(*) FROM accounts`))
	require.Len(t, p.endpoint.received(), int(payments), "no delivery was cut off, so none was made again")

	posted, delivered := p.latest(`SELECT max(extract(epoch FROM processed_at - received_at)) FROM inbound_events`),
		p.latest(`SELECT max(extract(epoch FROM delivered_at - created_at)) FROM deliveries`)
	t.Logf("%d payments and %d accounts in %d requests over 8 replacements; %d turned to the other API, %d lost; posted after %s at the latest, delivered after %s",
		payments, accounts, r.answered.Load(), r.turned.Load(), r.lost.Load(), posted, delivered)
	require.GreaterOrEqual(t, payments, int64(50))
}

// latest is a query's number of seconds.
func (w *world) latest(sql string) time.Duration {
	w.t.Helper()
	return time.Duration(w.count(`SELECT ceil(1000 * (`+sql+`))::bigint`)) * time.Millisecond
}
