package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// breaker sends requests that are broken in every way, on connections of their own, and counts what
// they are answered.
type breaker struct {
	p       *paid
	addr    string
	genuine event // sent as it is in the end only
	bomb    []byte

	mu       sync.Mutex
	statuses map[string]map[int]int // by what was broken; 0: no answer
	silent   []string               // kept waiting for an answer or an end, too long
}

// bombSize is what the small bodies inflate to.
const bombSize = 64 << 20

func (p *paid) newBreaker() *breaker {
	var bomb bytes.Buffer
	z, err := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	require.NoError(p.t, err)
	_, err = io.CopyN(z, zeros{}, bombSize)
	require.NoError(p.t, err)
	require.NoError(p.t, z.Close())
	return &breaker{p: p, addr: strings.TrimPrefix(p.apiURL, "http://"), genuine: p.genuine(), bomb: bomb.Bytes(), statuses: map[string]map[int]int{}}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// breakage is one way to be broken: what is sent, and how the connection is left.
type breakage struct {
	name  string
	bytes func(b *breaker, rng *rand.Rand) []byte
	reset bool // cut off, where the others end what they send in good order and wait for an answer
}

// webhook is a request to the bank's webhook with the body, signed as the genuine event's is, and
// other headers.
func (b *breaker) webhook(body []byte, headers string) []byte {
	var all bytes.Buffer
	_ = b.genuine.headers.Write(&all) // into memory
	return fmt.Appendf(nil, "POST /webhooks/provider HTTP/1.1\r\nHost: ajo\r\n%s%s\r\n%s", all.Bytes(), headers, body)
}

// settlement is a request of the tenant's to pay money out, with the body.
func (b *breaker) settlement(body []byte, headers string) []byte {
	return fmt.Appendf(nil, "POST /v1/accounts/shop-1/settle HTTP/1.1\r\nHost: ajo\r\nX-API-Key: %s\r\n%s\r\n%s", b.p.tenant.key, headers, body)
}

func length(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }

const asJSON = "Content-Type: application/json\r\n"

const payoutBody = `{"amount":"1.00","bankCode":"058","accountNumber":"0123456789"}`

var breakages = []breakage{
	{"cut off in the body", func(b *breaker, rng *rand.Rand) []byte {
		body := b.genuine.body
		return b.webhook(body[:rng.IntN(len(body))], length(len(body)))
	}, false},
	{"reset in the body", func(b *breaker, rng *rand.Rand) []byte {
		body := b.genuine.body
		return b.webhook(body[:rng.IntN(len(body))], length(len(body)))
	}, true},
	{"cut off in the header", func(b *breaker, rng *rand.Rand) []byte {
		all := b.webhook(b.genuine.body, length(len(b.genuine.body)))
		return all[:1+rng.IntN(100)]
	}, false},
	{"too short a length", func(b *breaker, rng *rand.Rand) []byte {
		body := b.genuine.body
		return b.webhook(body, length(rng.IntN(len(body))))
	}, false},
	{"a length that is none", func(b *breaker, rng *rand.Rand) []byte {
		bad := []string{"-1", "0x10", "1e3", "+5", "99999999999999999999", "", "5, 5", " "}
		return b.webhook(b.genuine.body[:5], "Content-Length: "+bad[rng.IntN(len(bad))]+"\r\n")
	}, false},
	{"two lengths", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook(b.genuine.body[:9], length(9)+length(2))
	}, false},
	{"length and chunks", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook([]byte("2\r\n{}\r\n0\r\n\r\n"), length(4)+"Transfer-Encoding: chunked\r\n")
	}, false},
	{"broken chunks", func(b *breaker, rng *rand.Rand) []byte {
		bad := []string{"zz\r\n{}", "ffffffffffffffff\r\n{}", "-2\r\n{}\r\n", "5\r\n{}\r\n0\r\n\r\n", "2\r\n{}", "2\r\n{}\r\n", "2;x=y\r\n{}0\r\n\r\n", "7fffffffffffffff\r\n{", "\r\n"}
		return b.webhook([]byte(bad[rng.IntN(len(bad))]), "Transfer-Encoding: chunked\r\n")
	}, false},
	{"unknown transfer encoding", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook([]byte("2\r\n{}\r\n0\r\n\r\n"), "Transfer-Encoding: gzip, identity\r\n")
	}, false},
	{"huge by its length", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook([]byte("{"), "Content-Length: 10000000000\r\n")
	}, false},
	{"huge", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook(bytes.Repeat([]byte("["), 600<<10), length(600<<10))
	}, false},
	{"huge in chunks", func(b *breaker, _ *rand.Rand) []byte {
		chunk := append(append([]byte("8000\r\n"), bytes.Repeat([]byte(" "), 0x8000)...), "\r\n"...)
		return b.webhook(bytes.Repeat(chunk, 64), "Transfer-Encoding: chunked\r\n")
	}, false},
	{"a gzip bomb as an event", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook(b.bomb, length(len(b.bomb))+"Content-Encoding: gzip\r\n")
	}, false},
	{"a gzip bomb as a settlement", func(b *breaker, _ *rand.Rand) []byte {
		return b.settlement(b.bomb, asJSON+length(len(b.bomb))+"Content-Encoding: gzip\r\n")
	}, false},
	{"false encoding", func(b *breaker, rng *rand.Rand) []byte {
		names := []string{"gzip", "br", "zstd", "deflate, gzip", "identity", "x"}
		return b.settlement([]byte(payoutBody), asJSON+length(len(payoutBody))+"Content-Encoding: "+names[rng.IntN(len(names))]+"\r\n")
	}, false},
	{"UTF-16", func(b *breaker, _ *rand.Rand) []byte {
		var body []byte
		for _, u := range utf16.Encode([]rune(payoutBody)) {
			body = append(body, byte(u), byte(u>>8))
		}
		return b.settlement(body, asJSON+length(len(body)))
	}, false},
	{"a settlement that is cut off", func(b *breaker, rng *rand.Rand) []byte {
		return b.settlement([]byte(payoutBody)[:rng.IntN(len(payoutBody))], asJSON+length(len(payoutBody)))
	}, false},
	{"a settlement that is no JSON", func(b *breaker, rng *rand.Rand) []byte {
		body := []byte(payoutBody)[:rng.IntN(len(payoutBody))]
		return b.settlement(body, asJSON+length(len(body)))
	}, false},
	{"a settlement in another form", func(b *breaker, _ *rand.Rand) []byte {
		const form = "amount=1.00&bankCode=058&accountNumber=0123456789"
		return b.settlement([]byte(form), "Content-Type: application/x-www-form-urlencoded\r\n"+length(len(form)))
	}, false},
	{"a byte changed", func(b *breaker, rng *rand.Rand) []byte {
		body := bytes.Clone(b.genuine.body)
		at := bytes.Index(body, []byte(`"requestId"`)) + 14
		body[at+rng.IntN(8)] = "0123456789abcdef"[rng.IntN(16)] ^ 0x40
		return b.webhook(body, length(len(body)))
	}, false},
	{"random bytes", func(_ *breaker, rng *rand.Rand) []byte {
		raw := make([]byte, 1+rng.IntN(4096))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		return raw
	}, false},
	{"TLS", func(*breaker, *rand.Rand) []byte {
		return append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 505)...)
	}, false},
	{"a header without end", func(*breaker, *rand.Rand) []byte {
		return append([]byte("GET / HTTP/1.1\r\nHost: ajo\r\nX-Long: "), bytes.Repeat([]byte("a"), 64<<10)...)
	}, false},
	{"no such version", func(*breaker, *rand.Rand) []byte { return []byte("POST /webhooks/provider HTTP/9.9\r\n\r\n") }, false},
	{"a waiting client", func(b *breaker, _ *rand.Rand) []byte {
		return b.webhook(nil, length(10)+"Expect: 100-continue\r\n")
	}, false},
}

// send sends n requests, the ways one after the other, a few at a time.
func (b *breaker) send(n int) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range next {
				way := breakages[i%len(breakages)]
				b.count(way.name, b.one(way, rand.New(rand.NewPCG(1, uint64(i)))))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func (b *breaker) count(name string, statuses []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.statuses[name] == nil {
		b.statuses[name] = map[int]int{}
	}
	for _, s := range statuses {
		b.statuses[name][s]++
	}
}

// one sends one broken request and returns what it was answered; 0 when the connection ended
// without an answer.
func (b *breaker) one(way breakage, rng *rand.Rand) (statuses []int) {
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		return []int{-1}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(heldLimit))
	_, _ = conn.Write(way.bytes(b, rng)) // the server may have had enough before its end
	tcp := conn.(*net.TCPConn)
	if way.reset {
		_ = tcp.SetLinger(0)
		return []int{0}
	}
	_ = tcp.CloseWrite()
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.mu.Lock()
			b.silent = append(b.silent, way.name)
			b.mu.Unlock()
		}
		if err != nil {
			break
		}
		statuses = append(statuses, resp.StatusCode)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if len(statuses) == 0 {
		statuses = []int{0}
	}
	return statuses
}

// check fails the test when a broken request met a fault of ours, or was kept waiting; and the
// event that they were made of is taken all the same.
func (b *breaker) check() {
	t := b.p.t
	t.Helper()
	require.Len(t, b.statuses, len(breakages))
	require.Empty(t, b.silent, "neither answered nor ended")
	for name, statuses := range b.statuses {
		t.Logf("%s: %v", name, statuses)
		for status := range statuses {
			require.True(t, status >= 0 && status < 500, "%s: %v", name, statuses)
		}
	}
	b.p.sends(b.genuine.body, b.genuine.headers)
}
