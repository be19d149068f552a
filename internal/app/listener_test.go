package app

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// shortListener has no descriptor for the first connections that it is asked for.
type shortListener struct {
	net.Listener
	short int
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.short--; l.short >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// serve runs a server behind a listener with a limit; block is where its handler waits, with the
// path /wait.
func serve(t *testing.T, limit, short int, block chan struct{}) (addr string) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/wait" {
			<-block
		}
	}}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(newListener(&shortListener{tcp, short}, limit)) }()
	t.Cleanup(func() {
		require.NoError(t, tcp.Close())
		require.NoError(t, <-ended)
	})
	return tcp.Addr().String()
}

func send(t *testing.T, addr, text string) net.Conn {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

func answered(t *testing.T, c net.Conn) {
	t.Helper()
	b := make([]byte, 12)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", string(b))
}

const whole = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// A process without a descriptor for the next connection goes on accepting.
func TestListenerWithoutDescriptors(t *testing.T) {
	answered(t, send(t, serve(t, 10, 3, nil), whole))
}

// When connections are as many as may be, the one that keeps the server waiting longest goes; one
// whose request is being worked on stays, though it came first.
func TestListenerMakesRoom(t *testing.T) {
	block := make(chan struct{})
	addr := serve(t, 3, 0, block)
	working := send(t, addr, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	slow := send(t, addr, "GET / HTTP/1.1\r\nHo")
	idle := send(t, addr, whole)
	answered(t, idle)
	answered(t, send(t, addr, whole))
	_, err := slow.Read(make([]byte, 1))
	require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
	answered(t, send(t, addr, whole))
	close(block)
	answered(t, working)
}

func TestConnLimit(t *testing.T) {
	var r syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r))
	got := connLimit()
	require.Positive(t, got)
	require.LessOrEqual(t, got, maxConns)
	require.Less(t, uint64(got), r.Cur)
}
