package testenv

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync/atomic"

	"ajo/internal/pg"
)

// LostCommits is a way to the test's database on which answers to COMMIT can be lost: the transaction stands, and its caller
// learns of a broken connection only.
type LostCommits struct {
	Pool   *pg.Pool
	server string
	lose   atomic.Int64
}

// LoseNext has the answers to the next n commits lost.
func (l *LostCommits) LoseNext(n int) { l.lose.Store(int64(n)) }

// Left is how many of them are still to come.
func (l *LostCommits) Left() int { return int(max(0, l.lose.Load())) }

// LostCommits opens a pool that reaches the test's database through a proxy of its own.
func (e *Env) LostCommits() *LostCommits {
	e.T.Helper()
	u, err := url.Parse(e.DatabaseURL)
	if err != nil {
		e.T.Fatalf("testenv: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.T.Fatalf("testenv: %v", err)
	}
	l := &LostCommits{server: u.Host}
	go l.serve(listener)
	u.Host = listener.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // the proxy reads what passes
	u.RawQuery = q.Encode()
	if l.Pool, err = pg.Open(context.Background(), u.String(), 8); err != nil {
		e.T.Fatalf("testenv: %v", err)
	}
	e.T.Cleanup(func() { l.Pool.Close(); _ = listener.Close() })
	return l
}

func (l *LostCommits) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the test has ended
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		var losing atomic.Bool
		go func() { l.toServer(server, client, &losing); _, _ = server.Close(), client.Close() }()
		go func() { toClient(client, server, &losing); _, _ = server.Close(), client.Close() }()
	}
}

// toServer passes the client's messages on, one by one: a length with the start-up parameters first, then a type byte and a
// length each. A simple query "commit" sets losing before it is passed on; nothing else is under way then.
func (l *LostCommits) toServer(server io.Writer, client io.Reader, losing *atomic.Bool) {
	for head := make([]byte, 4); ; head = make([]byte, 5) {
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		if head[0] == 'Q' && len(head) == 5 && bytes.EqualFold(body, []byte("commit\x00")) && l.lose.Add(-1) >= 0 {
			losing.Store(true)
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// toClient passes the server's bytes on. The first ones after losing was set say that the commit was done: they are dropped,
// and with them the connection.
func toClient(client io.Writer, server io.Reader, losing *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || losing.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
