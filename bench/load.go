package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// load sends prepared requests over keep-alive connections and keeps the outcome of each. It is
// lean: whole requests are written as they are, and of an answer no more is read than its status
// and where it ends.
type load struct {
	addr     string
	conns    int
	requests [][]byte
	want     int // the status of a good answer
	// between two sends, whatever the outcome of the first; 0: each connection sends when it has
	// its answer
	interval time.Duration
	limit    time.Duration // no request is begun after it; 0: all are sent
	answered func(i int, body []byte)
}

// sent is the result of a load.
type sent struct {
	begin time.Time
	took  time.Duration // from the first send to the last answer
	good  []bool        // by request: answered as wanted
	at    []time.Time   // by request: when the answer came
	// of good answers; from the send, or with an interval from when it was to be sent
	latency []time.Duration
	count   int   // good ones
	refused error // an answer that was not wanted, if there was one
}

// run sends the load. A connection that breaks ends it with an error; an answer that is not wanted
// is kept in refused.
func (l *load) run() (*sent, error) {
	s := &sent{good: make([]bool, len(l.requests)), at: make([]time.Time, len(l.requests)), latency: make([]time.Duration, len(l.requests))}
	conns := make([]*connection, l.conns)
	for i := range conns {
		c, err := dial(l.addr)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, l.conns)
	s.begin = time.Now()
	for n, c := range conns {
		all.Go(func() { errs[n] = l.drive(c, s, &next) })
	}
	all.Wait()
	s.took = time.Since(s.begin)
	done := s.latency[:0]
	for i, ok := range s.good {
		if ok {
			s.count++
			done = append(done, s.latency[i])
		}
	}
	s.latency = done
	slices.Sort(s.latency)
	for _, err := range errs {
		var r refusal
		if errors.As(err, &r) {
			s.refused = err
		} else if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// refusal is an answer that was not wanted.
type refusal struct {
	request, status int
	body            string
}

func (r refusal) Error() string {
	return fmt.Sprintf("request %d was answered %d: %s", r.request, r.status, r.body)
}

// drive is one connection at work. It stops at the first answer that is not wanted: the run has
// failed then.
func (l *load) drive(c *connection, s *sent, next *atomic.Int64) error {
	for {
		i := int(next.Add(1) - 1)
		if i >= len(l.requests) {
			return nil
		}
		at := time.Now()
		if l.interval > 0 {
			at = s.begin.Add(time.Duration(i) * l.interval)
			time.Sleep(time.Until(at))
		}
		if l.limit > 0 && at.Sub(s.begin) > l.limit {
			return nil
		}
		status, body, err := c.do(l.requests[i])
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if status != l.want {
			return refusal{i, status, string(body)}
		}
		now := time.Now()
		s.good[i], s.at[i], s.latency[i] = true, now, now.Sub(at)
		if l.answered != nil {
			l.answered(i, body)
		}
	}
}

// percentile is the value below which p of 1,000 sorted durations are.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/1000)]
}

// connection is one keep-alive connection to an HTTP server.
type connection struct {
	net.Conn
	in     *bufio.Reader
	answer fasthttp.Response
}

func dial(addr string) (*connection, error) {
	conn, err := net.Dial("tcp", addr)
	return &connection{Conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}, err
}

// answerLimit is what one answer may take: a run that hangs ends.
const answerLimit = 30 * time.Second

// do sends a request and returns the answer; the body is good until the next call.
func (c *connection) do(request []byte) (status int, body []byte, err error) {
	if err := c.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, nil, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, nil, err
	}
	err = c.answer.Read(c.in)
	return c.answer.StatusCode(), c.answer.Body(), err
}
