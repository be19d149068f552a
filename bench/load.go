package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load sends prepared requests over keep-alive connections and keeps what became of each. It is
// lean: whole requests are written as they are, and of an answer no more is read than its status
// and where it ends.
type load struct {
	addr     string
	conns    int
	requests [][]byte
	want     int // the status of a good answer
	// between two sends, whatever became of the first; 0: each connection sends when it has its
	// answer
	interval time.Duration
	limit    time.Duration // no request is begun after it; 0: all are sent
	answered func(i int, body []byte)
}

// sent is what became of a load.
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
	clients := make([]*client, l.conns)
	for i := range clients {
		c, err := dial(l.addr)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.conn.Close() }()
		clients[i] = c
	}
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, l.conns)
	s.begin = time.Now()
	for n, c := range clients {
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
func (l *load) drive(c *client, s *sent, next *atomic.Int64) error {
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

// client is one keep-alive connection to an HTTP server.
type client struct {
	conn net.Conn
	buf  []byte
	n    int // bytes of buf that have been read
	used int // those of the message that was returned last
}

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	return &client{conn: conn, buf: make([]byte, 16<<10)}, err
}

// answerLimit is what one answer may take: a run that hangs ends.
const answerLimit = 30 * time.Second

// do sends a request and returns the answer; the body is good until the next call.
func (c *client) do(request []byte) (status int, body []byte, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, nil, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return 0, nil, err
	}
	head, body, err := c.message()
	if err != nil {
		return 0, nil, err
	}
	if len(head) < 12 {
		return 0, nil, errMessage
	}
	status, err = strconv.Atoi(string(head[9:12]))
	return status, body, err
}

var (
	errMessage    = errors.New("bench: not an HTTP message that this program reads")
	headEnd       = []byte("\r\n\r\n")
	lengthHeader  = []byte("\r\nContent-Length: ")
	chunkedHeader = []byte("\r\nTransfer-Encoding:")
)

// message reads one HTTP message with a Content-Length, or without a body. Both are views that the
// next call overwrites.
func (c *client) message() (head, body []byte, err error) {
	c.n, c.used = copy(c.buf, c.buf[c.used:c.n]), 0
	for {
		if end := bytes.Index(c.buf[:c.n], headEnd); end >= 0 {
			head = c.buf[:end+2]
			length, err := bodyLength(head)
			if err != nil {
				return nil, nil, err
			}
			from, to := end+len(headEnd), end+len(headEnd)+length
			if c.n >= to {
				c.used = to
				return head, c.buf[from:to], nil
			}
			if to > len(c.buf) {
				c.buf = append(c.buf, make([]byte, to-len(c.buf))...)
			}
		} else if c.n == len(c.buf) {
			return nil, nil, errMessage
		}
		n, err := c.conn.Read(c.buf[c.n:])
		if c.n += n; err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
			return nil, nil, err
		}
	}
}

func bodyLength(head []byte) (int, error) {
	at := bytes.Index(head, lengthHeader)
	if at < 0 {
		if bytes.Contains(head, chunkedHeader) {
			return 0, errMessage
		}
		return 0, nil
	}
	text := head[at+len(lengthHeader):]
	end := bytes.IndexByte(text, '\r')
	if end < 0 {
		return 0, errMessage
	}
	return strconv.Atoi(string(text[:end]))
}
