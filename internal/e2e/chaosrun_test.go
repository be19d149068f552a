package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/internal/testenv"
)

// size is how long and how hard a run is.
type size struct {
	length  time.Duration // of the faults
	gap     time.Duration // between two faults, on average
	payers  int           // for each tenant
	clerks  int
	waiting int // payments of one tenant that may wait for delivery
	due     int // events that may wait for posting; ten times as many may wait for the bank
	drain   time.Duration
	// for how long the bank's query does not find some payouts. By chaosSettings one that is
	// nowhere found is given up after 17 s or so: in a long run one that is failed too early is
	// paid.
	lag time.Duration
}

var (
	shortChaos = size{length: 15 * time.Second, gap: 500 * time.Millisecond, payers: 2, clerks: 1, waiting: 100, due: 400, drain: 5 * time.Minute, lag: 8 * time.Second}
	longChaos  = size{length: 10 * time.Minute, gap: 1500 * time.Millisecond, payers: 8, clerks: 6, waiting: 800, due: 2000, drain: 5 * time.Minute, lag: 30 * time.Second}
)

// chaosSettings are the roles' settings that a run shortens: all are gaps, and none is a promise.
var chaosSettings = map[string]string{
	"AJO_DATABASE_MAX_CONNS": "12", "AJO_SWEEP_EVERY": "5s", "AJO_DRAIN": "200ms", "AJO_CONFIRM_DELAYS": "2s,2s,3s,5s",
	"AJO_DELIVERY_DELAYS": "1s,2s,3s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s,5s",
	"AJO_SETTLE_DELAYS":   "200ms,500ms,1s,2s", "AJO_SETTLE_LEASE": "5s", "AJO_SETTLE_RECHECKS": "3s,6s,12s",
	"AJO_RECONCILE_EVERY": "10s", "AJO_RECONCILE_WINDOW": "1m",
}

// chaosRun is one run: everything that runs, and what the harness knows of it.
type chaosRun struct {
	*world
	size    size
	seed    uint64
	out     string // the folder of results; empty: none
	began   time.Time
	faulty  time.Duration // how long there were faults
	client  *http.Client
	addrs   []string // of the APIs
	tenants []*testTenant
	sharing *sharing
	record  *record

	servers             *stack.Stack // the run's own
	toPostgres, toRedis *testenv.Proxy
	postgresLock        sync.Mutex // held by the one fault that has taken it away
	redisLock           sync.Mutex
	apis, workers       []*supervisor
	due                 atomic.Int64 // events that wait, as of a moment ago
	over                atomic.Bool  // what is not done by now is given up
	drained             time.Duration
	float               string // what the wallet and the books differ by in the end
	trial               string // what all accounts sum up to in the end
	verified            string // what `ajo ledger verify` says in the end
	archived            int
	mu                  sync.Mutex     // guards the rest
	later               sync.WaitGroup // what the bank says about a payment after a while
	rules               map[*fakebank.Rule][]fakebank.Rule
	happened            []happened
	missed              int
	struck              map[string]int // by the action of the bank's rule
}

// Everything is broken, at random and again and again, while payments and settlements go on at the
// highest rate that the machine bears. In the end nothing is lost, nothing was done twice, and
// every balance is what the bank's dealings make it. `make chaos` is this test for
// AJO_CHAOS_MINUTES; AJO_SEED draws the same schedule of faults and the same payments again, though
// not how the processes interleave; AJO_CHAOS_OUT is a folder for the result and the roles' logs.
func TestChaos(t *testing.T) {
	size := shortChaos
	if v := os.Getenv("AJO_CHAOS_MINUTES"); v != "" {
		minutes, err := strconv.ParseFloat(v, 64)
		require.NoError(t, err)
		size = longChaos
		size.length = time.Duration(minutes * float64(time.Minute))
	} else {
		t.Parallel()
	}
	s := newChaosRun(t, size)
	s.start()
	found := s.run()
	s.recover()
	found = append(found, s.settlesDown()...)
	v := s.look()
	found = append(found, check(s.record, v)...)
	found = append(found, s.submitted()...)
	found = append(found, s.shared(s.sharing)...)
	found = append(found, s.verify()...)
	found = append(found, s.leaves()...)
	r := s.result(v, found)
	s.publish(r)
	require.Empty(t, found, excerpt(found, 5))
	require.GreaterOrEqual(t, len(s.happened), int(size.length.Minutes()*30), foundFewFaults)
	require.Empty(t, s.record.undone(append(tenantsDo, operatorsDo...)), "what the run never did")
	if size.length >= time.Minute { // a shorter one has too few payouts for what strikes one in a hundred
		for _, what := range []fakebank.Action{fakebank.Lagging, fakebank.PartialRefund, fakebank.PaidLate, fakebank.FailedLate, fakebank.Gateway} {
			require.Positive(t, r.Struck[string(what)], "%s never struck: %v", what, r.Struck)
		}
		require.Positive(t, r.Reissued, "no number was issued again")
		require.Empty(t, s.record.undone([]string{feeBorne, toShare, wasTaken, ofUnder, ofOver, ofLimit, isPriced}), "what the run never did")
		for _, c := range []course{recalled, withdrawn} {
			require.Positive(t, r.Payments[string(c)], "no payment was %s: %v", c, r.Payments)
		}
	}
}

func newChaosRun(t *testing.T, size size) *chaosRun {
	ctx := context.Background()
	s := &chaosRun{
		size: size, seed: chaosSeed(t), out: os.Getenv("AJO_CHAOS_OUT"), record: newRecord(), rules: map[*fakebank.Rule][]fakebank.Rule{}, struck: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
	if s.out != "" {
		require.NoError(t, os.MkdirAll(s.out, 0o755))
	}
	s.servers = ownServers(t, stack.Options{MaxConnections: 150})
	require.NoError(t, s.servers.StartStandby(ctx))
	env := &testenv.Env{T: t}
	env.DatabaseURL, s.toPostgres = throughProxy(t, s.servers.DatabaseURL, true)
	env.RedisURL, s.toRedis = throughProxy(t, s.servers.RedisURL, false)
	opts, err := redis.ParseURL(s.servers.RedisURL)
	require.NoError(t, err)
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	s.world = worldOn(env, client, fakebank.Options{
		RetryDelays: repeat(time.Second, 500), Seed: s.seed | 1, PayoutFee: money.Must("20.00"), PayoutVAT: money.Must("1.50"), PayoutStampDuty: money.Must("50.00"),
	})
	s.lookForRaces()
	s.keepSecret("bank's next webhook secret", nextSecret)
	for name, value := range chaosSettings {
		s.settings[name] = value
	}
	if size.length < time.Minute {
		s.settings["AJO_SWEEP_EVERY"] = "2s"
	}
	s.migrate()
	// the harness' own way, past the proxy
	s.Pool, err = pg.Open(ctx, s.servers.BothURL()+"&statement_timeout=600000", 4)
	require.NoError(t, err)
	t.Cleanup(s.Pool.Close)
	return s
}

// ownServers starts a Postgres and a Redis for the test alone, which keep all that is committed.
func ownServers(t *testing.T, o stack.Options) *stack.Stack {
	o.Dir = t.TempDir()
	servers, err := stack.Start(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		servers.Stop()
		require.NoError(t, stack.Reset(o.Dir))
	})
	return servers
}

// throughProxy is the URL of a server through a proxy of the run's own.
func throughProxy(t testing.TB, server string, postgres bool) (string, *testenv.Proxy) {
	u, err := url.Parse(server)
	require.NoError(t, err)
	p := testenv.NewProxy(t, u.Host, postgres)
	u.Host = p.Addr
	return u.String(), p
}

// start starts the roles, and signs the tenants up.
func (s *chaosRun) start() {
	for i := range 2 {
		s.addrs = append(s.addrs, freeAddress(s.t))
		s.apis = append(s.apis, s.keep("api-"+strconv.Itoa(i+1), "api", map[string]string{"AJO_HTTP_ADDR": s.addrs[i]}))
	}
	for i := range 3 {
		s.workers = append(s.workers, s.keep("worker-"+strconv.Itoa(i+1), "worker", nil))
	}
	s.t.Cleanup(func() { s.leaves() })
	s.apiURL = "http://" + s.addrs[0]
	s.bank.SetWebhookURL(s.apiURL + "/webhooks/provider")
	for _, addr := range s.addrs {
		s.eventually("an API that answers", func() bool {
			resp, err := s.client.Get("http://" + addr + "/ready")
			if err == nil {
				_ = resp.Body.Close()
			}
			return err == nil && resp.StatusCode == http.StatusOK
		})
	}
	for i, as := range []mode{prompt, slow, flapping, prompt} {
		s.tenants = append(s.tenants, s.newTestTenant("tenant"+strconv.Itoa(i+1), as, 8))
	}
	s.setPolicies()
	s.sharing = s.newSharing()
	s.began = time.Now()
}

// run runs the load and the faults, and returns when both have ended: each event answered 200,
// each settlement answered.
func (s *chaosRun) run() []finding {
	ctx, cancel := context.WithTimeout(context.Background(), s.size.length)
	defer cancel()
	s.bankRules(func(map[*fakebank.Rule][]fakebank.Rule) {})
	var load sync.WaitGroup
	client := uint64(10)
	go s.watch(ctx)
	for _, h := range s.tenants {
		for range s.size.payers {
			client++
			rng := rand.New(rand.NewPCG(s.seed, client))
			load.Go(func() { s.pays(ctx, h, rng) })
		}
		for range s.size.clerks {
			client++
			rng := rand.New(rand.NewPCG(s.seed, client))
			load.Go(func() { s.settles(ctx, h, rng) })
		}
		client++
		rng := rand.New(rand.NewPCG(s.seed, client))
		load.Go(func() { s.opensOneTime(ctx, h, rng) })
		client++
		other := rand.New(rand.NewPCG(s.seed, client))
		load.Go(func() { s.moves(ctx, h, other) })
	}
	load.Go(func() { s.shares(ctx, s.sharing, rand.New(rand.NewPCG(s.seed, 8))) })
	load.Go(func() { s.freezes(ctx, rand.New(rand.NewPCG(s.seed, 9))) })
	load.Go(func() { s.changesSecret(ctx) })
	s.inject(plan(s.seed, s.size.length, s.size.gap))
	<-ctx.Done()
	s.faulty = time.Since(s.began)
	s.recover()
	ended := make(chan struct{})
	go func() { load.Wait(); s.later.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-time.After(exitLimit):
	}
	s.over.Store(true)
	<-ended
	return []finding{{foundNotDone, fmt.Sprintf("%s after the last fault there were requests without a definite answer", exitLimit)}}
}

// watch counts what waits, all the time, and prints how far things are.
func (s *chaosRun) watch(ctx context.Context) {
	analyzed := time.Now().Add(-50 * time.Second)
	for logged := time.Now(); ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
		soon, cancel := context.WithTimeout(ctx, 3*time.Second)
		l, err := s.leftToDo(soon)
		cancel()
		if err != nil {
			continue
		}
		// a killed worker's checks wait for a minute, which holds nothing up
		s.due.Store(int64(l.Events + l.Checks/10))
		// what autovacuum would do, if the counters that it goes by outlived the server's kills
		if time.Since(analyzed) > time.Minute {
			analyzed = time.Now()
			_, _ = s.Pool.Exec(ctx, `ANALYZE`)
		}
		if time.Since(logged) > 15*time.Second {
			logged = time.Now()
			s.mu.Lock()
			n := len(s.happened)
			s.mu.Unlock()
			s.record.mu.Lock()
			s.logf("%4.0f s: %d payments accepted, %d delivered, %d settlements, %d faults; waiting: %+v",
				time.Since(s.began).Seconds(), len(s.record.took), len(s.record.published), len(s.record.orders), n, l)
			s.record.mu.Unlock()
		}
	}
}

// settlesDown waits until all work is done, having the bank's list read for the events that never
// came.
func (s *chaosRun) settlesDown() []finding {
	if s.size.length < time.Minute {
		s.minutePasses()
	}
	begin := time.Now()
	s.tops()
	s.resumes()
	// Its code says that a person must look: at the payments of another sum.
	_ = s.tool("reconcile", "--from", s.began.Add(-time.Minute).UTC().Format(time.RFC3339))
	_, found := s.drain(s.size.drain)
	s.drained = time.Since(begin)
	found = append(found, s.resolves()...)
	found = append(found, s.corrects()...)
	_, left := s.drain(s.size.drain)
	found = append(found, left...)
	found = append(found, s.compares()...)
	archived, queues := s.queuesLeft()
	s.archived = archived
	return slices.Concat(found, queues)
}

// spooled counts the events that the APIs say they put into the spool.
func (s *chaosRun) spooled() int {
	n := 0
	for _, k := range s.supervisors() {
		k.mu.Lock()
		n += k.spooled
		k.mu.Unlock()
	}
	return n
}

func (s *chaosRun) logf(format string, args ...any) {
	if s.size.length > time.Minute {
		s.t.Logf(format, args...)
	}
}
