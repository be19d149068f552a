package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// next is the request that stands behind each of those below. It must never be taken for one of its
// own.
const next = "GET /health HTTP/1.1\r\nHost: next\r\n\r\n"

// doubtfulFields are header fields that two servers can read in different ways.
func doubtfulFields() map[string]string {
	m := map[string]string{
		"both lengths":               "Content-Length: 4\r\nTransfer-Encoding: chunked",
		"both lengths, other order":  "Transfer-Encoding: chunked\r\nContent-Length: 4",
		"both, length 0":             "Content-Length: 0\r\nTransfer-Encoding: chunked",
		"two lengths":                "Content-Length: 5\r\nContent-Length: 0",
		"two equal lengths":          "Content-Length: 5\r\nContent-Length: 5",
		"a list of lengths":          "Content-Length: 5, 5",
		"a negative length":          "Content-Length: -5",
		"a length with a plus":       "Content-Length: +5",
		"a hexadecimal length":       "Content-Length: 0x5",
		"an exponent":                "Content-Length: 5e0",
		"a fraction":                 "Content-Length: 5.0",
		"an underscore in a length":  "Content-Length: 1_0",
		"no length":                  "Content-Length:",
		"a blank in the length":      "Content-Length: 5 5",
		"an enormous length":         "Content-Length: 18446744073709551621",
		"another script's digits":    "Content-Length: ٥",
		"a quoted length":            `Content-Length: "5"`,
		"a semicolon in the length":  "Content-Length: 5;a=b",
		"a space before the colon":   "Transfer-Encoding : chunked",
		"and before a length's":      "Content-Length : 5",
		"and before any other":       "X-Any : chunked",
		"a tab before the colon":     "Transfer-Encoding\t: chunked",
		"a folded line":              "X-Any: a\r\n Transfer-Encoding: chunked",
		"a folded value":             "Transfer-Encoding:\r\n chunked",
		"a folded value, by tab":     "Transfer-Encoding:\r\n\tchunked",
		"a folded length":            "Content-Length:\r\n 5",
		"a space before the name":    " Transfer-Encoding: chunked",
		"a bare LF":                  "X-Any: a\nTransfer-Encoding: chunked",
		"a bare LF in the value":     "Transfer-Encoding:\nchunked",
		"a bare CR":                  "X-Any: a\rTransfer-Encoding: chunked",
		"CR CR LF":                   "Transfer-Encoding: chunked\r\r\nX-Any: a",
		"LF CR":                      "X-Any: a\n\rTransfer-Encoding: chunked",
		"identity":                   "Transfer-Encoding: identity",
		"identity with a length":     "Transfer-Encoding: identity\r\nContent-Length: 5",
		"chunked, identity":          "Transfer-Encoding: chunked, identity",
		"identity, chunked":          "Transfer-Encoding: identity, chunked",
		"gzip, chunked":              "Transfer-Encoding: gzip, chunked",
		"chunked twice in one":       "Transfer-Encoding: chunked, chunked",
		"chunked twice":              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"chunked and another":        "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
		"another and chunked":        "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
		"an empty encoding":          "Transfer-Encoding:",
		"an empty one and chunked":   "Transfer-Encoding:\r\nTransfer-Encoding: chunked",
		"a comma before":             "Transfer-Encoding: ,chunked",
		"a comma behind":             "Transfer-Encoding: chunked,",
		"a parameter":                "Transfer-Encoding: chunked;a=b",
		"in quotes":                  `Transfer-Encoding: "chunked"`,
		"in apostrophes":             "Transfer-Encoding: 'chunked'",
		"cut short":                  "Transfer-Encoding: chunk",
		"too long":                   "Transfer-Encoding: chunkedx",
		"unknown":                    "Transfer-Encoding: xchunked",
		"a name in two words":        "Transfer Encoding: chunked",
		"an underscore in the name":  "Transfer_Encoding: chunked",
		"and in the length's":        "Content_Length: 5",
		"no colon":                   "Transfer-Encoding chunked",
		"no name":                    ": chunked",
		"no colon and no value":      "X-Any",
		"two hosts":                  "Host: b\r\nContent-Length: 5",
		"a name that is not ASCII":   "Transf\x82r-Encoding: chunked",
		"a value that is not ASCII":  "Transfer-Encoding: ch\x96nked",
		"a long s":                   "Tranſfer-Encoding: chunked",
		"a Kelvin sign":              "Transfer-Encoding: chun\u212aed",
		"a no-break space":           "Transfer-Encoding:\u00a0chunked",
		"a name in parentheses":      "(Transfer-Encoding): chunked",
		"a name in quotes":           `"Transfer-Encoding": chunked`,
		"a slash in a name":          "X/Any: chunked",
		"an escaped line":            "X-Any: a\x00\r\nTransfer-Encoding: chunked",
		"a length in HTTP/1.1 twice": "content-length: 5\r\nCONTENT-LENGTH: 0",
	}
	for _, b := range []byte{0x00, 0x01, 0x04, 0x08, 0x0b, 0x0c, 0x0d, 0x1b, 0x1f, 0x7f} {
		for where, field := range map[string]string{
			"before the name": "%cTransfer-Encoding: chunked", "in the name": "Transfer%c-Encoding: chunked",
			"before the colon": "Transfer-Encoding%c: chunked", "before the value": "Transfer-Encoding:%cchunked",
			"in the value": "Transfer-Encoding: chu%cnked", "behind the value": "Transfer-Encoding: chunked%c",
			"behind a length": "Content-Length: 5%c", "before a length": "Content-Length:%c5",
			"between two fields": "X-Any: X%cTransfer-Encoding: chunked",
		} {
			m[fmt.Sprintf("byte %02x %s", b, where)] = fmt.Sprintf(field, b)
		}
	}
	return m
}

// doubtful are whole requests of the same kind.
var doubtful = map[string]string{
	"no host":                      "GET /health HTTP/1.1\r\n\r\n",
	"an empty host":                "GET /health HTTP/1.1\r\nHost:\r\n\r\n",
	"chunked in HTTP/1.0":          "POST /register HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two spaces in the first line": "GET  /health HTTP/1.1\r\nHost: x\r\n\r\n",
	"two before the version":       "GET /health  HTTP/1.1\r\nHost: x\r\n\r\n",
	"a space in the path":          "GET /health HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
	"a tab in the first line":      "GET\t/health HTTP/1.1\r\nHost: x\r\n\r\n",
	"a tab in the path":            "GET /health\t HTTP/1.1\r\nHost: x\r\n\r\n",
	"NUL in the path":              "GET /hea\x00lth HTTP/1.1\r\nHost: x\r\n\r\n",
	"CR in the path":               "GET /health\rX HTTP/1.1\r\nHost: x\r\n\r\n",
	"a space before the method":    " GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
	"a space behind the version":   "GET /health HTTP/1.1 \r\nHost: x\r\n\r\n",
	"CR CR LF in the first line":   "GET /health HTTP/1.1\r\r\nHost: x\r\n\r\n",
	"no version":                   "GET /health\r\nHost: x\r\n\r\n",
	"a version in lower case":      "GET /health http/1.1\r\nHost: x\r\n\r\n",
	"a version with zeros":         "GET /health HTTP/01.1\r\nHost: x\r\n\r\n",
	"a version with a plus":        "GET /health HTTP/1.+1\r\nHost: x\r\n\r\n",
	"a path without a slash":       "GET health HTTP/1.1\r\nHost: x\r\n\r\n",
	"headers that end with LF LF":  "GET /health HTTP/1.1\r\nHost: x\n\n",
	"headers that end with LF":     "GET /health HTTP/1.1\r\nHost: x\r\n\n",
	"a folded first field":         "GET /health HTTP/1.1\r\n Host: x\r\n\r\n",
}

// chunks are bodies of a chunked request in which a chunk's end is in doubt, or which bring fields
// behind them.
var chunks = map[string]string{
	"a size with 0x":            "0x5\r\nhello\r\n0\r\n\r\n",
	"a size with a plus":        "+5\r\nhello\r\n0\r\n\r\n",
	"a negative size":           "-5\r\nhello\r\n0\r\n\r\n",
	"a size in quotes":          "\"5\"\r\nhello\r\n0\r\n\r\n",
	"no size":                   "\r\nhello\r\n0\r\n\r\n",
	"a space before the size":   " 5\r\nhello\r\n0\r\n\r\n",
	"an underscore in the size": "1_0\r\nhellohellohelloh\r\n0\r\n\r\n",
	"a huge size":               "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
	"a size that wraps":         "10000000000000005\r\nhello\r\n0\r\n\r\n",
	"LF behind the size":        "5\nhello\r\n0\r\n\r\n",
	"CR behind the size":        "5\rhello\r\n0\r\n\r\n",
	"CR CR LF behind the size":  "5\r\r\nhello\r\n0\r\n\r\n",
	"LF in an extension":        "5;a\nhello\r\n0\r\n\r\n",
	"CR in an extension":        "5;a\rb\r\nhello\r\n0\r\n\r\n",
	"NUL behind the size":       "5\x00\r\nhello\r\n0\r\n\r\n",
	"a word behind the size":    "5 a\r\nhello\r\n0\r\n\r\n",
	"a comma behind the size":   "5,5\r\nhello\r\n0\r\n\r\n",
	"LF behind the chunk":       "5\r\nhello\n0\r\n\r\n",
	"nothing behind the chunk":  "5\r\nhello0\r\n\r\n",
	"too much in the chunk":     "5\r\nhello!\r\n0\r\n\r\n",
	"two bytes for the end":     "5\r\nhelloXX0\r\n\r\n",
	"LF behind the last size":   "5\r\nhello\r\n0\n\r\n",
	"a last size with 0x":       "0x0\r\n\r\n",
	"a trailer":                 "5\r\nhello\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
	"a trailer with a key":      "5\r\nhello\r\n0\r\nX-API-Key: a\r\n\r\n",
	"a trailer with a length":   "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
	"a trailer without a name":  "5\r\nhello\r\n0\r\n: a\r\n\r\n",
	"a folded trailer":          "5\r\nhello\r\n0\r\nX-Any: a\r\n b\r\n\r\n",
}

// answers sends bytes, with the next request behind them, and returns the statuses of all that is
// answered until the server closes the connection.
func (w *world) answers(t *testing.T, request string) (statuses []int) {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, request+next)
	require.NoError(t, err)
	for r := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
			return statuses
		}
		require.NoError(t, err, "the server did not close the connection; answered so far: %v", statuses)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		statuses = append(statuses, resp.StatusCode)
		if resp.StatusCode == 400 {
			require.JSONEq(t, `{"error":"bad request"}`, string(b), "%q", request)
			require.True(t, resp.Close, "%q: the answer announces the end", request)
		}
	}
}

// What a proxy may end in another place than this server does is refused, and nothing behind it is
// read.
func TestRequestSmuggling(t *testing.T) {
	w := setup(t)
	refused := func(t *testing.T, kind, name, request string) {
		t.Helper()
		require.Equal(t, []int{400}, w.answers(t, request), "%s: %s: %q", kind, name, request)
	}
	for name, fields := range doubtfulFields() {
		refused(t, "field", name, "POST /register HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
		refused(t, "field before the host", name, "POST /register HTTP/1.1\r\n"+fields+"\r\nHost: x\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
		refused(t, "expected", name, "POST /register HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+fields+"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
		refused(t, "GET", name, "GET /health HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n\r\n0\r\n\r\n")
	}
	for name, request := range doubtful {
		refused(t, "request", name, request)
	}
	for name, body := range chunks {
		refused(t, "chunks", name, "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
	}
}

// Two published collections have 668 cases (defparam/smuggler, exhaustive) and 57 for HTTP/1.1
// (PortSwigger/http-request-smuggler): here are those that are not above, beside a length. Two of
// all are good requests, and are served as such: a Content-Encoding of chunked, and a name with a
// percent sign.
func TestPublishedSmuggling(t *testing.T) {
	w := setup(t)
	fields := []string{
		"Transfer-Encoding\t:\tchunked", "Transfer Encoding:chunked", "Transfer-Encoding:  chunked", "Transfer-Encoding: chunked, cow", "Transfer-Encoding: cow, chunked",
		"TrAnSFer-EnCODinG: cHuNkeD", "TRANSFER-ENCODING: CHUNKED", "Transfer-Encoding: cow chunked bar", "X:X\rTransfer-Encoding: chunked", "X:X\nTransfer-Encoding: chunked",
		"Transfer-Encoding\n : chunked", "Transfer-Encoding: \n\x0bchunked", "X: a\r\n\rTransfer-Encoding: chunked", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding x: chunked", `Transfer\Encoding: chunked`, "X: a\n\nTransfer-Encoding: chunked", "Transfer-Encoding: identity, chunked, identity",
		"X: a\r\n\tTransfer-Encoding: chunked", "Transfer-Encoding: \r\n\tchunked",
	}
	for b := 1; b < 0x100; b++ {
		if b < ' ' || b > '~' {
			c := string([]byte{byte(b)})
			fields = append(fields, "Transfer-Encoding:"+c+"chunked", "Transfer-Encoding"+c+": chunked", c+"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"+c)
		}
	}
	require.Len(t, fields, 20+4*(31+129))
	const length = "\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
	for _, field := range fields {
		require.Equal(t, []int{400}, w.answers(t, "POST /register HTTP/1.1\r\n"+field+length), "%q", field)
	}
	for _, field := range []string{"Content-Encoding: chunked", "Transfer-%45ncoding: chunked"} {
		got := w.answers(t, "POST /register HTTP/1.1\r\n"+field+"\r\nConnection: close"+length)
		require.Len(t, got, 1, "%q", field)
	}
}

// What can be read in one way only is served, and the connection goes on.
func TestPlainFraming(t *testing.T) {
	w := setup(t)
	for name, request := range map[string]string{
		"no body":             "GET /health HTTP/1.1\r\nHost: x\r\n",
		"lower case":          "GET /health HTTP/1.1\r\nhost: x\r\naccept: */*\r\n",
		"no space":            "GET /health HTTP/1.1\r\nHost:x\r\nX-Any:\r\n",
		"tabs around a value": "GET /health HTTP/1.1\r\nHost:\tx\t\r\nX-Any: a\tb \r\n",
		"UTF-8 in a value":    "GET /health HTTP/1.1\r\nHost: x\r\nX-Any: ọ\r\n",
		"all of a token":      "GET /health HTTP/1.1\r\nHost: x\r\n" + tokenBytes + "09azAZ: a\r\n",
		"a length":            "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"a length of 0":       "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n",
		"chunked":             "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"CHUNKED":             "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\ntransfer-encoding:\tCHUNKED\r\n\r\n5\r\nhello\r\n00\r\n\r\n",
		"an extension":        "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n",
		"a trailer announced": "POST /webhooks/provider HTTP/1.1\r\nHost: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"an empty line first": "\r\nGET /health HTTP/1.1\r\nHost: x\r\n",
	} {
		if !strings.Contains(request, "\r\n\r\n") {
			request += "\r\n"
		}
		last := strings.Replace(next, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		require.Equal(t, []int{200, 200}, w.answers(t, request+last), "%s: %q", name, request)
	}
}

// The check costs a fraction of a microsecond, where a request takes dozens.
func BenchmarkFraming(b *testing.B) {
	const raw = "Host: api.example.com\r\nUser-Agent: client/1.0\r\nAccept: application/json\r\nContent-Type: application/json\r\n" +
		"X-API-Key: ajo_0123456789012345678901234567890123456789012345678\r\nIdempotency-Key: 5cb0a3a4-3d36-4a3c-9c44-4b3d6a2a52f4\r\n" +
		"Content-Length: 120\r\nAccept-Encoding: gzip\r\n\r\n"
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !framed([]byte(raw), true) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		var h fasthttp.RequestHeader
		r := bufio.NewReader(nil)
		for b.Loop() {
			r.Reset(strings.NewReader("POST /v1/accounts HTTP/1.1\r\n" + raw))
			if err := h.Read(r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
