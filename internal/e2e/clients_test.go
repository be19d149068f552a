package e2e

import (
	"bufio"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// What a test run has time for; `make chaos-clients` asks for the long form.
const (
	someSlow   = 100
	someBroken = 500
	someRate   = 50 // events a second
	someTime   = 2  // seconds of each measurement
)

// heldLimit is what a client may hold a connection for with a request that it does not finish: the
// server's 20 s, and what a busy machine adds.
const heldLimit = time.Minute

// slowHead and slowBody begin a request that is then sent a byte a second.
const (
	slowHead = "POST /webhooks/provider HTTP/1.1\r\nHost: ajo\r\nX-Slow: "
	slowBody = "POST /webhooks/provider HTTP/1.1\r\nHost: ajo\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n{"
)

// crowd are clients that each hold a connection with a request that does not end. One that is cut
// off comes back after a second.
type crowd struct {
	t       testing.TB
	addr    string
	stop    chan struct{}
	wg      sync.WaitGroup
	open    atomic.Int64 // connections that are held now
	cut     atomic.Int64 // connections that the server ended
	longest atomic.Int64 // nanoseconds that one was held, at most
}

func (p *paid) newCrowd() *crowd {
	return &crowd{t: p.t, addr: strings.TrimPrefix(p.apiURL, "http://"), stop: make(chan struct{})}
}

// join lets n more clients begin, each with begin, and returns when all have connected.
func (c *crowd) join(n int, begin string) {
	c.t.Helper()
	want := c.open.Load() + int64(n)
	for range n {
		c.wg.Go(func() {
			for c.hold(begin) {
				select {
				case <-c.stop:
				case <-time.After(time.Second):
				}
			}
		})
	}
	testenv.Eventually(c.t, 20*time.Second, "the slow clients to connect", func() bool {
		return c.open.Load() >= want || c.cut.Load() > 0
	})
}

// hold makes one connection and sends a byte a second until the server ends it, or the crowd leaves
// (false).
func (c *crowd) hold(begin string) (again bool) {
	select {
	case <-c.stop:
		return false
	default:
	}
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return true
	}
	since := time.Now()
	c.open.Add(1)
	defer func() {
		c.open.Add(-1)
		_ = conn.Close()
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = bufio.NewReader(conn).ReadByte() // an answer, or the end
	}()
	_, _ = conn.Write([]byte(begin))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return false
		case <-ended:
			c.cut.Add(1)
			if d := int64(time.Since(since)); d > c.longest.Load() {
				c.longest.Store(d) // of two at once the lesser may win: a figure, nothing more
			}
			return true
		case <-tick.C:
			_, _ = conn.Write([]byte("a"))
		}
	}
}

// leave ends the crowd.
func (c *crowd) leave() {
	close(c.stop)
	c.wg.Wait()
}

// Clients that send their requests a byte a second hold as many connections as they like, and
// others send bodies that are broken in every way: the events that come meanwhile are answered 200
// as before, nothing of the broken ones is booked, and when they have gone, so have their
// connections. AJO_SLOW_CLIENTS, AJO_BROKEN_BODIES, AJO_CLIENT_RATE (events a second) and
// AJO_CLIENT_TIME (seconds of each measurement) make it longer.
func TestSlowAndBrokenClients(t *testing.T) {
	slow, broken := fromEnv(t, "AJO_SLOW_CLIENTS", someSlow), fromEnv(t, "AJO_BROKEN_BODIES", someBroken)
	each := time.Duration(fromEnv(t, "AJO_CLIENT_TIME", someTime)) * time.Second
	w := newWorld(t)
	w.lookForRaces()
	p := w.settle()
	p.startWorker("")
	l := newLoad(p, fromEnv(t, "AJO_CLIENT_RATE", someRate))
	l.again = 2        // on a slow machine this client, too, may take longer than the API waits
	l.run(time.Second) // connections and caches warm
	alone, before := l.run(each), p.api.usage()

	c := p.newCrowd()
	c.join(slow, slowHead)
	c.join(slow, slowBody)
	var during usage
	if before.descriptors > 0 { // some may just have been cut off, and come back
		p.eventually("the slow ones to hold connections", func() bool {
			during = p.api.usage()
			return during.descriptors >= before.descriptors+slow
		})
	}
	beside := l.run(each)

	b := p.newBreaker()
	sent := make(chan struct{})
	go func() { defer close(sent); b.send(broken) }()
	amid := l.run(each)
	for more := true; more; {
		select {
		case <-sent:
			more = false
		default:
			amid = append(amid, l.run(time.Second)...)
		}
	}
	slices.Sort(amid)
	full := p.api.usage()
	c.leave()
	l.client.CloseIdleConnections() // on a slow machine the events have more than below
	b.check()

	after := p.api.usage()
	if before.descriptors > 0 {
		p.eventually("their connections to be gone", func() bool {
			after = p.api.usage()
			return after.descriptors <= before.descriptors+64 // the events' own
		})
	}
	n := len(p.bank.Transactions())
	p.txs = p.bank.Transactions()
	p.waitForEnd(n)
	p.checkBooks(p.endpoint)
	require.Zero(t, p.count(`SELECT count(*) FROM transfers`))
	require.Equal(t, 1, p.count(`SELECT count(*) FROM accounts`))
	for what, a := range map[string]accepted{"alone": alone, "beside the slow": beside, "amid the broken": amid} {
		t.Logf("%s: %s", what, a)
		require.Less(t, a.at(99), max(10*time.Second, 20*alone.at(99)), what) // of a busy machine they are all slow
	}
	t.Logf("%d slow clients and %d broken bodies; %d connections were cut, the longest held for %s", 2*slow, broken, c.cut.Load(),
		time.Duration(c.longest.Load()).Round(time.Millisecond))
	require.Less(t, time.Duration(c.longest.Load()), heldLimit)
	t.Logf("the API's memory: alone %s; beside the slow %s; amid the broken %s; after %s", before, during, full, after)
}

// With more slow clients than the API has descriptors, it goes on: those that keep it waiting
// longest are cut off for those that come, and enough descriptors are left for its databases. On a
// busy machine the bank may be among those that are cut off: it sends again.
func TestMoreClientsThanDescriptors(t *testing.T) {
	w := newWorld(t)
	w.program = func(args []string) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `ulimit -n 256 && exec "$0" "$@"`, ajo}, args...)...)
	}
	p := w.settle()
	p.startWorker("")
	c := p.newCrowd()
	c.join(600, slowHead)
	l := newLoad(p, someRate)
	l.again = 5
	got := l.run(3 * time.Second)
	require.False(t, p.api.Ended(), "the API has ended")
	held := p.api.usage()
	c.leave()
	t.Logf("256 descriptors, 600 slow clients: %s; %d cut off, %s", got, c.cut.Load(), held)
	n := len(p.bank.Transactions())
	testenv.Eventually(t, 4*healLimit, "the deliveries that wait for a retry", func() bool { return p.progress().delivered == n }, func() any { return p.state() })
	p.waitForEnd(n)
	p.checkBooks(p.endpoint)
}
