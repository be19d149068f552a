// Package safehttp is the outbound HTTP client for addresses that tenants choose.
//
// What always holds: a connection is made only to a public address or to one inside the prefixes
// the operator allows, checked by the dialer on the address itself at the moment of connecting, so
// that a name cannot be re-bound between a check and the call; no redirect is followed, no proxy is
// taken from the environment, no cookie is kept; time, headers, body and connections are bounded;
// and the errors ([*Error]) may be shown to the tenant. (Decisions, "Outbound deliveries".)
package safehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// What Options are when left at zero, and what cannot be set.
const (
	DefaultTimeout         = 10 * time.Second
	defaultMaxBody         = 16 << 10
	defaultMaxConnsPerHost = 128

	// read and thrown away behind MaxBody, so that the connection can be used again
	maxDrain   = 64 << 10
	maxHeaders = 32 << 10 // of an answer
	// An idle connection is closed before common servers close theirs (5 s), so that a request
	// rarely meets a closing one.
	maxIdleTime = 4 * time.Second
	maxIdle     = 1024
)

// Options says how a [Client] behaves. The zero value is fit for production but for RequireHTTPS.
type Options struct {
	// addresses that are allowed although they are not public; development allows loopback
	Allow        []netip.Prefix
	RequireHTTPS bool          // refuse http://
	Timeout      time.Duration // of a call in all: name, connection, TLS, answer
	MaxBody      int           // bytes of an answer's body that are kept
	// connections to one host and port at a time; calls beyond wait, within their timeout
	MaxConnsPerHost int
	Resolver        *net.Resolver // nil: the system's
}

// Client posts to addresses that tenants choose. It is safe for concurrent use.
type Client struct {
	opts   Options
	secure *secureDialer
	// The transport is used without an http.Client: that is what would follow redirects, keep
	// cookies and send a user name.
	transport *http.Transport
}

// Result is an answer, of whatever status.
type Result struct {
	StatusCode int
	Body       []byte // at most MaxBody; less than was sent when the rest was late or cut off
	Duration   time.Duration
}

// New returns a client. It keeps idle connections for a few seconds; [Client.Close] ends them.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxConnsPerHost <= 0 {
		o.MaxConnsPerHost = defaultMaxConnsPerHost
	}
	dialer := &net.Dialer{Timeout: o.Timeout, Resolver: o.Resolver, Control: newGuard(o.Allow).control}
	secure := &secureDialer{plain: dialer, config: &tls.Config{MinVersion: tls.VersionTLS12}}
	return &Client{opts: o, secure: secure, transport: &http.Transport{
		Proxy:          nil, // never from the environment
		DialContext:    dialer.DialContext,
		DialTLSContext: secure.dial,
		// A pooled connection goes to the address that the guard saw when it was made, and is kept
		// for its own scheme, host and port only. So using it again needs no second check: whatever
		// the name says by now, the connection does not move.
		MaxConnsPerHost:        o.MaxConnsPerHost,
		MaxIdleConnsPerHost:    o.MaxConnsPerHost, // with fewer, a busy host is dialled all the time
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        maxIdleTime,
		MaxResponseHeaderBytes: maxHeaders,
		// the body is kept as it was sent, and a small one cannot unpack to a large one
		DisableCompression: true,
	}}
}

// secureDialer makes a checked connection and speaks TLS on it. It stands in for the transport's
// own handshake only to mark that handshake's failures as such.
type secureDialer struct {
	plain  *net.Dialer
	config *tls.Config
}

func (d *secureDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := d.plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &handshakeError{err}
	}
	return conn, nil
}

// Close ends the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Post sends body to url and returns the answer, of whatever status; a redirect is an answer. It
// sends once: no retry follows once a byte may have been seen. An answer whose body is late or cut
// off is still an answer.
//
// The error is an [*Error] when the call failed; when ctx itself ended it is ctx's error,
// and the receiver may or may not have seen the request.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) (Result, error) {
	if err := CheckURL("callback URL", url, Rules{RequireHTTPS: c.opts.RequireHTTPS}); err != nil {
		return Result{}, &Error{Reason: ErrURL, Text: err.Error()}
	}
	start := time.Now()
	timed, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(timed, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Result{}, &Error{Reason: ErrURL, Text: "callback URL is not a URL"}
	}
	if header != nil {
		req.Header = header.Clone()
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return Result{Duration: time.Since(start)}, ctx.Err()
		}
		return Result{Duration: time.Since(start)}, explain(err, req.URL.Hostname(), c.opts.Timeout)
	}
	defer func() { _ = resp.Body.Close() }()
	r := Result{StatusCode: resp.StatusCode, Body: c.keep(resp)}
	r.Duration = time.Since(start)
	return r, nil
}

// keep reads the part of the body that is kept, and a bounded part of what follows it.
func (c *Client) keep(resp *http.Response) []byte {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // what follows is no body, and has no end
	}
	kept, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.opts.MaxBody)))
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return kept
}
