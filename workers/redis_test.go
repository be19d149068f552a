package workers

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/redisconn"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ratelimit"
	"ajo/tasks"
)

// failoverLimit bounds what a failover, or a node's return, may take on a busy machine.
const failoverLimit = time.Minute

// scaled is a back end on a Redis that is more than one process, and all else that uses Redis.
type scaled struct {
	*bundle
	limits [2]*ratelimit.Limiter // of two processes
	hash   [32]byte
	banks  *countedBank
}

// countedBank is a bank that counts how often its list was asked for.
type countedBank struct {
	provider.Bank
	asked int
}

func (b *countedBank) Banks(context.Context) ([]provider.BankInfo, error) {
	b.asked++
	return []provider.BankInfo{{Code: "001", Name: "First Bank"}}, nil
}

func newScaled(t *testing.T, url string) *scaled {
	client, err := redisconn.Open(url, redisconn.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s := &scaled{bundle: setupOn(t, testenv.New(t), client), hash: sha256.Sum256([]byte(t.Name())), banks: &countedBank{}}
	for i := range s.limits {
		s.limits[i], err = ratelimit.New(ratelimit.Options{Client: client, PerTenant: "1000-H", Open: "20-M", Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.limits[i].Close()) })
	}
	s.start()
	return s
}

// pays stores payments and enqueues them.
func (s *scaled) pays(n int) {
	s.T.Helper()
	for range n {
		s.stored()
	}
}

// shared reports whether both processes count in one place.
func (s *scaled) shared() bool {
	a, b := s.limits[0].Key(s.ctx, s.tenant, s.hash), s.limits[1].Key(s.ctx, s.tenant, s.hash)
	return b.Remaining == a.Remaining-1
}

// enqueues reports whether a task reaches Redis.
func (s *scaled) enqueues() bool {
	lost := s.opts.Enqueuer.Lost()
	for _, k := range tasks.Kinds {
		s.enqueue(k, uuid.Must(uuid.NewV7()))
	}
	return s.opts.Enqueuer.Lost() == lost
}

// works fails the test unless all that uses Redis does so again, within failoverLimit.
func (s *scaled) works(when string) {
	s.T.Helper()
	testenv.Eventually(s.T, failoverLimit, "tasks to reach Redis, "+when, s.enqueues)
	testenv.Eventually(s.T, failoverLimit, "the limits to be counted in one place, "+when, s.shared)
	box, err := secret.ParseKeys(secret.NewKey("one").Reveal())
	require.NoError(s.T, err)
	cache := idempotency.NewCache(s.redis, box, s.Pool, time.Second)
	defer cache.Close()
	testenv.Eventually(s.T, failoverLimit, "answers to be kept, "+when, func() bool {
		for range 20 { // keys of many slots
			r, err := idempotency.NewRequest(s.tenant, uuid.NewString(), "POST", "/v1/accounts", nil)
			require.NoError(s.T, err)
			cache.Put(s.ctx, r, idempotency.Answer{Status: 201, Body: []byte(`{}`)})
			if got := cache.Get(s.ctx, r); got == nil || got.Status != 201 {
				return false
			}
		}
		return true
	})
	testenv.Eventually(s.T, failoverLimit, "the list of banks to be kept, "+when, func() bool {
		list := transfer.NewBankList(s.banks, "bank.example", s.redis, clock.System, s.opts.Log)
		_, err := list.Banks(s.ctx)
		require.NoError(s.T, err)
		asked := s.banks.asked
		_, err = list.Banks(s.ctx)
		require.NoError(s.T, err)
		return s.banks.asked == asked
	})
	testenv.Eventually(s.T, failoverLimit, "the dashboard to show the queues, "+when, func() bool {
		names, err := asynq.NewInspectorFromRedisClient(s.redis).Queues()
		return err == nil && len(names) == 2*len(tasks.Kinds)
	})
}

// The master dies under load, and the Sentinels make its replica the master: work goes on, whatever
// tasks were lost, and the old master may come back as a replica.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	nodes := testenv.StartSentinels(t)
	s := newScaled(t, nodes.URL)
	s.pays(20)
	s.ended(20)
	s.works("at first")
	servers, err := redisconn.Inspect(s.ctx, s.redis)
	require.NoError(t, err)
	require.Equal(t, []redisconn.Server{{Policy: "noeviction", AppendOnly: true}}, servers)

	s.fill(nodes.Master)
	s.pays(10)
	s.ended(30)
	require.NoError(t, nodes.Master.Client().ConfigSet(s.ctx, "maxmemory", "0").Err())

	s.pays(10)
	nodes.Master.Kill()
	begin := time.Now()
	s.pays(20) // nothing waits for Redis, and nothing fails
	require.Less(t, time.Since(begin), 20*time.Second)
	s.works("after the failover")
	t.Logf("everything works %s after the master was killed; %d tasks were lost", time.Since(begin).Round(time.Millisecond), s.opts.Enqueuer.Lost())
	require.Equal(t, "master", role(nodes.Replica))
	s.ended(60)

	require.NoError(t, nodes.Master.Start(s.ctx))
	testenv.Eventually(t, failoverLimit, "the old master to follow the new one", func() bool { return role(nodes.Master) == "slave" })
	s.pays(10)
	s.ended(70)
}

// fill has a node be full of tasks that are not due: it refuses whatever takes memory, and so to
// dequeue any.
func (s *scaled) fill(n *testenv.RedisNode) {
	s.T.Helper()
	c := n.Client()
	defer func() { _ = c.Close() }()
	used := func() (bytes int) {
		info, err := c.InfoMap(s.ctx, "memory").Result()
		require.NoError(s.T, err)
		bytes, err = strconv.Atoi(info["Memory"]["used_memory"])
		require.NoError(s.T, err)
		return bytes
	}
	before := used()
	for range 3000 {
		s.opts.Enqueuer.Alone(work.Item{Kind: work.Confirm, ID: uuid.New(), DueAt: time.Now().Add(time.Hour)})
	}
	full := before + (used()-before)/2
	require.NoError(s.T, c.ConfigSet(s.ctx, "maxmemory", strconv.Itoa(full)).Err())
	require.ErrorContains(s.T, c.Set(s.ctx, "anything", "x", time.Second).Err(), "OOM")
}

// role is what a node says that it is, "master" or "slave"; empty when it does not say, as while it
// changes its role.
func role(n *testenv.RedisNode) string {
	c := n.Client()
	defer func() { _ = c.Close() }()
	answer, err := c.Do(context.Background(), "ROLE").Slice()
	if err != nil || len(answer) == 0 {
		return ""
	}
	name, _ := answer[0].(string)
	return name
}

// On a Cluster the queues lie on different nodes. One node dies, and comes back: meanwhile nothing
// is lost.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	s := newScaled(t, cluster.URL)
	require.IsType(t, &redis.ClusterClient{}, s.redis)
	s.pays(20)
	s.ended(20)
	s.works("at first")
	servers, err := redisconn.Inspect(s.ctx, s.redis)
	require.NoError(t, err)
	require.Len(t, servers, 3)
	slots := map[int64]bool{}
	for _, k := range tasks.Kinds {
		slot, err := s.redis.(*redis.ClusterClient).ClusterKeySlot(s.ctx, "asynq:{"+string(k)+"}:pending").Result()
		require.NoError(t, err)
		slots[slot] = true
	}
	require.Len(t, slots, len(tasks.Kinds), "each queue has a slot of its own")
	s.dashboard()

	s.pays(10)
	cluster.Nodes[1].Kill()
	begin := time.Now()
	s.pays(10)
	require.Less(t, time.Since(begin), 20*time.Second)
	require.NoError(t, cluster.Nodes[1].Start(s.ctx))
	cluster.Await(t)
	s.works("after a node came back")
	t.Logf("everything works %s after a node was killed; %d tasks were lost", time.Since(begin).Round(time.Millisecond), s.opts.Enqueuer.Lost())
	s.ended(40)
}

// dashboard asks the dashboard for its queues, as a browser does.
func (s *scaled) dashboard() {
	s.T.Helper()
	opts := s.redis.(*redis.ClusterClient).Options()
	h := Dashboard("/queues", func() redis.UniversalClient { return redis.NewClusterClient(opts) }, true)
	for _, path := range []string{"/queues/api/queues", "/queues/api/queues/ingest/pending_tasks", "/queues/api/servers", "/queues/api/redis_info"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(s.T, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	}
}

// A Redis that lacks its replicas gives no task: that is an outage, after which asynq would ask
// again at once.
func TestTooFewReplicasAreAnOutage(t *testing.T) {
	t.Parallel()
	node := testenv.StartRedis(t, "min-replicas-to-write 1")
	c := node.Client()
	defer func() { require.NoError(t, c.Close()) }()
	err := c.Eval(context.Background(), `return redis.call("RPOPLPUSH", KEYS[1], KEYS[2])`, []string{"{q}pending", "{q}active"}).Err()
	require.ErrorContains(t, err, "NOREPLICAS")
	require.True(t, isOutage(err), err)
}
