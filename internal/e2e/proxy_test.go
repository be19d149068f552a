package e2e

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// line is the state of a proxy.
type line int

const (
	open   line = iota
	cut         // connections are ended as soon as they are made
	silent      // connections are taken, and nothing is ever answered
)

// proxy stands before Redis and can take it away, which a server that others use must not be.
type proxy struct {
	addr, target string
	listener     net.Listener

	mu    sync.Mutex
	state line
	conns map[net.Conn]bool
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.set(cut)
	})
	return p
}

// set changes the state. Connections of a state that ended are ended with it, but for those that go
// silent.
func (p *proxy) set(s line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if s == silent {
		return
	}
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// takes reports whether bytes pass at this moment.
func (p *proxy) takes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == open
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		state := p.state
		if state != cut {
			p.conns[c] = true
		}
		p.mu.Unlock()
		switch state {
		case cut:
			_ = c.Close()
		case open:
			go p.join(c)
		}
	}
}

func (p *proxy) join(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[server] = true
	p.mu.Unlock()
	go p.pump(client, server)
	p.pump(server, client)
}

// pump moves bytes one way until one side ends; in silence they are dropped.
func (p *proxy) pump(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			break
		}
		if !p.takes() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			break
		}
	}
	_, _ = from.Close(), to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, from)
	delete(p.conns, to)
}
