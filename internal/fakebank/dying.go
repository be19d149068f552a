package fakebank

import (
	"net"
	"sync/atomic"
)

// Dying is a listener whose connections can die without a word: what comes in is lost, and so is
// what goes out.
type Dying struct {
	net.Listener
	dead atomic.Bool
}

// Die kills the connections that were accepted so far. Later ones live.
func (l *Dying) Die() { l.dead.Store(true) }

// Accept is the listener's.
func (l *Dying) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.dead.Load() {
		return c, err
	}
	return &dyingConn{c, &l.dead}, nil
}

type dyingConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c *dyingConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func (c *dyingConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
