// Package nomba speaks Nomba's public API: it is a [provider.Bank] over HTTP (design, "The upstream
// provider's wire").
//
// What always holds: only the code "00" is success; only what the bank's documentation states as
// definite, answered to a call that asks for an effect, becomes a [*provider.Rejection]; "not
// known" is said only when the bank said it; and everything else (silence, a 5xx, an unknown code,
// somebody else's record, an unreadable amount) is an [*Error], which means that the outcome is not
// known. A payout is submitted at most once a call, and money never passes through a float. The
// access token and the client secret are in no log line and no error.
package nomba

import (
	"cmp"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"ajo/internal/clock"
	"ajo/internal/provider"
	"ajo/internal/secret"
)

// Label is the name kept as an account's Provider.
const Label = "nomba"

// The defaults of [Options].
const (
	DefaultTimeout    = 10 * time.Second
	defaultPayTimeout = 30 * time.Second
	DefaultRetries    = 3
	defaultRetryWait  = 250 * time.Millisecond
)

// Options are what [New] needs. The first four and the limits are required.
type Options struct {
	URL          string // the API's address without a version: https://api.nomba.com
	AccountID    string // sent as accountId with every call
	ClientID     string
	ClientSecret string

	// nil: one without a proxy, with bounded connections. Redirects are never followed
	HTTP  *http.Client
	Clock clock.Clock  // nil: the machine's; decides when a token is renewed
	Log   *slog.Logger // nil: nothing is logged

	// Timeout is of a call, its turn and its repetitions included; of a patient question
	// (provider.Patient) without its turn. Zero: 10 s.
	Timeout    time.Duration
	PayTimeout time.Duration // of the answer to a payout, once it is its turn; zero: 30 s

	// Retries is how often a call without an effect is repeated after 429, 5xx or a cut connection;
	// zero: 3, negative: never.
	Retries   int
	RetryWait time.Duration // before the first repetition, on average; doubles, ±50 %. Zero: 250 ms

	RequestsPerSec int // this process's limit on all calls; negative: none
	PostsPerSec    int // the same on POST calls

	// Observe, where set, is called when a call ends: its name ("pay", "lookup", "token"
	// …), how it ended ("ok", "unknown", "rejected", "timeout", "error"), and how long it took,
	// waits and repetitions included. It is not called for a call that had no turn.
	Observe func(call, outcome string, d time.Duration)
}

// Client is a bank at Nomba. It is safe for concurrent use; make one a process, as its limits and
// its token are its own.
type Client struct {
	base      string
	accountID string
	clientID  string
	secret    secret.Redacted

	http  *http.Client
	clock clock.Clock
	log   *slog.Logger

	timeout    time.Duration
	payTimeout time.Duration
	retries    int
	retryWait  time.Duration
	all, posts *turns
	observer   func(call, outcome string, d time.Duration)

	flight singleflight.Group // one renewal of the token at a time, for all callers
	mu     sync.Mutex         // guards the two below
	held   *token
	nextTo time.Time // no early renewal before this, after one that failed
}

var _ provider.Bank = (*Client)(nil)

// New returns a client, or an error that names the bad option. It calls nobody: the first call asks
// for a token.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil:
		return nil, errors.New("nomba: the URL must be http(s)://host[:port][/path]")
	case o.AccountID == "":
		return nil, errors.New("nomba: the account id is missing")
	case o.ClientID == "" || o.ClientSecret == "":
		return nil, errors.New("nomba: the client id and secret must both be set")
	case o.RequestsPerSec == 0 || o.PostsPerSec == 0:
		return nil, errors.New("nomba: the limits on calls must both be set")
	}
	c := &Client{
		base:       strings.TrimRight(u.String(), "/"),
		accountID:  o.AccountID,
		clientID:   o.ClientID,
		secret:     secret.Redact(o.ClientSecret),
		http:       httpClient(o.HTTP),
		clock:      o.Clock,
		log:        o.Log,
		timeout:    cmp.Or(max(o.Timeout, 0), DefaultTimeout),
		payTimeout: cmp.Or(max(o.PayTimeout, 0), defaultPayTimeout),
		retries:    max(0, cmp.Or(o.Retries, DefaultRetries)),
		retryWait:  cmp.Or(max(o.RetryWait, 0), defaultRetryWait),
		all:        newTurns(limiter(o.RequestsPerSec)),
		posts:      newTurns(limiter(o.PostsPerSec)),
		observer:   o.Observe,
	}
	c.all.most = math.MaxInt // its callers are bounded elsewhere
	if o.PostsPerSec > 0 {
		c.posts.most = min(maxWaiting, 2*o.PostsPerSec)
	}
	if c.clock == nil {
		c.clock = clock.System
	}
	c.log = cmp.Or(c.log, slog.New(slog.DiscardHandler))
	if c.observer == nil {
		c.observer = func(string, string, time.Duration) {}
	}
	return c, nil
}

// Name is [Label].
func (c *Client) Name() string { return Label }

// connections is how many calls may wait for their answers at once: as many as a worker confirms
// and settles (tasks.Specs). What the bank gets is bounded by the limits.
const connections = 384 + 64

// httpClient returns a copy of given, or a client of our own, that follows no redirect: one would
// carry the token, or a payout, to another host.
func httpClient(given *http.Client) *http.Client {
	client := http.Client{Transport: &http.Transport{ // Proxy is nil: the environment's is not used
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		// All calls share an HTTP/2 connection. If its path dies without a word, it would be kept,
		// and each call on it would time out, until TCP gives it up after a quarter of an hour.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}}
	if given != nil {
		client = *given
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// limiter allows n events a second with a burst of a fifth of that, so that no second sees many
// more than n.
func limiter(n int) *rate.Limiter {
	if n < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(n), max(1, n/5))
}

// observe is deferred by every method with its named error. A call that was not made, since too
// many wait, says nothing about the bank.
func (c *Client) observe(call string, start time.Time, err *error) {
	if hadNoTurn(*err) {
		return
	}
	c.observer(call, outcome(*err), time.Since(start))
}

func outcome(err error) string {
	var rejection *provider.Rejection
	var answer *Error
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, provider.ErrUnknown):
		return "unknown"
	case errors.As(err, &rejection):
		return "rejected"
	case errors.As(err, &answer) && answer.timeout():
		return "timeout"
	default:
		return "error"
	}
}
