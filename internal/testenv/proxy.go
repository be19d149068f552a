package testenv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands before a server and breaks the connections to it as it is told. The zero state
// passes everything on. It is safe for concurrent use.
type Proxy struct {
	Addr     string // where it listens, on 127.0.0.1
	postgres bool

	loseCommits atomic.Int64
	loseAnswers atomic.Int64
	delay       atomic.Int64 // nanoseconds, of every piece of data, each way

	mu      sync.Mutex
	target  string
	refuses bool
	gate    chan struct{} // closed: bytes pass; otherwise they wait until it is
	conns   map[net.Conn]bool
}

// NewProxy starts a proxy before target (host:port). With postgres it reads the messages that pass,
// which must not be encrypted, and can lose the answer to a commit. It ends with t.
func NewProxy(t testing.TB, target string, postgres bool) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	open := make(chan struct{})
	close(open)
	p := &Proxy{Addr: listener.Addr().String(), target: target, postgres: postgres, gate: open, conns: map[net.Conn]bool{}}
	go p.serve(listener)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Stall(false)
		p.Cut()
	})
	return p
}

// LoseCommits has the answers to the next n commits lost: the transaction stands, and its caller
// learns of a broken connection only.
func (p *Proxy) LoseCommits(n int) { p.loseCommits.Store(int64(n)) }

// LoseAnswers has the next n pieces of the server's answers lost, whatever they answer, and their
// connections with them.
func (p *Proxy) LoseAnswers(n int) { p.loseAnswers.Store(int64(n)) }

// CommitsLeft and AnswersLeft are how many of them are still to come.
func (p *Proxy) CommitsLeft() int { return int(max(0, p.loseCommits.Load())) }

// AnswersLeft is described at CommitsLeft.
func (p *Proxy) AnswersLeft() int { return int(max(0, p.loseAnswers.Load())) }

// Delay has every piece of data wait, each way; 0: none does.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut ends all connections that there are. New ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// Refuse has new connections ended as soon as they are made, or no longer. Those that there are end
// with the first.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	p.refuses = yes
	p.mu.Unlock()
	if yes {
		p.Cut()
	}
}

// Restore has everything pass again. The connections that there are end, and with them what was
// held back.
func (p *Proxy) Restore() {
	p.Refuse(false)
	p.Cut()
	p.Stall(false)
}

// Turn has the proxy stand before another server. The connections that there are end.
func (p *Proxy) Turn(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Stall holds all data back, in silence, or lets it go on.
func (p *Proxy) Stall(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		if yes {
			p.gate = make(chan struct{})
		}
	default:
		if !yes {
			close(p.gate)
		}
	}
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the test has ended
		}
		go p.join(client)
	}
}

func (p *Proxy) join(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	p.mu.Lock()
	if err != nil || p.refuses || p.target != target {
		p.mu.Unlock()
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var losing atomic.Bool
	var both sync.WaitGroup
	pass := func(pump func(to io.Writer, from io.Reader, losing *atomic.Bool), to, from net.Conn) {
		both.Go(func() { pump(p.slow(to), from, &losing); _, _ = to.Close(), from.Close() })
	}
	if p.postgres {
		pass(p.messages, server, client)
	} else {
		pass(func(to io.Writer, from io.Reader, _ *atomic.Bool) { _, _ = io.Copy(to, from) }, server, client)
	}
	pass(p.answers, client, server)
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// slowly is a way on which data waits as the proxy is told.
type slowly struct {
	*Proxy
	to io.Writer
}

func (p *Proxy) slow(to io.Writer) io.Writer { return slowly{p, to} }

// Write waits, and writes.
func (s slowly) Write(b []byte) (int, error) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	<-gate
	if d := s.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return s.to.Write(b)
}

// messages passes a Postgres client's messages on, one by one: a length with the start-up
// parameters first, then a type byte and a length each. A simple query "commit" sets losing before
// it is passed on; nothing else is under way then.
func (p *Proxy) messages(server io.Writer, client io.Reader, losing *atomic.Bool) {
	in := bufio.NewReaderSize(client, 64<<10)
	var out bytes.Buffer
	for head := make([]byte, 4); ; head = make([]byte, 5) {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if head[0] == 'Q' && len(head) == 5 && bytes.EqualFold(body, []byte("commit\x00")) && p.loseCommits.Add(-1) >= 0 {
			losing.Store(true)
		}
		// What the client wrote at once goes on at once: a delay is for a round trip, not for each
		// of its messages.
		out.Write(head)
		out.Write(body)
		if in.Buffered() > 0 && out.Len() < 64<<10 {
			continue
		}
		if _, err := server.Write(out.Bytes()); err != nil {
			return
		}
		out.Reset()
	}
}

// answers passes the server's bytes on. The first ones after losing was set say that the commit was
// done: they are dropped, and with them the connection.
func (p *Proxy) answers(client io.Writer, server io.Reader, losing *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || losing.Load() || p.loseAnswers.Load() > 0 && p.loseAnswers.Add(-1) >= 0 {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
