package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/supervise"
	"ajo/internal/testenv"
)

// A backlog of AJO_SCALE_PAYMENTS payments (400; make scale: 6000) is posted and confirmed by two
// and four worker processes, and in the long form by one before. Of several each does some of it;
// one is told to stop in the middle and hands back what it has; each payment is posted once and
// confirmed. (Deliveries have limits for each tenant, which isolation_test.go of package workers
// shows.)
func TestWorkersShareTheWork(t *testing.T) {
	w := newWorld(t)
	// what a stopped worker hands back must not be left to the sweeper
	w.settings["AJO_SWEEP_EVERY"] = "1m"
	w.startAPI()
	tenant := w.signUp(nil)
	var nubans []string
	for i := range 16 {
		nubans = append(nubans, tenant.open(fmt.Sprintf("scale-%d", i)).BankAccountNumber)
	}
	payments, until, rounds := scalePayments(t), 0, []int{1, 2, 4}
	if payments == fewPayments {
		rounds = rounds[1:]
	}
	for _, processes := range rounds {
		for i := range payments {
			w.pay(nubans[i%len(nubans)], "5000.00")
		}
		until += payments
		testenv.Eventually(t, 5*time.Minute, "the backlog", func() bool { return w.progress().stored == until }, func() any { return w.state() })
		took, shares := w.workOff(processes, until)
		t.Logf("%d processes: %d payments posted and confirmed in %s, %.0f a second; rows by process: %v",
			processes, payments, took.Round(time.Millisecond), float64(payments)/took.Seconds(), shares)
		idle := 0
		for _, n := range shares {
			if n == 0 {
				idle++
			}
		}
		// A task takes up to a hundred rows along: the short form has so few that one process may
		// find none left.
		require.LessOrEqual(t, idle, max(0, processes-2), "processes that did nothing")
	}
	w.checkBooks(nil)
}

// fewPayments is the short form's backlog: several tasks of the slow queue, which carry a hundred
// each, for each of two processes.
const fewPayments = 400

// workOff runs so many workers until all payments so far are confirmed, and stops them. In the
// short form the bank answers nothing until two are at work. Of several, one that is at work is
// told to stop when half is confirmed. It returns the time from their start to the end, and how
// many rows each worked on.
func (w *world) workOff(processes, until int) (time.Duration, []int) {
	w.t.Helper()
	before := w.progress().confirmed
	queues := "ingest,confirm"
	few := until <= 2*fewPayments
	if few { // few places, so that the first process does not take up all
		queues = "ingest=2,confirm=2"
	}
	all, ops, shares := make([]*process, processes), make([]string, processes), make([]int, processes)
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	for _, queue := range []string{"ingest", "confirm"} { // nobody begins before all are there
		require.NoError(w.t, w.redis.SAdd(context.Background(), "asynq:queues", queue).Err())
		require.NoError(w.t, inspector.PauseQueue(queue))
	}
	for i := range all {
		all[i] = w.run("worker", "--queues", queues)
	}
	for i, worker := range all {
		worker.logged("the worker runs")
		ops[i] = worker.ops()
	}
	answer := make(chan struct{})
	if few {
		w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Slow, Delay: time.Hour, Until: answer})
	}
	begin := time.Now()
	for _, queue := range []string{"ingest", "confirm"} {
		require.NoError(w.t, inspector.UnpauseQueue(queue))
	}
	stopped := 0
	if few {
		testenv.Eventually(w.t, time.Minute, "two workers with questions that the bank has not answered", func() bool {
			busy := atWork(w.t, inspector, all)
			if len(busy) >= 2 {
				stopped = busy[0]
			}
			return len(busy) >= 2
		}, func() any { return w.state() })
	}
	w.bank.Faults.Clear()
	close(answer)
	if processes > 1 {
		testenv.Eventually(w.t, 5*time.Minute, "half of the confirmations, some by the worker that is to stop", func() bool {
			shares[stopped] = rowsOf(w.t, ops[stopped])
			return shares[stopped] > 0 && w.progress().confirmed >= (before+until)/2
		}, func() any { return w.state() })
		w.stops(all[stopped])
	}
	testenv.Eventually(w.t, 5*time.Minute, "the end of the backlog", func() bool { return w.progress().confirmed == until }, func() any { return w.state() })
	took := time.Since(begin)
	for i, worker := range all {
		if !worker.Ended() {
			shares[i] = rowsOf(w.t, ops[i])
			w.stops(worker)
		}
	}
	return took, shares
}

// atWork are the workers that have tasks of confirmations under way.
func atWork(t testing.TB, inspector *asynq.Inspector, all []*process) (busy []int) {
	t.Helper()
	servers, err := inspector.Servers()
	require.NoError(t, err)
	for i, p := range all {
		if slices.ContainsFunc(servers, func(s *asynq.ServerInfo) bool {
			return s.PID == p.PID && slices.ContainsFunc(s.ActiveWorkers, func(w *asynq.WorkerInfo) bool { return strings.HasPrefix(w.Queue, "confirm") })
		}) {
			busy = append(busy, i)
		}
	}
	return busy
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := supervise.FreePort()
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// rowsOf is how many rows a worker has ended its work on, by its own metrics.
func rowsOf(t testing.TB, ops string) (n int) {
	t.Helper()
	a, err := request("GET", "http://"+ops+"/metrics", nil, http.Header{})
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(a.body)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "ajo_queue_rows_total{") && strings.Contains(name, `outcome="done"`) {
			rows, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			n += int(rows)
		}
	}
	return n
}

// scalePayments is the size of a backlog.
func scalePayments(t *testing.T) int {
	t.Helper()
	s := os.Getenv("AJO_SCALE_PAYMENTS")
	if s == "" {
		return fewPayments
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
