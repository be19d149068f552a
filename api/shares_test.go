package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// Places that a few tenants have filled are shared out among all who come, evenly, and nobody loses
// more than that.
func TestListeningPlacesAreShared(t *testing.T) {
	t.Parallel()
	l := listeners{places: 16}
	calls := map[uuid.UUID][]*listening{}
	enter := func(tenant uuid.UUID) bool {
		c := l.enter(tenant)
		if c != nil {
			calls[tenant] = append(calls[tenant], c)
		}
		return c != nil
	}
	held := func(tenant uuid.UUID) (n int) {
		for _, c := range calls[tenant] {
			if !c.ended.Load() {
				n++
			}
		}
		return n
	}
	var tenants []uuid.UUID
	for range 4 {
		tenants = append(tenants, uuid.New())
		for range listenPerTenant {
			require.True(t, enter(tenants[len(tenants)-1]))
		}
		require.False(t, enter(tenants[len(tenants)-1]), "a tenant's own bound")
	}
	for range 12 {
		tenants = append(tenants, uuid.New())
		require.True(t, enter(tenants[len(tenants)-1]), "all places are taken, by tenants that have more than one")
		for enter(tenants[len(tenants)-1]) {
		}
		least, most, all := listenPerTenant, 0, 0
		for _, id := range tenants {
			least, most, all = min(least, held(id)), max(most, held(id)), all+held(id)
		}
		require.LessOrEqual(t, most-least, 1, "%d tenants", len(tenants))
		require.Equal(t, 16, all)
		require.Equal(t, 16, l.inAll)
	}
	require.False(t, enter(uuid.New()), "each has one: who comes now waits")
	for id, all := range calls {
		for _, c := range all {
			l.leave(c)
			l.leave(c)
		}
		require.Empty(t, l.byTenant[id])
	}
	require.Zero(t, l.inAll)
	require.Empty(t, l.byTenant)
}

// Over HTTP: who has taken all places answers one of its calls early, and the newcomer waits in its
// place.
func TestListenerMakesRoom(t *testing.T) {
	var stopping atomic.Bool
	w := setup(t, func(o *Options) { o.listenPlaces, o.Stopping = listenPerTenant, stopping.Load })
	greedy, newcomer := w.onboard(), w.onboard()
	var answered atomic.Int32
	var all sync.WaitGroup
	for range listenPerTenant {
		all.Go(func() {
			// the look below may have it for a moment
			testenv.Eventually(t, 10*time.Second, "a place", func() bool {
				return w.do("POST", "/auth/listen", `{"wait":25}`, greedy.withSession()...).Status == http.StatusOK
			})
			answered.Add(1)
		})
	}
	testenv.Eventually(t, 10*time.Second, "the tenant's places are taken", func() bool {
		return w.do("POST", "/auth/listen", `{}`, greedy.withSession()...).Status == http.StatusTooManyRequests
	})
	require.Zero(t, answered.Load())
	w.do("POST", "/auth/listen", `{}`, newcomer.withSession()...).ok(200, nil)
	testenv.Eventually(t, 10*time.Second, "one of the calls has made room", func() bool { return answered.Load() == 1 })
	stopping.Store(true)
	all.Wait()
}

// Two files of one tenant do not take both places: its second waits for its first, and another
// tenant's is made meanwhile.
func TestExportPlacesAreShared(t *testing.T) {
	t.Parallel()
	x := newExports(exportsAtOnce)
	ctx, cancel := context.WithCancel(context.Background())
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	leaveA, err := x.enter(ctx, a)
	require.NoError(t, err)
	second := make(chan error)
	for range exportsPerTenant - 1 {
		go func() {
			leave, err := x.enter(ctx, a)
			if err == nil {
				leave()
			}
			second <- err
		}()
	}
	testenv.Eventually(t, 10*time.Second, "the tenant's other requests wait", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.byTenant[a].all == exportsPerTenant
	})
	_, err = x.enter(ctx, a)
	require.ErrorIs(t, err, errManyExports, "no more wait")
	leaveB, err := x.enter(ctx, b)
	require.NoError(t, err, "another tenant's turn")
	third := make(chan error)
	go func() {
		leave, err := x.enter(ctx, c)
		if err == nil {
			leave()
		}
		third <- err
	}()
	leaveB()
	require.NoError(t, <-third)
	leaveA()
	for range exportsPerTenant - 1 {
		require.NoError(t, <-second)
	}
	leaveA, err = x.enter(ctx, a)
	require.NoError(t, err)
	leaveB, err = x.enter(ctx, b)
	require.NoError(t, err)
	cancel()
	for _, tenant := range []uuid.UUID{a, c} {
		_, err = x.enter(ctx, tenant)
		require.ErrorIs(t, err, errBusy, "its time is up")
	}
	leaveA()
	leaveB()
	require.Empty(t, x.byTenant)
	require.Empty(t, x.places)
}

// Lists of one tenant that take long leave connections to the database to all other requests, its
// own too, and to other tenants' lists.
func TestReadsLeaveConnectionsToOthers(t *testing.T) {
	w := setup(t)
	greedy, other := w.onboard(), w.onboard()
	tx, err := w.Pool.Begin(context.Background())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(context.Background(), `LOCK TABLE ledger_days`) // for which an overview waits
	require.NoError(t, err)
	connections := int(w.Pool.Config().MaxConns)
	each := newReads(connections).each
	require.Equal(t, 2, each)
	var slow []<-chan reply
	for range 3 * connections {
		slow = append(slow, w.asked("GET", "/auth/overview", "", greedy.withSession()...))
	}
	waiting := func() int {
		var n int
		_, err := tx.Exec(context.Background(), `SELECT pg_stat_clear_snapshot()`)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
		return n
	}
	testenv.Eventually(t, 10*time.Second, "the tenant's overviews wait", func() bool { return waiting() >= each })
	quick := []<-chan reply{
		w.asked("GET", "/v1/accounts", "", other.withKey()...), w.asked("GET", "/v1/balance", "", other.withKey()...), w.asked("GET", "/auth/keys", "", greedy.withSession()...),
	}
	for _, got := range quick {
		select {
		case r := <-got:
			r.ok(http.StatusOK, nil)
		case <-time.After(time.Minute):
			t.Error("a request of another kind waits, too")
		}
	}
	require.Equal(t, each, waiting())
	require.NoError(t, tx.Rollback(context.Background()))
	for _, got := range slow {
		<-got
	}
}

// The refusals of exports say when to come again, and a member who is removed while one waits gets
// no file.
func TestExportsSayWhenToTryAgain(t *testing.T) {
	w := setup(t, func(o *Options) { o.exportPlaces = newExports(exportsAtOnce) })
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	leave, err := w.opts.exportPlaces.enter(context.Background(), m.id)
	require.NoError(t, err)
	gone := w.joins(m, tenant.Viewer)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, gone.email)
	file := w.asked("GET", "/auth/accounts/shop-1/statement.csv", "", gone.withSession()...)
	places := w.opts.exportPlaces
	testenv.Eventually(t, 10*time.Second, "the export waits", func() bool {
		places.mu.Lock()
		defer places.mu.Unlock()
		return places.byTenant[m.id].all == 2
	})
	w.do("POST", "/auth/members/"+id.String()+"/remove", "", m.withSession()...).ok(200, nil)
	leave()
	r := <-file
	r.refused(401, "unauthorized")

	leave, err = w.opts.exportPlaces.enter(context.Background(), m.id)
	require.NoError(t, err)
	for range exportsPerTenant - 1 {
		_, err := w.opts.exportPlaces.join(m.id)
		require.NoError(t, err)
	}
	for _, ending := range []string{"csv", "pdf"} {
		requireLimited(t, w.do("GET", "/auth/accounts/shop-1/statement."+ending, "", m.withSession()...))
	}
	stranger := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, stranger.withKey()...).ok(201, nil)
	w.do("GET", "/auth/accounts/shop-1/statement.csv", "", stranger.withSession()...).ok(200, nil)
	leave()
}

// However many ask whether the process is ready, its dependencies are asked twice a second at most.
func TestReadinessIsAskedOncePerHalfSecond(t *testing.T) {
	var asked atomic.Int64
	w := setup(t, func(o *Options) {
		o.Ready = func(context.Context) []Check {
			asked.Add(1)
			return []Check{{Name: "postgres"}, {Name: "redis", Err: fmt.Errorf("away"), Degraded: true}}
		}
	})
	start := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				w.do("GET", "/ready", "").ok(200, nil)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, asked.Load(), 1+int64(time.Since(start)/readyFresh))
	require.Positive(t, asked.Load())
}

// A list that waits for a slot is not handed to a member who is removed meanwhile, nor to a program
// whose key is revoked.
func TestReadsOfWhoIsGone(t *testing.T) {
	w := setup(t, func(o *Options) { o.readPlaces = newReads(4) })
	m := w.onboard()
	gone := w.joins(m, tenant.Viewer)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, gone.email)
	key := w.newKey(m, "Reader", []tenant.Scope{tenant.AccountsRead})
	places := w.opts.readPlaces
	for _, c := range []struct {
		path, end string
		as        header
	}{
		{"/auth/accounts", "", m.withSession()},
		{"/auth/accounts", "/auth/members/" + id.String() + "/remove", gone.withSession()},
		{"/v1/accounts", "/auth/keys/" + key.Key.ID.String() + "/revoke", header{"X-API-Key", key.APIKey}},
	} {
		leave, err := places.enter(context.Background(), m.id) // the only one that a tenant has of three
		require.NoError(t, err)
		list := w.asked("GET", c.path, "", c.as...)
		testenv.Eventually(t, 10*time.Second, "the list waits", func() bool {
			places.mu.Lock()
			defer places.mu.Unlock()
			return places.byTenant[m.id].all == 2
		})
		if c.end != "" {
			w.do("POST", c.end, "", m.withSession()...).ok(200, nil)
		}
		leave()
		r := <-list
		if c.end == "" {
			r.ok(200, nil)
		} else {
			r.refused(401, "unauthorized")
		}
	}
}
