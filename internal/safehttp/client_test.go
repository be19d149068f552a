package safehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func newClient(t *testing.T, o Options) *Client {
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// post sends a small body and returns the answer.
func post(c *Client, url string) (Result, error) {
	return c.Post(context.Background(), url, http.Header{"X-Test": {"1"}}, []byte("body"))
}

func requireError(t *testing.T, err, reason error, text string) {
	t.Helper()
	require.ErrorIs(t, err, reason)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, text, e.Error())
}

func TestPostSendsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, body = r, must(io.ReadAll(r.Body))
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.WriteHeader(202)
		_, _ = w.Write([]byte("thanks"))
	})
	c := newClient(t, Options{Allow: loopback})
	for range 2 {
		r, err := c.Post(context.Background(), s.URL+"/hook?x=1", http.Header{"User-Agent": {"ajo/test"}}, []byte(`{"a":1}`))
		require.NoError(t, err)
		require.Equal(t, 202, r.StatusCode)
		require.Equal(t, "thanks", string(r.Body))
		require.Positive(t, r.Duration)
		require.Equal(t, "POST /hook?x=1", got.Method+" "+got.RequestURI)
		require.Equal(t, `{"a":1}`, string(body))
		require.Equal(t, http.Header{"User-Agent": {"ajo/test"}, "Content-Length": {"7"}}, got.Header, "no cookie, no compression, nothing else")
	}
}

func TestPostRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	c := newClient(t, Options{})
	for _, host := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"} {
		_, err := post(c, "http://"+host+port)
		ip := strings.TrimPrefix(strings.Trim(host, "[]"), "::ffff:")
		requireError(t, err, ErrAddress, "address "+ip+" is not allowed")
	}
	for _, host := range []string{"0177.0.0.1", "2130706433", "0x7f.1", "127.1", "[fe80::1%25lo]", "localhost."} {
		_, err := post(c, "http://"+host+port)
		require.Error(t, err, host)
	}
	_, err := post(c, "http://localhost"+port)
	requireError(t, err, ErrAddress, "the host's address is not allowed")
	require.Zero(t, hits.Load())
}

// The spellings that CheckURL refuses must not get through the dialer either, whatever the system's
// resolver makes of them.
func TestDialerRefusesOddSpellingsByItself(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	c := newClient(t, Options{})
	for _, host := range []string{"0177.0.0.1", "2130706433", "0x7f.1", "0x7f000001", "127.1", "[::1%25lo]", "[fe80::1%25lo]"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		req := must(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+port, http.NoBody))
		_, err := c.transport.RoundTrip(req) //nolint:bodyclose // there is no answer
		cancel()
		require.Error(t, err, host)
	}
	require.Zero(t, hits.Load())
}

func TestNamesAreCheckedWhereTheyLead(t *testing.T) {
	t.Parallel()
	var good, bad atomic.Int32
	var l, elsewhere net.Listener
	var port int
	for elsewhere == nil { // somebody else may have the port at the other address
		l = must(net.Listen("tcp", "127.0.0.2:0"))
		port = l.Addr().(*net.TCPAddr).Port
		var err error
		if elsewhere, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			elsewhere = nil
			_ = l.Close()
		}
	}
	serveOn(t, l, func(http.ResponseWriter, *http.Request) { good.Add(1) })
	serveOn(t, elsewhere, func(http.ResponseWriter, *http.Request) { bad.Add(1) })

	dns := newDNS(t)
	dns.set("private.example.", "10.0.0.1")
	dns.set("loop.example.", "127.0.0.1")
	dns.set("both.example.", "127.0.0.1", "127.0.0.2")
	dns.set("moving.example.", "127.0.0.2")
	c := newClient(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: dns.resolver})
	url := func(name string) string { return fmt.Sprintf("http://%s:%d/", name, port) }

	for _, name := range []string{"private.example", "loop.example"} {
		_, err := post(c, url(name))
		requireError(t, err, ErrAddress, "the host's address is not allowed")
	}
	_, err := post(c, url("missing.example"))
	requireError(t, err, ErrName, "host name does not resolve")

	_, err = post(c, url("both.example"))
	require.NoError(t, err, "of two addresses the allowed one is used")
	require.Equal(t, int32(1), good.Load())

	// The name changes hands: what was good at the first call must be checked again when the next
	// connection is made.
	_, err = post(c, url("moving.example"))
	require.NoError(t, err)
	dns.set("moving.example.", "127.0.0.1")
	_, err = post(c, url("moving.example"))
	require.NoError(t, err, "an open connection still goes to the address that was checked")
	c.transport.CloseIdleConnections()
	_, err = post(c, url("moving.example"))
	requireError(t, err, ErrAddress, "the host's address is not allowed")
	require.Equal(t, int32(3), good.Load())
	require.Zero(t, bad.Load())
}

func TestRedirectIsAnAnswer(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, code) })
		r, err := post(newClient(t, Options{Allow: loopback}), s.URL)
		require.NoError(t, err)
		require.Equal(t, code, r.StatusCode)
	}
	require.Zero(t, hits.Load())
}

func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	var hits atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	_, err := post(newClient(t, Options{}), "http://10.0.0.1/")
	requireError(t, err, ErrAddress, "address 10.0.0.1 is not allowed")
	require.Zero(t, hits.Load())
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("x", 64<<10))
		case "/trickle":
			_, _ = w.Write([]byte("begun"))
			w.(http.Flusher).Flush()
			<-stop
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("cut off"))
		}
	})
	c := newClient(t, Options{Allow: loopback, Timeout: time.Minute})
	r, err := post(c, s.URL+"/large")
	require.NoError(t, err)
	require.Len(t, r.Body, 16<<10)
	_, err = post(c, s.URL+"/headers")
	require.ErrorIs(t, err, ErrAnswer)
	// what has come when the time is up; on a busy machine the status may take longer than that
	for limit := 300 * time.Millisecond; ; limit *= 4 {
		short := newClient(t, Options{Allow: loopback, Timeout: limit})
		if r, err = post(short, s.URL+"/trickle"); !errors.Is(err, ErrTimeout) && len(r.Body) > 0 || limit > time.Minute {
			break
		}
	}
	require.NoError(t, err, "the status has come: that is an answer")
	require.Equal(t, "200 begun", fmt.Sprint(r.StatusCode, " ", string(r.Body)))
	r, err = post(c, s.URL+"/short")
	require.NoError(t, err, "the status has come: that is an answer")
	require.Equal(t, "200 cut off", fmt.Sprint(r.StatusCode, " ", string(r.Body)))
	upgrade := rawServer(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nendless"))
		_, _ = io.Copy(io.Discard, conn)
	})
	r, err = post(c, "http://"+upgrade)
	require.NoError(t, err)
	require.Equal(t, 101, r.StatusCode)
	require.Empty(t, r.Body, "what follows is not HTTP, and is not waited for")
}

func TestFailuresAreFitToShow(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.out.timeout")
	stop := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-stop })
	defer close(stop)
	c := newClient(t, Options{Allow: loopback, Timeout: 200 * time.Millisecond})
	_, err := post(c, s.URL+"/?token=hidden")
	requireError(t, err, ErrTimeout, "timeout after 200ms")
	require.Equal(t, "10 s", seconds(DefaultTimeout))
	c = newClient(t, Options{Allow: loopback, Timeout: time.Minute})

	_, err = post(c, "http://127.0.0.1:1/?token=hidden")
	requireError(t, err, ErrRefused, "connection refused")

	cut := rawServer(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	_, err = post(c, "http://"+cut)
	require.ErrorIs(t, err, ErrCut)
	noise := rawServer(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = conn.Write([]byte("\x00\xffSSH-2.0 hello\r\n\r\n"))
	})
	_, err = post(c, "http://"+noise)
	requireError(t, err, ErrAnswer, "no valid HTTP answer")
	_, err = post(c, "ftp://127.0.0.1/?token=hidden")
	requireError(t, err, ErrURL, "callback URL must begin with https:// or http://")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = c.Post(ctx, s.URL, nil, nil)
	require.Equal(t, context.Canceled, err, "the caller's end is not the receiver's failure")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	quiet := func(h http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		return s
	}
	ok := func(http.ResponseWriter, *http.Request) {}
	s := quiet(ok)
	s.StartTLS()
	t.Cleanup(s.Close)
	c := newClient(t, Options{Allow: loopback, RequireHTTPS: true})
	_, err := post(c, s.URL)
	requireError(t, err, ErrTLS, "certificate is not valid: its issuer is not trusted")

	c.secure.config.RootCAs = x509.NewCertPool()
	c.secure.config.RootCAs.AddCert(s.Certificate())
	r, err := post(c, s.URL)
	require.NoError(t, err)
	require.Equal(t, 200, r.StatusCode)
	_, err = post(c, "https://127.0.0.2"+s.URL[strings.LastIndexByte(s.URL, ':'):])
	require.Error(t, err)

	l := must(net.Listen("tcp", "127.0.0.2:0"))
	wrong := quiet(ok)
	_ = wrong.Listener.Close()
	wrong.Listener = l
	wrong.StartTLS()
	t.Cleanup(wrong.Close)
	_, err = post(c, "https://"+l.Addr().String())
	requireError(t, err, ErrTLS, "certificate is not valid: it is for another host")

	old := quiet(ok)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10} //nolint:gosec // the point of the test
	old.StartTLS()
	t.Cleanup(old.Close)
	_, err = post(c, old.URL)
	requireError(t, err, ErrTLS, "TLS handshake failed")

	plainServer := serve(t, ok)
	_, err = post(c, "https"+plainServer.URL[4:])
	requireError(t, err, ErrTLS, "the server does not speak TLS on this port")
	_, err = post(c, plainServer.URL)
	requireError(t, err, ErrURL, "callback URL must begin with https://")
}

func TestConnectionsPerHostAreBounded(t *testing.T) {
	t.Parallel()
	const limit, calls = 3, 48
	var mu sync.Mutex
	now, most, together := 0, 0, make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mine := together
		if now == limit { // as many as may be are here: let them go, and others come
			now, together = 0, make(chan struct{})
			close(mine)
		}
		mu.Unlock()
		<-mine
		_, _ = io.Copy(w, r.Body)
	})
	c := newClient(t, Options{Allow: loopback, MaxConnsPerHost: limit, Timeout: time.Minute})
	require.Equal(t, limit, c.transport.MaxConnsPerHost)
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			r, err := post(c, s.URL)
			if err != nil || string(r.Body) != "body" {
				t.Errorf("%v %q", err, r.Body)
			}
		})
	}
	wg.Wait()
	require.Equal(t, limit, most)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func serveOn(t *testing.T, l net.Listener, h http.HandlerFunc) {
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// rawServer answers each connection with fn and then closes it.
func rawServer(t *testing.T, fn func(net.Conn)) string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fn(conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
