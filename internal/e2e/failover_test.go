package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/internal/testenv"
	"ajo/migrations"
)

// failovers is a world on a Postgres with a synchronous standby, whose primary dies.
type failovers struct {
	*paid
	servers *stack.Stack
	events  sync.Map     // transaction ids of the events that were answered 200
	payouts sync.Map     // merchantTxRef of the settlements that were answered 202, by number
	number  atomic.Int64 // of the last settlement
	refused atomic.Int64 // settlements that were not accepted, and sent again
}

// pace is the time between two requests of one client.
const pace = 20 * time.Millisecond

func startFailovers(t *testing.T) *failovers {
	t.Parallel()
	servers := ownServers(t, stack.Options{MaxConnections: 100})
	require.NoError(t, servers.StartStandby(context.Background()))
	f := failoversOn(t, servers.BothURL(), servers.RedisURL)
	f.servers = servers
	return f
}

// failoversOn makes the world on servers that are there, with an API and no worker.
func failoversOn(t *testing.T, databaseURL, redisURL string) *failovers {
	env := &testenv.Env{T: t, DatabaseURL: databaseURL, RedisURL: redisURL}
	opts, err := redis.ParseURL(redisURL)
	require.NoError(t, err)
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	w := worldOn(env, client, fakebank.Options{RetryDelays: repeat(time.Second, 500)})
	w.lookForRaces()
	w.settings["AJO_SETTLE_DELAYS"], w.settings["AJO_CONFIRM_MIN_AGE"] = "200ms,500ms,1s", "0s"
	w.migrate()
	w.Pool, err = pg.Open(context.Background(), databaseURL, 4)
	require.NoError(t, err)
	t.Cleanup(w.Pool.Close)
	return &failovers{paid: w.settle()}
}

// pays sends events until ctx ends. Each must be answered 200, also while there is no database.
func (f *failovers) pays(ctx context.Context) {
	for ctx.Err() == nil {
		e := f.genuine()
		status, _, err := f.bank.SendEvent(context.Background(), e.body, e.headers)
		if err != nil || status != http.StatusOK {
			f.t.Errorf("an event was answered %d, %v", status, err)
		}
		f.events.Store(e.tx.ID, true)
		time.Sleep(pace)
	}
}

// asks orders settlements until ctx ends, each until it is accepted.
func (f *failovers) asks(ctx context.Context) {
	for ctx.Err() == nil {
		n := f.number.Add(1)
		for ctx.Err() == nil {
			a, err := request("POST", f.apiURL+"/v1/accounts/shop-1/settle", map[string]string{"amount": "100.00", "bankCode": "058", "accountNumber": fmt.Sprintf("7%09d", n)},
				http.Header{"X-Api-Key": {f.tenant.key}, "Idempotency-Key": {fmt.Sprintf("payout %d", n)}})
			var accepted struct{ MerchantTxRef string }
			if err == nil && a.status == http.StatusAccepted && json.Unmarshal([]byte(a.body), &accepted) == nil {
				f.payouts.Store(n, accepted.MerchantTxRef)
				break
			}
			f.refused.Add(1)
			time.Sleep(pace)
		}
		time.Sleep(pace)
	}
}

// since waits until a query counts more than it did when it was first asked after the time begun,
// and returns how long after begun that was.
func (f *failovers) since(begun time.Time, what, sql string) time.Duration {
	count := func() (n int) {
		if err := f.Pool.QueryRow(context.Background(), sql).Scan(&n); err != nil {
			return -1
		}
		return n
	}
	first := -1
	testenv.Eventually(f.t, 3*time.Minute, what, func() bool {
		n := count()
		if first < 0 {
			first = n
		}
		return first >= 0 && n > first
	})
	return time.Since(begun).Round(10 * time.Millisecond)
}

// The primary is killed under load, again and again, and its standby promoted. What was answered
// 200 or 202 is there, once, whichever server is left. AJO_FAILOVERS says how often (2).
func TestPrimaryDies(t *testing.T) {
	f := startFailovers(t)
	f.startWorkers()
	end := f.startLoad()
	times := 2
	if v := os.Getenv("AJO_FAILOVERS"); v != "" {
		var err error
		times, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	for range times {
		f.since(time.Now(), "settlements to be accepted", `SELECT count(*) FROM transfers`)
		died := time.Now()
		f.servers.Postgres.Kill()
		require.NoError(t, f.servers.Promote(context.Background()))
		promoted := time.Since(died).Round(10 * time.Millisecond)
		t.Logf("promoted after %s, settlements accepted again after %s, payments posted after %s, paid out after %s", promoted,
			f.since(died, "settlements to be accepted", `SELECT count(*) FROM transfers`),
			f.since(died, "payments to be posted", `SELECT count(*) FROM ledger_entries WHERE direction = 'credit'`),
			f.since(died, "transfers to be paid", `SELECT count(*) FROM transfers WHERE status = 'success'`))
		require.NoError(t, f.servers.StartStandby(context.Background()))
	}
	end()
	f.checkAll()
}

// startWorkers starts two, and pays in what settlements are paid from.
func (f *failovers) startWorkers() {
	for range 2 {
		f.startWorker("")
	}
	f.txs = append(f.txs, f.payAndTell(f.nuban, "5000000.00"))
	f.eventually("the first payment to be confirmed", func() bool { return f.progress().confirmed == 1 })
}

// startLoad sends payments and settlements until the function that it returns is called.
func (f *failovers) startLoad() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() { f.pays(ctx) })
		load.Go(func() { f.asks(ctx) })
	}
	end = func() {
		cancel()
		load.Wait()
	}
	f.t.Cleanup(end)
	return end
}

// checkAll waits for the end of all that was answered, and compares the books with the bank's.
func (f *failovers) checkAll() {
	t := f.t
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("still waiting:\n%s", f.unfinished())
		}
	}()
	events, payouts := 0, 0
	f.events.Range(func(any, any) bool { events++; return true })
	f.whileMoving("all payments to be confirmed and delivered", f.progress, func() bool {
		return f.count(`SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND status = 'confirmed'`) >= events+1 && f.progress().delivered >= events+1
	})
	f.eventually("all payouts to end", func() bool {
		return f.count(`SELECT count(*) FROM transfers WHERE status IN ('pending', 'processing')`) == 0
	})
	f.events.Range(func(id, _ any) bool {
		require.Equal(t, 1, f.count(`SELECT count(*) FROM ledger_entries WHERE provider_txn_ref = $1`, id), "payment %s", id)
		return true
	})
	f.payouts.Range(func(n, ref any) bool {
		payouts++
		require.Equal(t, 1, f.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = $1 AND status = 'success'`, ref), "settlement %d, %s", n, ref)
		return true
	})
	to := map[string]bool{}
	for _, out := range f.bank.Paid() {
		require.False(t, to[out.AccountNumber], "paid twice: %s", out.AccountNumber)
		to[out.AccountNumber] = true
		require.Equal(t, 1, f.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = $1 AND amount = $2 AND account_number = $3`, out.Ref, out.Amount, out.AccountNumber), out.Ref)
	}
	testenv.FindsNothing(t, f.Pool, invariant.Verify)
	t.Logf("%d events answered 200 and %d settlements answered 202: all there, once; %d answers were not 202 and asked for again", events, payouts, f.refused.Load())
	require.Greater(t, events, 20)
	require.Greater(t, payouts, 5)
}

// Of two servers, ajo migrate goes to the primary, though the standby is named first, as after a
// failover. An old primary that comes back as it was, beside the standby that has taken over, and
// accepts writes, is not connected to, neither by who runs nor by who starts then.
func TestAnOldPrimaryComesBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := ownServers(t, stack.Options{MaxConnections: 100})
	require.NoError(t, servers.StartStandby(ctx))
	both := servers.BothURL()
	u, err := url.Parse(both)
	require.NoError(t, err)
	hosts := strings.Split(u.Host, ",")
	slices.Reverse(hosts)
	u.Host = strings.Join(hosts, ",")
	_, err = migrations.Up(ctx, u.String(), migrations.Options{})
	require.NoError(t, err, "the standby is named first, as after a failover")
	open := func() *pg.Pool {
		pool, err := pg.Open(ctx, both, 4)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	running := open()
	before := pg.History(running)
	servers.Postgres.Kill()
	require.NoError(t, servers.Promote(ctx))
	testenv.Eventually(t, time.Minute, "the standby to take over", func() bool { return running.Ping(ctx) == nil })
	require.NotEqual(t, before, pg.History(running))
	require.NoError(t, servers.Standby.Start(ctx)) // which was the primary
	running.Reset()
	for name, pool := range map[string]*pg.Pool{"runs": running, "starts": open()} {
		var addr string
		require.NoError(t, pool.QueryRow(ctx, `SELECT '127.0.0.1:' || inet_server_port()`).Scan(&addr))
		require.Equal(t, servers.Postgres.Addr(), addr, name)
	}
}

// A single address may lead to a standby for a moment, as to the old primary after a failover. No
// connection is made to it, since that would stay in the pool, and refuse each write, when the
// address has moved on.
func TestASingleAddressOfAStandby(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := ownServers(t, stack.Options{MaxConnections: 100})
	_, err := migrations.Up(ctx, servers.DatabaseURL, migrations.Options{})
	require.NoError(t, err)
	require.NoError(t, servers.StartStandby(ctx))
	address := servers.StandbyURL()
	_, err = pg.Open(ctx, address, 4)
	require.ErrorContains(t, err, "read only connection")
	require.ErrorContains(t, migrations.Check(ctx, address), "read only connection")
	require.NoError(t, servers.Promote(ctx))
	testenv.Eventually(t, time.Minute, "the standby to take over", func() bool {
		pool, err := pg.Open(ctx, address, 4)
		if err == nil {
			pool.Close()
		}
		return err == nil
	})
}

// An operator cancels the commits that wait for a standby, and Postgres answers each COMMIT with
// success. Neither a single transaction nor a batch reports it as done.
func TestCommitOnOneServerIsNoSuccess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := ownServers(t, stack.Options{MaxConnections: 100})
	pool, err := pg.Open(ctx, servers.DatabaseURL, 1)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	operator, err := pg.Open(ctx, servers.DatabaseURL, 1)
	require.NoError(t, err)
	t.Cleanup(operator.Close)
	exec := func(sql string) {
		_, err := operator.Exec(ctx, sql)
		require.NoError(t, err)
	}
	done := make(chan struct{})
	var cancels sync.WaitGroup
	cancels.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
				exec(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
			}
		}
	})
	t.Cleanup(cancels.Wait)
	t.Cleanup(func() { close(done) })
	insert := func(tx pg.Tx, n int) error {
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES ($1)`, n)
		return err
	}
	single := func(n int) error { return pg.InTx(ctx, pool, func(tx pg.Tx) error { return insert(tx, n) }) }
	batches := pg.NewBatcher(pool, pg.BatchOptions[int]{Name: "kept", Max: 10}, func(_ context.Context, tx pg.Tx, items []int) ([]int, error) {
		for _, n := range items {
			if err := insert(tx, n); err != nil {
				return nil, err
			}
		}
		return items, nil
	})
	t.Cleanup(batches.Close)
	exec(`CREATE TABLE kept (n integer)`)
	require.NoError(t, single(1))
	exec(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	exec(`SELECT pg_reload_conf()`)
	testenv.Eventually(t, time.Minute, "commits to wait for the standby", func() bool { return single(2) != nil })
	require.ErrorContains(t, single(3), "one server only")
	_, err = batches.Do(ctx, 4)
	require.ErrorContains(t, err, "one server only")
	for _, o := range batches.Together(ctx, []int{6, 7, 8}) {
		require.ErrorContains(t, o.Err, "one server only")
	}
	exec(`ALTER SYSTEM RESET synchronous_standby_names`)
	exec(`SELECT pg_reload_conf()`)
	testenv.Eventually(t, time.Minute, "commits to wait for nobody", func() bool { return single(5) == nil })
	var kept []int
	require.NoError(t, pool.QueryRow(ctx, `SELECT array_agg(n ORDER BY n) FROM kept WHERE n IN (3, 4, 6, 7, 8)`).Scan(&kept))
	require.Equal(t, []int{3, 4, 6, 7, 8}, kept, "they stand all the same, each once")
}
