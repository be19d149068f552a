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
	// unusedGrace is how long a connection without a request stays open once the API stops: a
	// request may be on its way.
	unusedGrace = time.Second
	// maxConns bounds the connections of one API; each takes about 30 KiB. If the process has few
	// descriptors the bound is lower, so that spareDescriptors are left for databases, spool and
	// log.
	maxConns         = 4096
	spareDescriptors = 128
	// waitGrace is how long any connection may keep the server waiting before it can be closed for
	// a new one.
	waitGrace = time.Second
	// acceptPause is the wait between two attempts to make room or get a descriptor.
	acceptPause = 10 * time.Millisecond
)

// listener bounds the API's connections. At the bound, a new connection replaces the one that has
// kept the server waiting longest, idle or in the middle of a request. So clients that send a byte
// now and then block nobody, however many they are. A connection whose request was read completely
// is never closed.
//
// It also knows the connections on which nothing has arrived yet. Clients open such connections in
// advance, and fasthttp's shutdown would wait for them as for a request in progress, until its time
// is up.
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

// Accept waits for the next connection. It does not return an error for a missing descriptor,
// because fasthttp would stop at it.
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
			time.Sleep(acceptPause) // further connections wait in the kernel's queue
		}
		return c, nil
	}
}

// add accepts a connection, if there is room or room can be made.
func (l *listener) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns.Len() >= l.limit && !l.makeRoom() {
		return false
	}
	c.place = l.conns.PushBack(c)
	return true
}

// makeRoom closes the connection that has kept the server waiting longest, if that is at least
// waitGrace.
func (l *listener) makeRoom() bool {
	for e := l.conns.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if time.Since(c.since) < waitGrace {
			return false // so are all that follow
		}
		if c.reading {
			c.cut, c.place = true, nil
			l.conns.Remove(e)
			_ = c.Conn.Close() // its reader gets an error
			metrics.ConnectionsCut.Inc()
			return true
		}
	}
	return false
}

// closeUnused closes the connections on which nothing has arrived.
func (l *listener) closeUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.conns.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.used {
			_ = c.Conn.Close() // its reader gets an error, and closes it again
		}
	}
}

// conn reports to its listener what it waits for. One goroutine reads it. The listener's lock
// guards its fields.
type conn struct {
	net.Conn
	listener *listener
	place    *list.Element // nil once it is closed
	since    time.Time     // when it was accepted or last written to
	reading  bool          // the server waits for its client
	used     bool          // something has arrived
	cut      bool          // closed to make room
}

// Read reads. Data of a connection that was closed to make room is dropped, so that its request
// does not start.
func (c *conn) Read(b []byte) (int, error) {
	c.reads(true)
	n, err := c.Conn.Read(b)
	if c.reads(false) {
		return 0, net.ErrClosed
	}
	return n, err
}

// reads records that a read begins or has ended, and reports whether the connection was closed to
// make room.
func (c *conn) reads(now bool) (cut bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.reading = now
	c.used = c.used || !now
	return c.cut
}

// Write writes. After an answer, the client's waiting time starts again.
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
