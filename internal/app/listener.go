package app

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"ajo/internal/metrics"
)

const (
	// unusedGrace is how long a connection on which nothing has been sent may still be used once
	// the API stops: a request may be on its way.
	unusedGrace = time.Second
	// maxConns bounds the connections of one API; each takes some 30 KiB. Where the process has few
	// descriptors the bound is lower, so that spareDescriptors are left for databases, spool and
	// log.
	maxConns         = 4096
	spareDescriptors = 128
	// waitGrace is how long any connection may keep the server waiting: a new one is not cut off
	// for others as new.
	waitGrace = time.Second
	// acceptPause is between two looks for room, or for a descriptor.
	acceptPause = 10 * time.Millisecond
)

// listener keeps the API's connections within its limit. When they are as many, a new one takes the
// place of the one that has kept the server waiting longest, idle or in the middle of a request: so
// clients that send a byte now and then hold up nobody, however many they are. A request that has
// been read is never cut off.
//
// It also knows the connections on which nothing has come yet. Clients open such in advance, and
// fasthttp's shutdown waits for them as it does for a request under way, until its time is up.
type listener struct {
	net.Listener
	limit int

	mu    sync.Mutex
	conns list.List // of *conn, in the order in which their waiting began
}

// newListener bounds the connections of l by limit.
func newListener(l net.Listener, limit int) *listener { return &listener{Listener: l, limit: limit} }

// connLimit is how many connections the process has descriptors for, at most maxConns.
func connLimit() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil || r.Cur > maxConns+spareDescriptors {
		return maxConns
	}
	return int(max(r.Cur/2, r.Cur-min(r.Cur, spareDescriptors)))
}

// Accept waits for the next connection. That there is no descriptor for one is no error: fasthttp
// would end at it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) {
			time.Sleep(acceptPause)
			continue
		}
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: nc, listener: l, since: time.Now()}
		for !l.add(c) {
			time.Sleep(acceptPause) // those behind it wait in the kernel's queue
		}
		return c, nil
	}
}

// add takes a connection in, if there is room for it or room can be made.
func (l *listener) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Len() >= l.limit && !l.makeRoom() {
		return false
	}
	c.place = l.conns.PushBack(c)
	return true
}

// makeRoom ends the connection that has kept the server waiting longest, if one has for waitGrace.
func (l *listener) makeRoom() bool {
	for e := l.conns.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if time.Since(c.since) < waitGrace {
			return false // so are all behind it
		}
		if c.reading {
			c.cut, c.place = true, nil
			l.conns.Remove(e)
			_ = c.Conn.Close() // its reader finds out
			metrics.ConnectionCut()
			return true
		}
	}
	return false
}

// closeUnused ends the connections on which nothing has come.
func (l *listener) closeUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.conns.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.used {
			_ = c.Conn.Close() // its reader finds out, and ends it again
		}
	}
}

// conn tells its listener what it is waiting for. One goroutine reads it. The fields are under the
// listener's lock.
type conn struct {
	net.Conn
	listener *listener
	place    *list.Element // nil when it has ended
	since    time.Time     // it was accepted, or written to: its client's turn began
	reading  bool          // the server waits for its client
	used     bool          // something has come
	cut      bool          // it had to make room
}

// Read reads. What comes on a connection that had to make room is not handed on: its request must
// not begin.
func (c *conn) Read(b []byte) (int, error) {
	c.reads(true)
	n, err := c.Conn.Read(b)
	if c.reads(false) {
		return 0, net.ErrClosed
	}
	return n, err
}

// reads notes that a read begins or has ended, and tells whether the connection had to make room.
func (c *conn) reads(now bool) (cut bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.reading = now
	c.used = c.used || !now
	return c.cut
}

// Write writes. Whoever gets an answer begins to wait anew.
func (c *conn) Write(b []byte) (int, error) {
	c.listener.mu.Lock()
	if c.place != nil {
		c.since = time.Now()
		c.listener.conns.MoveToBack(c.place)
	}
	c.listener.mu.Unlock()
	return c.Conn.Write(b)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	if c.place != nil {
		c.listener.conns.Remove(c.place)
		c.place = nil
	}
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
