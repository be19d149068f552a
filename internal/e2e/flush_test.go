package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/tasks"
)

// paid is a world with a tenant that has an account, and payments on their way to it.
type paid struct {
	*world
	tenant   *tenant
	endpoint *endpoint
	nuban    string
	txs      []fakebank.Transaction
}

// some is how many payments are on their way when Redis is emptied.
const some = 3

// settle starts an API, signs a tenant up with an endpoint, and opens an account; the workers are
// the test's own.
func (w *world) settle() *paid {
	w.t.Helper()
	w.startAPI()
	p := &paid{world: w, endpoint: newEndpoint(w.t)}
	p.tenant = w.signUp(p.endpoint)
	p.nuban = p.tenant.open("shop-1").BankAccountNumber
	return p
}

// arrive makes some payments whose events the API has taken when it returns.
func (p *paid) arrive() {
	p.t.Helper()
	for range some {
		p.txs = append(p.txs, p.payAndTell(p.nuban, "5000.00"))
	}
}

// tasks counts the tasks that a queue has in a state, as asynq keeps them. How many rows they are
// about is another matter, which depends on what arrived together: see enqueued.
func (w *world) tasks(queue, state string) int {
	w.t.Helper()
	key := "asynq:{" + queue + "}:" + state
	count := w.redis.ZCard
	if state == "pending" || state == "active" {
		count = w.redis.LLen
	}
	n, err := count(context.Background(), key).Result()
	require.NoError(w.t, err)
	return int(n)
}

// enqueued counts the rows that the tasks of a queue are about, in whatever state the tasks wait,
// and however many rows share one.
func (w *world) enqueued(queue string) int {
	w.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	rows := map[uuid.UUID]bool{}
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		inspector.ListPendingTasks, inspector.ListScheduledTasks, inspector.ListRetryTasks, inspector.ListActiveTasks,
	} {
		all, err := list(queue, asynq.PageSize(10_000))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		require.NoError(w.t, err)
		for _, task := range all {
			items, err := tasks.Items(asynq.NewTask(task.Type, task.Payload))
			require.NoError(w.t, err)
			for _, m := range items {
				rows[m.ID] = true
			}
		}
	}
	return len(rows)
}

// flush is FLUSHALL for this test's Redis database.
func (w *world) flush() {
	w.t.Helper()
	require.NoError(w.t, w.redis.FlushDB(context.Background()).Err())
}

// Redis is emptied at every stage of a payment. Each stage is held until Redis is empty: by workers
// that do not run yet, by the tenant's endpoint, or by the bank. The payments still end delivered
// and confirmed within a few sweeps.
func TestFlushAtEveryStage(t *testing.T) {
	for name, stage := range map[string]func(*paid){
		"after stored":                flushAfterStored,
		"after posted":                flushAfterPosted,
		"while being delivered":       flushWhileDelivering,
		"between delivery attempts":   flushBetweenAttempts,
		"before the first check":      flushBeforeCheck,
		"while the bank is asked":     flushWhileAsking,
		"between checks":              flushBetweenChecks,
		"after each of many payments": flushAgainAndAgain,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := &paid{world: w}
			switch name {
			case "between delivery attempts":
				w.settings["AJO_DELIVERY_DELAYS"] = "1h,1s" // the test ends the hour
			case "before the first check":
				w.settings["AJO_CONFIRM_DELAYS"] = "1h,1s"
			}
			*p = *w.settle()
			stage(p)
			p.waitForEnd(len(p.txs))
			p.checkBooks(p.endpoint)
		})
	}
}

// The event is stored and its task waits in Redis; no worker has ever run.
func flushAfterStored(p *paid) {
	p.arrive()
	p.eventually("every event to be enqueued", func() bool { return p.enqueued("ingest") == some })
	p.flush()
	require.Equal(p.t, progress{stored: some}, p.progress())
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
}

// The payment is posted, its delivery and its first check are enqueued; nobody serves these queues
// yet.
func flushAfterPosted(p *paid) {
	p.startWorker("ingest")
	p.arrive()
	p.eventually("every payment to be enqueued for delivery and for confirmation", func() bool {
		return p.enqueued("deliver") == some && p.enqueued("confirm") == some
	})
	p.flush()
	require.Equal(p.t, progress{stored: some, posted: some}, p.progress())
	p.startWorker("confirm,expire,settle")
	p.startWorker("deliver=128")
}

// The tenant's endpoint has the request and has not answered. The claim keeps everybody else away,
// so it gets no second one.
func flushWhileDelivering(p *paid) {
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	p.t.Cleanup(release)
	p.endpoint.answers(func(int) int { <-answer; return 200 })
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	p.arrive()
	p.eventually("the calls of the endpoint", func() bool { return len(p.endpoint.received()) == some })
	p.flush()
	require.Zero(p.t, p.progress().delivered)
	release()
	p.waitForEnd(some)
	require.Len(p.t, p.endpoint.received(), some)
}

// The endpoint has failed once; the next attempt is a task in Redis alone, and in the row.
func flushBetweenAttempts(p *paid) {
	p.endpoint.answers(func(number int) int {
		if number <= some {
			return 500
		}
		return 200
	})
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	p.arrive()
	p.eventually("the next attempts to be enqueued", func() bool {
		return p.enqueued("deliver") == some && p.tasks("deliver", "active") == 0 &&
			p.count(`SELECT count(*) FROM deliveries WHERE attempt_count = 1`) == some
	})
	p.flush()
	require.Zero(p.t, p.progress().delivered)
	p.Exec(`UPDATE work SET due_at = now() WHERE kind = 'deliver'`)
	p.waitForEnd(some)
	require.Equal(p.t, some, p.count(`SELECT count(*) FROM deliveries WHERE attempt_count = 2`), "one attempt more was made of each")
	require.Len(p.t, p.endpoint.received(), 2*some)
}

// The payment is delivered; the first question to the bank is a task in Redis.
func flushBeforeCheck(p *paid) {
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	p.arrive()
	p.eventually("the deliveries", func() bool { return p.progress().delivered == some })
	p.eventually("the first checks to be enqueued", func() bool { return p.enqueued("confirm") == some })
	p.flush()
	require.Zero(p.t, p.progress().confirmed)
	p.Exec(`UPDATE work SET due_at = now() WHERE kind = 'confirm'`)
}

// The bank has the questions and answers none of them until Redis is empty.
func flushWhileAsking(p *paid) {
	const asked = "GET /v1/transactions/accounts/single"
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	p.t.Cleanup(release)
	p.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.SlowAfter, Delay: time.Minute, Until: answer})
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	p.arrive()
	p.eventually("the questions to the bank", func() bool { return p.bank.Calls(asked) == some })
	p.flush()
	require.Zero(p.t, p.progress().confirmed)
	release()
	p.waitForEnd(some)
	require.Equal(p.t, some, p.bank.Calls(asked), "the claim kept everybody else away")
}

// The bank did not know the payment yet; it is to be asked again.
func flushBetweenChecks(p *paid) {
	p.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound})
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	p.arrive()
	p.eventually("checks in vain", func() bool {
		return p.count(`SELECT count(*) FROM inbound_events e JOIN work w ON w.kind = 'confirm' AND w.id = e.id WHERE misses > 0 AND w.leased_until IS NULL`) == some
	})
	p.flush()
	require.Zero(p.t, p.progress().confirmed)
	p.bank.Faults.Clear()
}

// Redis is emptied over and over while payments come in and go their ways.
func flushAgainAndAgain(p *paid) {
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	for range 20 {
		p.arrive()
		p.flush()
	}
}

// Emptied, Redis forgets which queues there are; the dashboard must know them again without a
// restart.
func TestQueuesAreListedAfterFlush(t *testing.T) {
	p := newWorld(t).settle()
	p.startWorker("")
	p.arrive()
	p.waitForEnd(some)
	p.flush()
	p.arrive()
	p.waitForEnd(2 * some)
	inspector := asynq.NewInspectorFromRedisClient(p.redis)
	p.eventually("the queues that have had work since", func() bool {
		names, err := inspector.Queues()
		require.NoError(t, err)
		return len(names) >= 3
	})
}
