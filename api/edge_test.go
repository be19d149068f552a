package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/contract"
	"ajo/internal/spec"
)

// raw sends bytes over a connection of its own and reads the answer.
func (w *world) raw(request string) reply {
	w.T.Helper()
	c, err := net.Dial("tcp", w.addr)
	require.NoError(w.T, err)
	defer func() { _ = c.Close() }()
	require.NoError(w.T, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, request)
	require.NoError(w.T, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(w.T, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.T, err)
	require.NoError(w.T, description().CheckStray("", contract.Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}))
	return reply{w.T, resp.StatusCode, resp.Header, string(b)}
}

// The framework's own refusals have our body too, and the headers of every answer.
func TestWhatNeverBecomesARequest(t *testing.T) {
	w := setup(t)
	w.raw("BREW /health HTTP/1.1\r\nHost: x\r\n\r\n").refused(405, "method not allowed")
	w.raw("GET /health\r\n\r\n").refused(400, "bad request")
	w.raw("\x16\x03\x01\x02\x00\x01\r\n\r\n").refused(400, "bad request")
	w.raw("GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a", maxHeader)+"\r\n\r\n").refused(431, "request header fields too large")
	w.raw("POST /register HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n").refused(413, "request body too large")
	w.raw("POST /register HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").refused(400, "bad request")
}

func TestBodySize(t *testing.T) {
	spec.Shows(t, "limit.body", "event.in.413")
	w := setup(t)
	pad := func(n int) string { return `{"name":"` + strings.Repeat("a", n-len(`{"name":""}`)) + `"}` }
	w.do("POST", "/register", pad(maxBody)).refused(400, "name must be at most 200 characters")
	w.do("POST", "/register", pad(maxBody+1)).refused(413, "request body too large")
	w.do("POST", "/register", pad(maxRead)).refused(413, "request body too large")
	w.do("POST", "/webhooks/provider", pad(maxBody+1)).refused(413, "request body too large")
	w.do("POST", "/webhooks/provider", pad(maxBody)).ok(200, nil)
}

// An endpoint that reads no body refuses one that breaks the rules for bodies: whoever sends that
// means something else, and some of these endpoints end a thing for good.
func TestABodyThatIsNotRead(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", bodies["/v1/accounts"], m.withKey()...).ok(201, nil)
	found := 0
	for _, r := range Routes {
		if r.Method == "GET" || r.Credential == Signature || description().Find(r.Method, &url.URL{Path: path(r)}).Body != nil {
			continue
		}
		found++
		h := m.withSession()
		if r.Credential == Key {
			h = m.withKey()
		}
		w.do(r.Method, path(r), "x", append(h, "Content-Type", "text/plain")...).refused(415, "Content-Type must be application/json")
		w.do(r.Method, path(r), "{}", append(h, "Content-Type", "")...).refused(415, "Content-Type must be application/json")
		w.do(r.Method, path(r), "{}", append(h, "Content-Encoding", "gzip")...).refused(415, "Content-Encoding is not supported")
		w.do(r.Method, path(r), "{"+strings.Repeat(" ", maxBody)+"}", h...).refused(413, "request body too large")
	}
	require.Equal(t, 17, found)
	w.ask("GET", "/v1/accounts/shop-1", "", 200, m.withKey()).has(t, fields{"Status": "active"})
	w.do("POST", "/auth/webhook-secret", "{}", m.withKey()...).ok(200, nil)
	for _, h := range []header{{"Content-Type", "text/plain"}, {"Content-Encoding", "gzip"}} { // of no body
		w.do("POST", "/auth/webhook-secret", "", append(m.withSession(), h...)...).ok(200, nil)
	}
}

// A body that would inflate to 100 MiB is refused, and nothing is inflated.
func TestGzipBomb(t *testing.T) {
	w := setup(t)
	member := func(text []byte) []byte { // members one after the other inflate to one text
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close()
		return b.Bytes()
	}
	bomb := string(append(member([]byte(`{"name":"`)), bytes.Repeat(member(bytes.Repeat([]byte("a"), 1<<20)), 100)...))
	least := uint64(math.MaxUint64) // tests beside this one allocate too, which only adds
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, encoding := range []string{"gzip", "deflate", "br", "gzip, gzip"} {
			w.do("POST", "/register", bomb, "Content-Encoding", encoding).refused(415, "Content-Encoding is not supported")
			w.do("POST", "/webhooks/provider", bomb, "Content-Encoding", encoding).ok(200, nil)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	require.Less(t, least, uint64(64<<20))
}

func TestRequestID(t *testing.T) {
	w := setup(t)
	require.Equal(t, "my-id_1.2:3", w.do("GET", "/health", "", "X-Request-ID", "my-id_1.2:3").Header.Get("X-Request-ID"))
	for _, bad := range []string{"", "a b", "<script>", strings.Repeat("a", 129), "ọ"} {
		got := w.do("GET", "/health", "", "X-Request-ID", bad).Header.Get("X-Request-ID")
		_, err := uuid.Parse(got)
		require.NoError(t, err, "%q became %q", bad, got)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	w := setup(t)
	r := w.do("GET", "/health", "").ok(200, nil)
	require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", r.Header.Get("Referrer-Policy"))
	require.Equal(t, "default-src 'none'; frame-ancestors 'none'", r.Header.Get("Content-Security-Policy"))
	require.Empty(t, r.Header.Get("Strict-Transport-Security"))
	require.Empty(t, r.Header.Get("Server"))
	require.Empty(t, r.Header.Get("RateLimit-Limit"))
	head := w.do("HEAD", "/health", "")
	require.Equal(t, 200, head.Status)
	require.Empty(t, head.Body)
}

func TestProduction(t *testing.T) {
	w := setup(t, func(o *Options) { o.Production = true })
	require.Equal(t, "max-age=31536000", w.do("GET", "/health", "").Header.Get("Strict-Transport-Security"))
	m := w.onboard()
	r := w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, m.email, password))
	require.Contains(t, r.Header.Get("Set-Cookie"), "; secure")
}

func TestReadiness(t *testing.T) {
	w := setup(t, func(o *Options) {
		o.Ready = readyWith(nil, io.ErrUnexpectedEOF)
	})
	r := w.do("GET", "/ready", "")
	require.Equal(t, 503, r.Status)
	golden(t, "ready-not", r)
	w.log.Has(t, io.ErrUnexpectedEOF.Error())
	w.do("GET", "/health", "").ok(200, nil)
}

// A panic is a 500 like any other, its text goes to the log, and the server goes on.
func TestPanic(t *testing.T) {
	w := setup(t, func(o *Options) { o.Ready = nil })
	w.do("GET", "/ready", "").refused(500, "internal error")
	w.log.Has(t, "panic: ")
	w.do("GET", "/health", "").ok(200, nil)
}

// Nothing that Fiber lends is kept: references of many requests at once do not get mixed up.
func TestBuffersAreNotShared(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			ref := fmt.Sprintf("%s-%d", strings.Repeat(string(rune('a'+i%26)), 1+i*3), i)
			var got struct{ AccountRef, BankAccountName string }
			name := strings.Repeat(string(rune('A'+i%26)), 10+i)
			w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":%q}`, ref, name), m.withKey()...).ok(201, &got)
			require.Equal(t, ref, got.AccountRef)
			require.Equal(t, name, got.BankAccountName)
			w.do("GET", "/v1/accounts/"+ref, "", m.withKey()...).ok(200, &got)
			require.Equal(t, ref, got.AccountRef)
			require.Equal(t, name, got.BankAccountName)
		})
	}
	wg.Wait()
}

// A reference may have any printable character but the slash, and is found again under its escaped
// form.
func TestReferencesInPaths(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for ref, path := range map[string]string{
		"a b":       "a%20b",
		"ọ":         "%E1%BB%8D",
		"a:b.c-d":   "a:b.c-d",
		"50%":       "50%25",
		"a?b#c":     "a%3Fb%23c",
		"a+b":       "a+b",
		"balance":   "balance",
		"*":         "*",
		":x":        ":x",
		"A":         "A",
		"statement": "statement",
	} {
		var got struct{ AccountRef string }
		w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), m.withKey()...).ok(201, nil)
		w.do("GET", "/v1/accounts/"+path, "", m.withKey()...).ok(200, &got)
		require.Equal(t, ref, got.AccountRef)
		w.do("GET", "/v1/accounts/"+path+"/balance", "", m.withKey()...).ok(200, &got)
		require.Equal(t, ref, got.AccountRef)
	}
	w.do("GET", "/v1/accounts/a", "", m.withKey()...).refused(404, "account not found")
	for _, ref := range []string{".", ".."} { // which clients remove from a path, also where they are escaped
		w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), m.withKey()...).refused(400, "externalRef must not be . or ..: it cannot be used in a URL")
	}
}

// The routes that Fiber knows are the rows of Routes, and HEAD for each GET.
func TestRoutesAreAllThereIs(t *testing.T) {
	w := setup(t)
	want := map[string]bool{}
	for _, r := range Routes {
		want[r.Method+" "+r.Path] = true
		if r.Method == fiber.MethodGet {
			want["HEAD "+r.Path] = true
		}
		require.NotEmpty(t, r.Credential.String())
	}
	got := map[string]bool{}
	for _, r := range New(w.opts).GetRoutes(true) {
		got[r.Method+" "+r.Path] = true
	}
	require.Equal(t, want, got)
}
