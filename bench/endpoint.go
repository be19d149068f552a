package main

import (
	"bytes"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is a tenant's webhook receiver, as lean as one can be: it answers 200 and keeps when it
// first heard of each payment.
type endpoint struct {
	url      string
	listener net.Listener
	calls    atomic.Int64
	open     sync.WaitGroup

	mu    sync.Mutex
	first map[int]time.Time // by payment number
	conns map[net.Conn]bool
}

func newEndpoint() (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: "http://" + l.Addr().String() + "/hook", listener: l, first: map[int]time.Time{}, conns: map[net.Conn]bool{}}
	e.open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // stopped
			}
			e.mu.Lock()
			e.conns[conn] = true
			e.mu.Unlock()
			e.open.Go(func() { e.serve(conn) })
		}
	})
	return e, nil
}

func (e *endpoint) stop() {
	if e == nil {
		return
	}
	_ = e.listener.Close()
	e.mu.Lock()
	for c := range e.conns {
		_ = c.Close()
	}
	e.mu.Unlock()
	e.open.Wait()
}

// forget begins a new measurement, in which payments are numbered from 0 again.
func (e *endpoint) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = map[int]time.Time{}
	e.calls.Store(0)
}

// heard is when the endpoint first heard of each payment.
func (e *endpoint) heard() map[int]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[int]time.Time, len(e.first))
	for n, at := range e.first {
		all[n] = at
	}
	return all
}

var answer200 = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

func (e *endpoint) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	c := &client{conn: conn, buf: make([]byte, 16<<10)}
	for {
		_, body, err := c.message()
		if err != nil {
			return
		}
		if n, ok := numberIn(body); ok {
			e.keep(n, time.Now())
		}
		if _, err := conn.Write(answer200); err != nil {
			return
		}
	}
}

func (e *endpoint) keep(n int, at time.Time) {
	e.calls.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, again := e.first[n]; !again {
		e.first[n] = at
	}
}

// numberIn reads the payment's number out of a delivery's narration.
func numberIn(body []byte) (int, bool) {
	_, after, ok := bytes.Cut(body, []byte(`"narration":"`+narrationMark))
	text, _, closed := bytes.Cut(after, []byte(`"`))
	n, err := strconv.Atoi(string(text))
	return n, ok && closed && err == nil
}
