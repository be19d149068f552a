package e2e

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/failpoint"
	"ajo/internal/testenv"
)

// scenario is a kind of work that passes some of the points.
type scenario struct {
	name string
	// the points that it passes; a name that ends in a slash stands for all that begin so
	points   []string
	settings map[string]string
	queues   string // of the worker, as --queues names them
	width    int    // units under way at once in a long run; 0: 6
	// the highest pass of its point that a process dies at in a long run; 0: 4
	times int
	begin func(c *crash)             // before any process runs
	unit  func(c *crash, n int) unit // the n-th unit of work, from 1
	check func(c *crash, units int)  // of all, when they have ended
}

// unit takes a piece of work as far as it goes at this moment, and reports whether it has ended. It
// is called again and again; whatever it asks for may have no answer.
type unit func() bool

// passes reports whether the scenario comes to the point.
func (s scenario) passes(point string) bool {
	return slices.ContainsFunc(s.points, func(p string) bool { return p == point || strings.HasSuffix(p, "/") && strings.HasPrefix(point, p) })
}

// Before and after each commit, enqueue and foreign call the process that comes there is killed,
// and started again, as often as AJO_KILLS says (once; 50 with make chaos-points), while units of
// work are under way. All of them end right, and a point that nobody passes fails the test.
// AJO_SEED draws the same passes of a point again, though not how the processes interleave. In the
// short form, processes die at a few points one after the other: to start them in a database of its
// own for each point takes most of the time.
func TestKilledAtEachPoint(t *testing.T) {
	kills, together := 1, 8
	if v := os.Getenv("AJO_KILLS"); v != "" {
		var err error
		kills, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	seed := uint64(0)
	if kills > 1 {
		seed, together = chaosSeed(t), 1
	}
	table := &killTable{begin: time.Now()}
	t.Cleanup(func() { table.print(t) })
	for _, s := range scenarios {
		passed := slices.DeleteFunc(slices.Clone(failpoint.Points), func(point string) bool { return !s.passes(point) })
		for points := range slices.Chunk(passed, together) {
			t.Run(s.name+" "+strings.ReplaceAll(points[0], "/", "."), func(t *testing.T) {
				c := newCrash(t, s, points, seed)
				c.kill(kills)
				table.add(c)
			})
		}
	}
}

// Every point is passed by some kind of work, and none is named that is not there.
func TestEveryPointIsTried(t *testing.T) {
	for _, point := range failpoint.Points {
		if strings.HasPrefix(point, "archive/") { // TestKilledAtEachPoint of package archive tries these
			continue
		}
		require.True(t, slices.ContainsFunc(scenarios, func(s scenario) bool { return s.passes(point) }), point)
	}
	for _, s := range scenarios {
		for _, p := range s.points {
			require.True(t, slices.ContainsFunc(failpoint.Points, func(point string) bool { return point == p || strings.HasSuffix(p, "/") && strings.HasPrefix(point, p) }), p)
		}
	}
}

// crash is a world whose API and worker die at some points, one after the other, and are started
// again.
type crash struct {
	*settler
	scenario   scenario
	points     []string
	rng        *rand.Rand
	worker     *process
	line       *testenv.Proxy // before Postgres, for the API alone; nil: none
	byLine     string         // Postgres' address through it
	endpoint   *endpoint
	deliveries int       // deliveries of a payment
	others     []*payout // beside those of the units
	// references of payouts that failed because each of their submissions was lost to a death
	lost []string

	want, units int               // deaths at each point; units begun
	armed       map[string]string // the point at which each role dies
	at          map[string]*pointRun
}

// pointRun is what came of one point.
type pointRun struct {
	died         map[string]int // how often each role has died there
	units        int            // begun while it was the next one
	begin, ended time.Time
}

func (r *pointRun) deaths() int { return r.died["api"] + r.died["worker"] }

func newCrash(t *testing.T, s scenario, points []string, seed uint64) *crash {
	t.Helper()
	name := fnv.New64a()
	_, _ = name.Write([]byte(s.name + points[0]))
	c := &crash{
		settler: newSettler(t), scenario: s, points: points, rng: rand.New(rand.NewPCG(seed, name.Sum64())), armed: map[string]string{}, at: map[string]*pointRun{},
	}
	for _, point := range points {
		c.at[point] = &pointRun{died: map[string]int{}}
	}
	for name, value := range s.settings {
		c.settings[name] = value
	}
	return c
}

// kill runs units of work, and the processes that pass a point die at a pass of it that is drawn,
// till they have died so often at each. Then the units end, undisturbed but for a process that
// still has a death before it.
func (c *crash) kill(times int) {
	c.t.Helper()
	c.want = times
	if c.scenario.begin != nil {
		c.scenario.begin(c)
	}
	c.startRole("api")
	c.startRole("worker")
	width := 1
	if times > 1 {
		width = cmp.Or(c.scenario.width, 6)
	}
	var running []unit
	limit := 4 + 30*times
	for last := time.Now(); c.next() != "" || len(running) > 0; {
		moved := c.tend()
		for len(running) < width && c.next() != "" {
			point := c.next()
			require.Less(c.t, c.at[point].units, limit, "nobody comes to %s", point)
			if len(running) == 0 && c.at[point].units > 0 {
				c.rearm(point)
			}
			c.at[point].units++
			c.units++
			running = append(running, c.scenario.unit(c, c.units))
			moved = true
		}
		n := len(running)
		running = slices.DeleteFunc(running, func(u unit) bool { return u() })
		if moved || len(running) < n {
			last = time.Now()
		}
		if time.Since(last) > healLimit {
			c.t.Fatalf("%d units of work have not ended %s after the last death or end: %+v\n%s\n%s", len(running), healLimit, c.progress(), c.unfinished(), c.unended())
		}
		time.Sleep(20 * time.Millisecond) // a poll, as in testenv.Eventually
	}
	c.scenario.check(c, c.units)
}

// deaths is how many there have been, at all points.
func (c *crash) deaths() (n int) {
	for _, r := range c.at {
		n += r.deaths()
	}
	return n
}

// next is the point at which processes are to die now; empty when they have died at all.
func (c *crash) next() string {
	for _, point := range c.points {
		if r := c.at[point]; r.deaths() < c.want {
			if r.begin.IsZero() {
				r.begin = time.Now()
			}
			return point
		}
	}
	return ""
}

// rearm replaces a role that would die at an earlier point: a unit has ended, and nobody has died
// at this one.
func (c *crash) rearm(point string) {
	c.t.Helper()
	for role, p := range c.roles() {
		if c.armed[role] != point {
			p.Kill()
			c.replace(role)
		}
	}
}

func (c *crash) roles() map[string]*process {
	return map[string]*process{"api": c.api, "worker": c.worker}
}

// startRole starts a role that will die at the next point, unless there have been deaths enough.
func (c *crash) startRole(role string) {
	c.t.Helper()
	c.armed[role] = c.next()
	if point := c.armed[role]; point != "" {
		n := 1
		if c.want > 1 {
			n += c.rng.IntN(cmp.Or(c.scenario.times, 4))
		}
		c.settings["AJO_FAILPOINT"] = point + ":" + strconv.Itoa(n)
		defer delete(c.settings, "AJO_FAILPOINT")
	}
	direct := c.settings["AJO_DATABASE_URL"]
	defer func() { c.settings["AJO_DATABASE_URL"] = direct }()
	if role == "api" && c.line != nil {
		c.line.Restore()
		c.settings["AJO_DATABASE_URL"] = c.byLine
	}
	c.settings["AJO_DATABASE_URL"] += "&application_name=" + role
	if role == "worker" {
		args := []string{"worker"}
		if c.scenario.queues != "" {
			args = append(args, "--queues", c.scenario.queues)
		}
		// a duty that is due at once may meet the point before the worker says that it runs
		p := c.run(args...)
		c.eventually("a worker that runs, or has died at the point", func() bool { return p.Ended() || p.out.line("the worker runs") != nil })
		c.worker = p
		return
	}
	// what is in the spool may meet the point before the API says that it listens
	c.api = c.run("api")
	c.eventually("an API that listens, or has died at the point", func() bool { return c.api.Ended() || c.api.out.line("the API listens") != nil })
	if c.api.out.line("the API listens") != nil {
		c.listens()
	}
}

// tend starts again what has died, and reports whether anything had.
func (c *crash) tend() (dead bool) {
	c.t.Helper()
	for role, p := range c.roles() {
		if !p.Ended() {
			continue
		}
		point := c.armed[role]
		require.Contains(c.t, string(p.out.all()), "failpoint: ends at "+point+"\n", "ajo %s ended elsewhere", role)
		dead = true
		c.at[point].died[role]++
		c.at[point].ended = time.Now()
		c.replace(role)
	}
	return dead
}

// replace starts a dead role again; the leases that it has left run out at once.
func (c *crash) replace(role string) {
	c.t.Helper()
	// A commit that was on its way when the process died may still take a lease.
	c.eventually("the end of the connections of the dead", func() bool {
		return c.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = '`+role+`'`) == 0
	})
	for _, table := range []string{"accounts", "idempotency_keys", "reconciliations", "work"} {
		c.Exec(`UPDATE ` + table + ` SET leased_until = now() WHERE leased_until > now()`)
	}
	c.startRole(role)
}

// until waits for the condition, and tends meanwhile.
func (c *crash) until(what string, ok func() bool) {
	c.t.Helper()
	c.eventually(what, func() bool {
		c.tend()
		return ok()
	})
}

// ask makes a request; ok is false when it had no answer.
func (c *crash) ask(method, path string, body any, header map[string]string) (a answer, ok bool) {
	h := map[string][]string{}
	for name, value := range header {
		h[name] = []string{value}
	}
	a, err := request(method, c.apiURL+path, body, h)
	return a, err == nil
}

// killTable counts the deaths at each point.
type killTable struct {
	begin time.Time
	mu    sync.Mutex
	rows  []string
	kills int
}

func (k *killTable) add(c *crash) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills += c.deaths()
	for point, r := range c.at {
		k.rows = append(k.rows, fmt.Sprintf("%-32s %-11s %5d %5d %6d %5d %8s", point, c.scenario.name, r.deaths(), r.died["api"], r.died["worker"], r.units,
			r.ended.Sub(r.begin).Round(100*time.Millisecond)))
	}
}

func (k *killTable) print(t *testing.T) {
	slices.SortFunc(k.rows, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	points := map[int]bool{}
	for _, row := range k.rows {
		points[order(row)] = true
	}
	t.Logf("\n%-32s %-11s %5s %5s %6s %5s %8s\n%s\n%d kills at %d points in %s", "point", "work", "kills", "api", "worker", "units", "time",
		strings.Join(k.rows, "\n"), k.kills, len(points), time.Since(k.begin).Round(time.Second))
}

func order(row string) int {
	point, _, _ := strings.Cut(row, " ")
	return slices.Index(failpoint.Points, point)
}

// balanceOf is the account's balance as the API says it.
func (s *settler) balanceOf(ref string) string {
	s.t.Helper()
	var b struct{ AccountRef, Balance, Currency string }
	s.send("GET", "/v1/accounts/"+ref+"/balance", nil, map[string][]string{"X-Api-Key": {s.key}}).into(s.t, &b)
	return strings.TrimSpace(b.Balance)
}

// A point that is not there stops a process at its start, with the setting's name; in production
// the setting is ignored, and what stops the process is a Postgres that may lose what was answered.
func TestFailpointsAreNotForProduction(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_FAILPOINT"] = "transfer/nowhere"
	refused := runToEnd(t, w.dir, w.settings, "worker")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.out, "AJO_FAILPOINT")
	w.settings["AJO_ENV"], w.settings["AJO_SMTP_URL"] = "production", "smtps://mail.example"
	w.settings["AJO_PROVIDER_URL"] = "https://bank.example"
	refused = runToEnd(t, w.dir, w.settings, "worker")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.out, "AJO_DATABASE_URL: synchronous_commit is off")
}
