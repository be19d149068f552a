package main

import (
	"bytes"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// endpoint is a tenant's webhook receiver, as lean as one can be: it answers 200 and keeps when it
// first heard of each payment.
type endpoint struct {
	url    string
	server fasthttp.Server
	calls  atomic.Int64
	takes  atomic.Int64 // nanoseconds until it answers

	mu    sync.Mutex
	first map[int]time.Time // by payment number
}

func newEndpoint() (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: "http://" + l.Addr().String() + "/hook", first: map[int]time.Time{}}
	e.server = fasthttp.Server{NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true, Handler: func(c *fasthttp.RequestCtx) {
		if n, ok := numberIn(c.PostBody()); ok {
			e.keep(n, time.Now())
		}
		time.Sleep(time.Duration(e.takes.Load()))
	}}
	go func() { _ = e.server.Serve(l) }()
	return e, nil
}

func (e *endpoint) stop() {
	if e != nil {
		_ = e.server.Shutdown()
	}
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
	return maps.Clone(e.first)
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
