package api

import (
	"bytes"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// A proxy in front and this server must agree on where a request ends. If a header can be read in
// two ways, bytes that are a body for one of them are the next request for the other, with the
// credentials of whoever uses that connection next. So everything that RFC 9112 calls faulty
// framing gets 400, and the connection is closed before the body is read. fasthttp refuses much of
// it by itself; what it accepts leniently is refused here.

const (
	// unframed replaces the method of a refused request. It is not a token, so no client can send
	// it.
	unframed = "not framed"
	// endOfHeaders is added after the last header field of a chunked request. fasthttp appends the
	// trailer's fields, so a field after it is a trailer. The name is not a token either.
	endOfHeaders = "end of headers"
)

// refuseBadFraming adds the check to the application's server.
func (e *edge) refuseBadFraming(app *fiber.App) {
	server := app.Server()
	server.HeaderReceived = func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
		switch {
		case !framed(h.RawHeaders(), h.IsHTTP11()):
			h.SetMethod(unframed)
			h.SetContentLength(0) // nothing more is read
			h.Del(fiber.HeaderExpect)
			h.SetConnectionClose()
		case h.ContentLength() == -1:
			h.Add(endOfHeaders, "")
		}
		return fasthttp.RequestConfig{}
	}
	known := server.Handler
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Method()) != unframed && !hasTrailer(&ctx.Request.Header) {
			known(ctx)
			return
		}
		c := app.AcquireCtx(ctx)
		defer app.ReleaseCtx(c)
		if err := e.connectionError(c, fiber.ErrBadRequest); err != nil {
			ctx.SetStatusCode(fiber.StatusInternalServerError)
		}
	}
}

// hasTrailer reports whether a chunked request has fields after its body. They would count as
// headers that a proxy did not check.
func hasTrailer(h *fasthttp.RequestHeader) bool {
	if h.ContentLength() != -1 {
		return false
	}
	ended, trailer := false, false
	for name := range h.All() {
		// which All adds at the end
		trailer = trailer || ended && !isWord(name, fiber.HeaderConnection)
		ended = ended || isWord(name, endOfHeaders)
	}
	h.Del(endOfHeaders)
	return trailer
}

// framed reports whether the raw header fields can be read in one way only. A line ends with CR LF
// and is not folded; a name is a token directly before its colon; a value has no control character
// except the tab. There is exactly one Host, and at most one of Content-Length, which is digits,
// and Transfer-Encoding, which is chunked and needs HTTP/1.1.
func framed(raw []byte, http11 bool) bool {
	var hosts, lengths, encodings int
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' {
			return false
		}
		line := raw[:end-1]
		raw = raw[end+1:]
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 1 || !isToken(line[:colon]) || !isFieldValue(line[colon+1:]) {
			return false
		}
		value := bytes.Trim(line[colon+1:], " \t")
		switch name := line[:colon]; {
		case isWord(name, "Host"):
			hosts++
		case isWord(name, "Content-Length"):
			lengths++
			if !isDigits(value) {
				return false
			}
		case isWord(name, "Transfer-Encoding"):
			encodings++
			if !http11 || !isWord(value, "chunked") {
				return false
			}
		case isWord(name, "Content_Length"), isWord(name, "Transfer_Encoding"): // the same to gateways that make variables of headers
			return false
		}
	}
	return lengths+encodings <= 1 && (hosts == 1 || hosts == 0 && !http11)
}

// isWord compares ASCII letters without case.
func isWord(s []byte, want string) bool {
	if len(s) != len(want) {
		return false
	}
	for i, b := range s {
		if b != want[i] && (b|0x20 != want[i]|0x20 || b|0x20 < 'a' || b|0x20 > 'z') {
			return false
		}
	}
	return true
}

// tokenBytes are the bytes of a token other than letters and digits (RFC 9110, section 5.6.2).
const tokenBytes = "!#$%&'*+-.^_`|~"

var inToken = func() (in [256]bool) {
	for b := range in {
		c := byte(b)
		in[b] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte(tokenBytes, c) >= 0
	}
	return in
}()

func isToken(s []byte) bool {
	for _, b := range s {
		if !inToken[b] {
			return false
		}
	}
	return true
}

func isFieldValue(s []byte) bool {
	for _, b := range s {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

func isDigits(s []byte) bool {
	for _, b := range s {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(s) > 0
}
