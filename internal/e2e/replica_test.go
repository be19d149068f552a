package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/api"
	"ajo/internal/fakebank"
	"ajo/internal/pg"
	"ajo/internal/stack"
	"ajo/internal/testenv"
)

// atStandby is a world with two APIs, one of which reads at a standby.
type atStandby struct {
	*paid
	standby *pg.Pool
	ops     string // of the API that reads at the standby
	reads   string // its address
	writes  string // of the other
}

func startAtStandby(t *testing.T) (*atStandby, func()) {
	t.Parallel()
	ctx := context.Background()
	servers := ownServers(t, stack.Options{MaxConnections: 100})
	require.NoError(t, servers.StartStandby(ctx))
	env := &testenv.Env{T: t, DatabaseURL: servers.DatabaseURL, RedisURL: servers.RedisURL}
	opts, err := redis.ParseURL(servers.RedisURL)
	require.NoError(t, err)
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	w := worldOn(env, client, fakebank.Options{})
	w.migrate()
	w.Pool, err = pg.Open(ctx, servers.DatabaseURL, 4)
	require.NoError(t, err)
	t.Cleanup(w.Pool.Close)
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`} {
		_, err = w.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	s := &atStandby{}
	s.standby, err = pg.OpenStandby(ctx, servers.StandbyURL(), 2)
	require.NoError(t, err)
	t.Cleanup(s.standby.Close)
	s.paid = w.settle()
	s.writes = w.apiURL
	w.settings["AJO_DATABASE_READ_URL"] = servers.StandbyURL()
	s.ops = w.watched(func() { w.startAPI() })
	s.reads = w.apiURL
	w.startWorker("")
	return s, servers.Standby.Kill
}

// atReplica is how many answers were read at the standby.
func (s *atStandby) atReplica() int {
	return sample(scrape(s.ops), `ajo_replica_reads_total{at="replica"}`)
}

// get asks one of the APIs, with the credential that the path needs.
func (s *atStandby) get(url, path string) answer {
	s.t.Helper()
	s.apiURL = url
	return s.tenant.want(200, "GET", path, nil)
}

// lookedAt is a route's path with what it needs.
func lookedAt(r api.Route) string {
	return strings.NewReplacer(":accountRef", "shop-1", "/auth/search", "/auth/search?q=shop").Replace(r.Path)
}

// same asks both APIs for everything that may be read at the standby; the answers are the same.
func (s *atStandby) same() {
	s.t.Helper()
	for _, r := range api.Routes {
		if !r.AtReplica() {
			continue
		}
		path := lookedAt(r)
		got, want := s.get(s.reads, path), s.get(s.writes, path)
		if strings.HasSuffix(path, ".pdf") || strings.HasSuffix(path, ".xml") { // it has the time in it
			require.NotEmpty(s.t, got.body)
			continue
		}
		require.Equal(s.t, string(want.body), string(got.body), path)
	}
}

// listed creates an account at one API and lists it at once at the one that reads at the standby.
func (s *atStandby) listed(n int, writes string) {
	s.t.Helper()
	ref := fmt.Sprintf("new-%d", n)
	s.apiURL = writes
	s.tenant.open(ref)
	require.Contains(s.t, string(s.get(s.reads, "/v1/accounts").body), `"`+ref+`"`)
}

// The API answers the same with a read replica as without: also at once after a change, also while
// the replica is behind, and when it dies.
func TestReadReplica(t *testing.T) {
	s, kill := startAtStandby(t)
	session := s.send("POST", "/auth/login", map[string]string{"email": s.tenant.email, "password": s.tenant.password}, http.Header{})
	require.Equal(t, 200, session.status, "%s", session.body)
	for _, c := range (&http.Response{Header: session.header}).Cookies() {
		s.tenant.session = c.Value
	}
	s.arrive()
	s.waitForEnd(some)
	for _, r := range api.Routes {
		if r.AtReplica() {
			path := lookedAt(r)
			s.eventually(path+" to be read at the standby", func() bool {
				before := s.atReplica()
				s.get(s.reads, path)
				return s.atReplica() == before+1
			})
		}
	}
	s.same()
	for n := range 10 {
		s.listed(n, []string{s.reads, s.writes}[n%2])
	}

	exec := func(sql string) {
		_, err := s.standby.Exec(context.Background(), sql)
		require.NoError(t, err)
	}
	exec(`SELECT pg_wal_replay_pause()`)
	for n := range 4 {
		s.listed(10+n, []string{s.reads, s.writes}[n%2])
	}
	before := len(s.endpoint.received())
	s.payAndTell(s.nuban, "777.00")
	s.eventually("the event at the tenant", func() bool { return len(s.endpoint.received()) > before })
	require.Contains(t, string(s.get(s.reads, "/v1/accounts/shop-1/statement").body), `"767.00"`, "what was published to the tenant is in its statement")
	s.waitForEnd(some + 1)
	s.same()
	exec(`SELECT pg_wal_replay_resume()`)
	s.same() // while it catches up
	s.eventually("reads at the standby again", func() bool {
		before := s.atReplica()
		s.get(s.reads, "/v1/accounts")
		return s.atReplica() > before
	})
	s.same()
	kill()
	s.same()
	s.listed(20, s.reads)
}
