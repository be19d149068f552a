package ratelimit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/redisconn"
	"ajo/internal/testenv"
)

// A busy machine is not a Redis that is away.
func TestMain(m *testing.M) {
	timeout = 10 * time.Second
	os.Exit(m.Run())
}

// asked counts the counts that are asked of Redis; probes are not among them.
type asked struct{ n atomic.Int64 }

func (a *asked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *asked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *asked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			a.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// asks counts what the limiter asks from now on.
func asks(l *Limiter) *asked {
	a := &asked{}
	l.client.AddHook(a)
	return a
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newLimiter(t *testing.T, client redis.UniversalClient, perTenant, open string) *Limiter {
	t.Helper()
	l, err := New(Options{Client: client, PerTenant: perTenant, Open: open, Log: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// countKey counts a request of the tenant that a key makes up.
func countKey(ctx context.Context, l *Limiter, key [32]byte) Result {
	return l.Key(ctx, [16]byte(key[:16]), key)
}

func allowed(n int, count func() Result) (ok int) {
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range n {
		wg.Go(func() {
			if count().OK {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	return int(passed.Load())
}

func TestLimitIsSharedThroughRedis(t *testing.T) {
	t.Parallel()
	client := testenv.New(t).Redis()
	a, b := newLimiter(t, client, "10-H", "3-H"), newLimiter(t, client, "10-H", "3-H")
	ctx, key := context.Background(), sha256.Sum256([]byte("one"))

	passed := allowed(50, func() Result { return countKey(ctx, a, key) })
	require.Equal(t, 10, passed, "exactly the limit passes, however many come at once")
	require.False(t, countKey(ctx, b, key).OK, "another process sees the same count")
	require.True(t, countKey(ctx, b, sha256.Sum256([]byte("two"))).OK, "another tenant has its own count")
	require.NotNil(t, a.shared.Load())
}

func TestKindsAreCountedApart(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, testenv.New(t).Redis(), "2-H", "3-H")
	ctx, addr := context.Background(), netip.MustParseAddr("192.0.2.7")
	require.Equal(t, 3, allowed(5, func() Result { return l.Open(ctx, addr) }))
	require.Equal(t, 2, allowed(5, func() Result { return l.Stranger(ctx, addr, [32]byte{}) }))
	require.Equal(t, 10, allowed(15, func() Result { return l.Account(ctx, "login", "ada@example.com") }))
	require.Equal(t, 10, allowed(15, func() Result { return l.Account(ctx, "code", "ada@example.com") }))
}

func TestAddressesCountAsTheirSubscriber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.7":                "192.0.2.7",
		"::ffff:192.0.2.7":         "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":     "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1":     "2001:db8:1:2::/64",
		"fe80::1%eth0":             "fe80::/64",
		"2001:db8:1:3:aaaa:bbbb::": "2001:db8:1:3::/64",
	} {
		require.Equal(t, want, Network(netip.MustParseAddr(in)), in)
	}
	require.NotPanics(t, func() { _ = Network(netip.Addr{}) })
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, testenv.New(t).Redis(), "2-M", "20-M")
	key := sha256.Sum256([]byte("k"))
	for i, want := range []struct {
		remaining string
		ok        bool
	}{{"1", true}, {"0", true}, {"0", false}, {"0", false}} {
		r := countKey(context.Background(), l, key)
		got := map[string]string{}
		r.Header(func(k, v string) { got[k] = v })
		require.Equal(t, want.ok, r.OK, i)
		require.Equal(t, "2", got["RateLimit-Limit"])
		require.Equal(t, want.remaining, got["RateLimit-Remaining"])
		reset, err := strconv.Atoi(got["RateLimit-Reset"])
		require.NoError(t, err)
		require.True(t, reset >= 1 && reset <= 60, reset)
		if want.ok {
			require.NotContains(t, got, "Retry-After")
		} else {
			require.Equal(t, got["RateLimit-Reset"], got["Retry-After"])
		}
	}
}

func TestWaitingAsToldIsEnough(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for _, end := range []time.Duration{0, 1, 500 * time.Millisecond, 999 * time.Millisecond, 30 * time.Second, 59_999 * time.Millisecond, time.Minute} {
		for _, at := range []time.Duration{0, time.Millisecond, 250 * time.Millisecond, 999 * time.Millisecond} {
			windowEnd, now := start.Add(time.Minute+end), start.Add(time.Minute+at)
			s := secondsUntil(windowEnd.Unix(), now, time.Minute)
			require.GreaterOrEqual(t, s, int64(1))
			require.LessOrEqual(t, s, int64(60))
			sooner := now.Add(time.Duration(s-1) * time.Second)
			require.True(t, sooner.Before(time.Unix(windowEnd.Unix()+1, 0)), "%s %s: %d s, and one less was enough", end, at, s)
			if windowEnd.Sub(now) <= time.Minute {
				require.False(t, now.Add(time.Duration(s)*time.Second).Before(windowEnd), "%s %s: %d s", end, at, s)
			}
		}
	}
}

// No answer says to wait for less than a second, whatever the clock of the store says.
func TestAWindowThatHasEnded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, ended := range []time.Duration{time.Second, time.Hour} {
		require.Equal(t, int64(1), secondsUntil(now.Add(-ended).Unix(), now, time.Minute), ended)
	}
}

func TestWindowEnds(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, testenv.New(t).Redis(), "1-S", "1-S")
	key := sha256.Sum256([]byte("k"))
	require.True(t, countKey(context.Background(), l, key).OK)
	testenv.Eventually(t, 5*time.Second, "a new window", func() bool { return countKey(context.Background(), l, key).OK })
}

func TestBadLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "600", "600-X", "x-M", "0-M", "-1-M", "600-M-M"} {
		_, err := New(Options{PerTenant: bad, Open: "20-M", Log: quiet()})
		require.ErrorContains(t, err, "600-M", bad)
		_, err = New(Options{PerTenant: "600-M", Open: bad, Log: quiet()})
		require.Error(t, err, bad)
	}
}

func TestRedisAwayAtStart(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	client := redis.NewClient(&redis.Options{Addr: closedPort(t)})
	t.Cleanup(func() { _ = client.Close() })
	l, err := New(Options{Client: client, PerTenant: "5-H", Open: "3-H", Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.Contains(t, log.String(), "counted in this process")
	key := sha256.Sum256([]byte("k"))
	a := asks(l)
	require.Equal(t, 5, allowed(100, func() Result { return countKey(context.Background(), l, key) }))
	require.Zero(t, a.n.Load(), "no request asks a Redis that is known to be away")
}

// A Redis that answers and takes no writes counts nothing: the limits stay in this process until it
// takes them, and nothing else is said meanwhile.
func TestRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	for setting, bad := range map[string][2]string{"NOREPLICAS": {"min-replicas-to-write", "1"}, "OOM": {"maxmemory", "1"}} {
		t.Run(setting, func(t *testing.T) {
			ctx, node := context.Background(), testenv.StartRedis(t)
			client := node.Client()
			t.Cleanup(func() { _ = client.Close() })
			require.NoError(t, client.ConfigSet(ctx, bad[0], bad[1]).Err())
			require.ErrorContains(t, client.Set(ctx, "anything", "x", time.Second).Err(), setting)
			var said bytes.Buffer
			l, err := New(Options{Client: client, PerTenant: "2-H", Open: "3-H", Log: slog.New(slog.NewTextHandler(&said, nil))})
			require.NoError(t, err)
			require.ErrorContains(t, l.connect(), setting)
			require.Nil(t, l.shared.Load())
			require.True(t, countKey(ctx, l, sha256.Sum256([]byte("one"))).OK)
			require.NoError(t, client.ConfigSet(ctx, bad[0], "0").Err())
			testenv.Eventually(t, time.Minute, "the limits to be shared", func() bool { return l.shared.Load() != nil })
			require.NoError(t, l.Close())
			require.Equal(t, 1, strings.Count(said.String(), "counted in this process"), said.String())
		})
	}
}

// On a Cluster each node has a part of the counts: one that takes no writes is enough.
func TestANodeThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	ctx, cluster := context.Background(), testenv.StartCluster(t)
	client, err := redisconn.Open(cluster.URL, redisconn.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	l := newLimiter(t, client, "2-H", "3-H")
	require.NoError(t, l.connect())
	for i, n := range cluster.Nodes {
		admin := n.Client()
		require.NoError(t, admin.ConfigSet(ctx, "min-replicas-to-write", "1").Err())
		require.ErrorContains(t, l.connect(), "NOREPLICAS", "node %d", i)
		require.NoError(t, admin.ConfigSet(ctx, "min-replicas-to-write", "0").Err())
		require.NoError(t, admin.Close())
	}
	require.NoError(t, l.connect())
}

// A Redis that is taken away and given back, and one that takes connections and never answers.
func TestRedisGoesAndComesBack(t *testing.T) {
	t.Parallel()
	env := testenv.New(t)
	for _, how := range []string{"refuses", "never answers"} {
		t.Run(how, func(t *testing.T) {
			gate := newGate(t, env.Redis().Options().Addr)
			behind := *env.Redis().Options()
			behind.Addr = gate.addr()
			client := redis.NewClient(&behind)
			t.Cleanup(func() { _ = client.Close() })
			l := newLimiter(t, client, "1000-H", "3-H")
			key := sha256.Sum256([]byte(how))
			require.Equal(t, int64(999), countKey(context.Background(), l, key).Remaining)

			gate.shut(how == "never answers")
			require.Equal(t, 100, allowed(100, func() Result { return countKey(context.Background(), l, key) }), "no request fails")
			require.Nil(t, l.shared.Load(), "Redis is known to be away")
			a := asks(l)
			for range 100 {
				countKey(context.Background(), l, key)
			}
			require.Zero(t, a.n.Load(), "once known, it costs nothing")

			gate.open()
			testenv.Eventually(t, 10*time.Second, "redis is used again", func() bool { return l.shared.Load() != nil })
			require.Equal(t, int64(998), countKey(context.Background(), l, key).Remaining, "the shared count goes on, and nothing was counted twice")
		})
	}
}

func TestScriptIsLoadedAgain(t *testing.T) {
	t.Parallel()
	client := testenv.New(t).Redis()
	l := newLimiter(t, client, "5-H", "3-H")
	key := sha256.Sum256([]byte("k"))
	require.Equal(t, int64(4), countKey(context.Background(), l, key).Remaining)
	require.NoError(t, client.ScriptFlush(context.Background()).Err())
	require.Equal(t, int64(3), countKey(context.Background(), l, key).Remaining)
}

func TestACallerThatHasGoneIsNoFaultOfRedis(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, testenv.New(t).Redis(), "5-H", "3-H")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.True(t, countKey(ctx, l, sha256.Sum256([]byte("k"))).OK)
	require.NotNil(t, l.shared.Load())
}

func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}

// gate is a listener before the real Redis that can be shut: it then refuses, or takes connections
// and says nothing.
type gate struct {
	ln     net.Listener
	target string
	mu     sync.Mutex
	closed bool
	mute   bool
	conns  map[net.Conn]bool
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{ln: ln, target: target, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = ln.Close(); g.shut(false) })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go g.serve(c)
		}
	}()
	return g
}

func (g *gate) addr() string { return g.ln.Addr().String() }

func (g *gate) serve(c net.Conn) {
	g.mu.Lock()
	closed, mute := g.closed, g.mute
	if closed && !mute {
		g.mu.Unlock()
		_ = c.Close()
		return
	}
	g.conns[c] = true
	if closed {
		g.mu.Unlock()
		return
	}
	up, err := net.Dial("tcp", g.target)
	if err != nil {
		g.mu.Unlock()
		_ = c.Close()
		return
	}
	g.conns[up] = true
	g.mu.Unlock()
	go g.pipe(up, c)
	g.pipe(c, up)
}

// pipe copies until the gate is muted; from then on it reads and forwards nothing.
func (g *gate) pipe(dst, src net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := src.Read(buf)
		g.mu.Lock()
		mute := g.closed && g.mute
		g.mu.Unlock()
		if err != nil {
			_ = dst.Close()
			return
		}
		if mute {
			_, _ = io.Copy(io.Discard, src)
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			_ = src.Close()
			return
		}
	}
}

func (g *gate) shut(mute bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.mute = true, mute
	if mute {
		return
	}
	for c := range g.conns {
		_ = c.Close()
	}
	g.conns = map[net.Conn]bool{}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.mute = false, false
	for c := range g.conns {
		_ = c.Close()
	}
	g.conns = map[net.Conn]bool{}
}
