package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve answers requests and returns where.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func posts(addr string, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = httpRequest("POST", addr, "/x", []byte(strconv.Itoa(i)), "X-Number: "+strconv.Itoa(i))
	}
	return all
}

// Each request is sent once, whole, and its own answer is taken for it, however large.
func TestLoadSendsAll(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != r.Header.Get("X-Number") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got.Add(1)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)*9000))
		_, _ = io.WriteString(w, strings.Repeat(string(body), 9000))
	})
	const n = 300
	l := load{addr: addr, conns: 7, requests: posts(addr, n), want: 200, answered: func(i int, body []byte) {
		if string(body) != strings.Repeat(strconv.Itoa(i), 9000) {
			t.Errorf("request %d has another's answer", i)
		}
	}}
	s, err := l.run()
	require.NoError(t, err)
	require.NoError(t, s.refused)
	require.Equal(t, n, s.count)
	require.Equal(t, int64(n), got.Load())
	require.Len(t, s.latency, n)
}

// An answer that is not wanted is no success, and is returned.
func TestLoadReturnsRefusals(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Number") == "5" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "not now")
		}
	})
	l := load{addr: addr, conns: 1, requests: posts(addr, 10), want: 200}
	s, err := l.run()
	require.NoError(t, err)
	require.ErrorContains(t, s.refused, "request 5 was answered 503: not now")
	require.False(t, s.good[5])
	require.Equal(t, 5, s.count)
}

// With fixed times, those that had to wait behind a slow answer count their wait: nothing is left
// out because it was not sent.
func TestLoadCountsWaiting(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	var first atomic.Bool
	addr := serve(t, func(http.ResponseWriter, *http.Request) {
		if first.CompareAndSwap(false, true) {
			time.Sleep(stall) // it is the slow server that is tested with
		}
	})
	l := load{addr: addr, conns: 1, requests: posts(addr, 10), want: 200, interval: 10 * time.Millisecond}
	s, err := l.run()
	require.NoError(t, err)
	require.Equal(t, 10, s.count)
	require.GreaterOrEqual(t, s.latency[0], stall-100*time.Millisecond, "the last was to be sent 90 ms after the first")
}

func TestFiguresAreJudged(t *testing.T) {
	t.Parallel()
	r := result{TPSBefore: 900, TPSAfter: 1100, Rows: []figure{
		{Value: 2000, InTPS: true, Goal: 2},
		{Value: 1990, InTPS: true, Goal: 2},
		{Value: 19, Goal: 20, AtMost: true},
		{Value: 21, Goal: 20, AtMost: true},
		{Value: 0, Goal: 50, AtMost: true},
		{Value: 5000, InTPS: true, Goal: 2, Error: "the books are wrong"},
	}}
	r.judge()
	require.Equal(t, 1000.0, r.TPS)
	var verdicts []string
	for _, f := range r.Rows {
		verdicts = append(verdicts, f.verdict())
	}
	require.Equal(t, []string{"met", "missed", "met", "missed", "met", "FAILED"}, verdicts)
	require.InDelta(t, 0.995, r.Rows[1].share(), 1e-9)
	require.InDelta(t, 20.0/21, r.Rows[3].share(), 1e-9)
	require.Zero(t, r.Rows[5].share())
	require.InDelta(t, 0.2, r.noise(), 1e-9)
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var sorted []time.Duration
	require.Zero(t, percentile(sorted, 990))
	for i := range 1000 {
		sorted = append(sorted, time.Duration(i))
	}
	require.Equal(t, []time.Duration{500, 990, 999, 999}, []time.Duration{percentile(sorted, 500), percentile(sorted, 990), percentile(sorted, 999), percentile(sorted, 1000)})
}

func TestNumberInDelivery(t *testing.T) {
	t.Parallel()
	n, ok := numberIn([]byte(`{"amount":"90.00","narration":"` + narrationMark + `1234","status":"provisional"}`))
	require.True(t, ok)
	require.Equal(t, 1234, n)
	for _, bad := range []string{``, `{"narration":"rent"}`, `{"narration":"` + narrationMark + `x"}`, `{"narration":"` + narrationMark + `12`} {
		_, ok := numberIn([]byte(bad))
		require.False(t, ok, bad)
	}
}
