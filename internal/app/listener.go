package app

import (
	"net"
	"sync"
	"time"
)

// unusedGrace is how long a connection on which nothing has been sent may still be used once the API stops: a request may
// be on its way.
const unusedGrace = time.Second

// listener knows the connections on which nothing has come yet. Clients open such in advance, and fasthttp's shutdown
// waits for them as it does for a request under way, until its time is up.
type listener struct {
	net.Listener
	mu     sync.Mutex
	unused map[*conn]struct{}
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, unused: map[*conn]struct{}{}}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused[c] = struct{}{}
	return c, nil
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unused, c)
}

// closeUnused ends the connections on which nothing has come.
func (l *listener) closeUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.unused {
		_ = c.Conn.Close() // its reader finds out, and ends it again
	}
}

// conn tells its listener of its first byte. One goroutine reads it.
type conn struct {
	net.Conn
	listener *listener
	used     bool
}

// Read reads.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.used {
		c.used = true
		c.listener.forget(c)
	}
	return n, err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.listener.forget(c)
	return c.Conn.Close()
}
