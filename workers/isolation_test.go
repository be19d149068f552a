package workers

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/webhook"
	"ajo/tasks"
)

// receiver is a tenant's quick endpoint that knows when a payment's event arrived.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	arrived map[string]chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	e := &receiver{arrived: map[string]chan struct{}{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct{ TransactionGroupID string }
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		select {
		case <-e.of(event.TransactionGroupID): // again: it may arrive twice
		default:
			close(e.of(event.TransactionGroupID))
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *receiver) of(group string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.arrived[group] == nil {
		e.arrived[group] = make(chan struct{})
	}
	return e.arrived[group]
}

// silent is an endpoint that takes connections and never answers.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return "http://" + l.Addr().String()
}

// delivering is a worker that delivers, and two tenants.
type delivering struct {
	*bundle
	dead, quick receiving
}

type receiving struct {
	tenant, account uuid.UUID
	url             string
}

func newDelivering(t *testing.T, timeout time.Duration) *delivering {
	b := setup(t)
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	b.opts.Queues, b.opts.SweepEvery = map[tasks.Kind]int{tasks.Deliver: 0}, time.Second
	b.opts.Webhooks = webhook.New(webhook.Options{Pool: b.Pool, Clock: clock.System, Box: box, Client: safehttp.New(safehttp.Options{Allow: loopback, Timeout: timeout}), Delays: defaults.DeliveryDelays})
	t.Cleanup(b.opts.Webhooks.Close)
	with := func(url string) receiving {
		r := receiving{tenant: b.Tenant(), url: url}
		r.account = b.Account(r.tenant, "customer-"+r.tenant.String())
		return r
	}
	return &delivering{bundle: b, dead: with(silent(t)), quick: with("")}
}

// queue queues n deliveries, as a posting does, and returns their groups.
func (b *delivering) queue(r receiving, n int) []string {
	b.T.Helper()
	deliveries, groups := make([]webhook.NewDelivery, n), make([]string, n)
	for i := range deliveries {
		group := uuid.Must(uuid.NewV7())
		groups[i] = group.String()
		deliveries[i] = webhook.NewDelivery{
			Type: webhook.PaymentReceived, AccountRef: "customer",
			TenantID: r.tenant, AccountID: r.account, TransactionGroupID: group, CallbackURL: r.url, CreatedAt: clock.System.Now(),
			Payload: webhook.Payment{Amount: money.Must("10.00"), GrossAmount: money.Must("20.00"), ProviderFee: money.Must("10.00")},
		}
	}
	for chunk := range slices.Chunk(deliveries, 500) {
		require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			_, err := webhook.Queue(b.ctx, tx, clock.System.Now(), chunk)
			return err
		}))
	}
	return groups
}

// times delivers n payments to the quick tenant, four at a time, and returns how long each took,
// the shortest first.
func (b *delivering) times(e *receiver, n int) []time.Duration {
	b.T.Helper()
	var mu sync.Mutex
	var all []time.Duration
	testenv.AtOnce(4, func(int) {
		for range n / 4 {
			begin := time.Now()
			select {
			case <-e.of(b.queue(b.quick, 1)[0]):
			case <-time.After(time.Minute):
				b.T.Errorf("a delivery has not arrived after a minute")
				return
			}
			mu.Lock()
			all = append(all, time.Since(begin))
			mu.Unlock()
		}
	})
	slices.Sort(all)
	return all
}

func quantile(sorted []time.Duration, q int) time.Duration {
	return sorted[(len(sorted)-1)*q/100].Round(time.Millisecond)
}

// fromEnv lets a measurement by hand ask for more than a test run has time for.
func fromEnv(t testing.TB, name string, n int) int {
	v := os.Getenv(name)
	if v == "" {
		return n
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err)
	return n
}

// One tenant's endpoint takes calls and never answers, and thousands of its deliveries wait:
// another tenant gets its own as soon as ever. None of those that wait is lost, nor is an attempt
// counted that was not made; nor do they fill the queue. AJO_DEAD_WAITING and AJO_DEAD_TIMEOUT
// (seconds) measure at another size.
func TestDeadEndpointHoldsUpNobody(t *testing.T) {
	waiting := fromEnv(t, "AJO_DEAD_WAITING", 2000)
	timeout := time.Duration(fromEnv(t, "AJO_DEAD_TIMEOUT", 2)) * time.Second
	const others = 200
	// Far above what a busy machine adds, far below what the dead endpoint would cost without a
	// limit (waiting/256 timeouts).
	const bound = 5 * time.Second
	b := newDelivering(t, timeout)
	e := newReceiver(t)
	b.quick.url = e.URL
	b.start()
	alone := b.times(e, others)

	b.queue(b.dead, waiting)
	arrival := b.times(e, others) // while the dead endpoint's are taken up for the first time
	testenv.Eventually(t, time.Minute+timeout, "the breaker to open", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM delivery_attempts`) >= 10
	})
	beside := b.times(e, others)
	for name, times := range map[string][]time.Duration{"alone": alone, "when they arrive": arrival, "while they wait": beside} {
		require.Len(t, times, others)
		t.Logf("%d waiting at a dead endpoint (timeout %s); others %s: p50 %s, p99 %s, longest %s",
			waiting, timeout, name, quantile(times, 50), quantile(times, 99), times[others-1].Round(time.Millisecond))
	}
	// All thousands are taken up once, to be held; a delivery that comes with them stands in the
	// same queue.
	require.Less(t, quantile(arrival, 99), quantile(alone, 99)+2*bound)
	require.Less(t, quantile(beside, 99), quantile(alone, 99)+bound)

	of := func(sql string) int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE tenant_id = $1 AND `+sql, b.dead.tenant)
	}
	require.Equal(t, waiting, of(`status = 'pending'`))
	require.Equal(t, testenv.Value[int](b.Env, `SELECT coalesce(sum(attempt_count), 0) FROM deliveries WHERE tenant_id = $1`, b.dead.tenant),
		testenv.Value[int](b.Env, `SELECT count(*) FROM delivery_attempts a JOIN deliveries d ON d.id = a.delivery_id WHERE d.tenant_id = $1`, b.dead.tenant))
	require.Greater(t, of(`attempt_count = 0 AND id IN (SELECT id FROM work WHERE due_at > now())`), waiting/2, "held: the row says when it comes back")
	require.LessOrEqual(t, b.inRedis(), waiting+waiting/10+others, "about one task each")
}

// inRedis counts the tasks of the deliveries' queues.
func (b *delivering) inRedis() (n int) {
	b.T.Helper()
	for _, queue := range tasks.Queues(tasks.Deliver) {
		for _, state := range []string{"pending", "active"} {
			v, err := b.redis.LLen(b.ctx, "asynq:{"+queue+"}:"+state).Result()
			require.NoError(b.T, err)
			n += int(v)
		}
		for _, state := range []string{"scheduled", "retry"} {
			v, err := b.redis.ZCard(b.ctx, "asynq:{"+queue+"}:"+state).Result()
			require.NoError(b.T, err)
			n += int(v)
		}
	}
	return n
}

// Where failures come at once, many deliveries to a dead endpoint have their attempts nearly as if
// there were no breaker: one after the other, in seconds.
func TestManyAtARefusingEndpoint(t *testing.T) {
	t.Parallel()
	waiting := fromEnv(t, "AJO_REFUSED_WAITING", 300)
	b := newDelivering(t, time.Second)
	b.dead.url = "http://127.0.0.1:1"
	b.start()
	begin := time.Now()
	b.queue(b.dead, waiting)
	testenv.Eventually(t, 110*time.Second, "a first attempt of each, before the second of any", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM delivery_attempts`) == waiting
	})
	t.Logf("%d deliveries to an endpoint that refuses connections had their first attempt after %s", waiting, time.Since(begin).Round(time.Millisecond))
	require.Equal(t, waiting, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries d JOIN delivery_attempts a ON a.delivery_id = d.id
		JOIN work w ON w.kind = 'deliver' AND w.id = d.id WHERE d.status = 'pending' AND d.attempt_count = 1 AND w.due_at >= a.started_at + interval '2 minutes'`))
}

// A worker that is told to stop while calls go on that do not end hands their tasks back, and
// returns when its handlers have let go. No attempt is counted for a call that was broken off, and
// the next worker makes it.
func TestStopHandsBackWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	const calls = 5
	b := newDelivering(t, time.Minute)
	b.opts.stopTimeout = 100 * time.Millisecond
	b.opts.SweepEvery = 20 * time.Second // so that no sweep enqueues what a busy machine has not leased yet
	w, err := Start(b.opts)
	require.NoError(t, err)
	b.queue(b.dead, calls)
	testenv.Eventually(t, time.Minute, "the calls", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM work WHERE kind = 'deliver' AND leased_until > now()`) == calls
	})
	begin := time.Now()
	w.Stop()
	require.Less(t, time.Since(begin), 30*time.Second, "the calls' time is a minute")
	require.False(t, w.begin(), "no handler begins any more")
	pending, err := asynq.NewInspectorFromRedisClient(b.redis).ListPendingTasks(string(tasks.Deliver))
	require.NoError(t, err)
	rows := 0
	for _, task := range pending {
		items, err := tasks.Items(asynq.NewTask(task.Type, task.Payload))
		require.NoError(t, err)
		rows += len(items)
	}
	require.Equal(t, calls, rows, "every row is in a task that was handed back")
	require.Equal(t, calls, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE status = 'pending' AND attempt_count = 0`))

	e := newReceiver(t)
	// the leases run out
	b.Exec(`UPDATE work SET leased_until = now()`)
	b.Exec(`UPDATE deliveries SET callback_url = $1`, e.URL)
	b.opts.SweepEvery = time.Second
	b.start()
	testenv.Eventually(t, 20*time.Second, "the deliveries", func() bool {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries WHERE status = 'delivered' AND attempt_count = 1`) == calls
	})
}
