// Package client calls Ajo's API from a tenant's program, and verifies the webhooks that Ajo sends
// to it.
//
// There is a method for each endpoint under /v1, under the name of what it does. Money is a decimal
// string in naira with two decimals ("5000.00"); do not make a float of it. A refusal is an
// [*Error]. No call is repeated by itself: what may be repeated, and how safely, is the caller's to
// decide ([Error.Retryable], [IdempotencyKey]).
//
// It needs the standard library only.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options say how the API is reached.
type Options struct {
	// where the service is, as "https://ajo.example"; what stands behind the host is kept
	URL string
	Key string // the API key; without one no X-API-Key is sent
	// HTTP makes the calls; nil: a client with a limit of 30 s a call. A redirect is never
	// followed, whatever it says: the key would go along.
	HTTP *http.Client
}

// defaultTimeout is above what the API takes for the slowest call, which waits for the bank.
const defaultTimeout = 30 * time.Second

// maxAnswer is far above the largest page.
const maxAnswer = 16 << 20

// Client calls the API. It is safe for concurrent use.
type Client struct {
	url       string
	authorize func(http.Header) // not the key itself: a Client that is printed does not show it
	http      http.Client
}

// New returns a client, or an error when the URL is none.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", o.URL)
	}
	c := &Client{url: strings.TrimRight(o.URL, "/"), authorize: func(http.Header) {}}
	if o.Key != "" {
		c.authorize = func(h http.Header) { h.Set("X-API-Key", o.Key) }
	}
	c.http.Timeout = defaultTimeout
	if o.HTTP != nil {
		c.http = *o.HTTP
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Option changes one call.
type Option func(*http.Request)

// IdempotencyKey makes a call that opens an account or pays out safe to repeat: for at least seven
// days the same key (up to 255 characters, yours to choose, one for each thing that is to be done)
// with the same body gets the first answer again.
func IdempotencyKey(key string) Option {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// Error is an answer that is no success.
type Error struct {
	Status int // of HTTP
	// the API's text, for developers; it is not for end users, and not for telling errors apart
	Message    string
	RetryAfter time.Duration // how long to wait, where the API says so, as with 429; else 0
	RequestID  string        // what the operator finds the request by
}

func (e *Error) Error() string {
	return fmt.Sprintf("the API answered %d: %s (request %s)", e.Status, e.Message, e.RequestID)
}

// Retryable reports whether the same call may go well later: over the limit, another call for the
// same thing that is still running, a bank that does not answer, or the service's own trouble. What
// a POST has done before a 5xx is not known: repeat it with the same [IdempotencyKey].
func (e *Error) Retryable() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= 500 || e.Status == http.StatusConflict && e.RetryAfter > 0
}

// Status is the HTTP status of an error of this package; 0 when there was no answer, or no error.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Do makes one call and decodes its answer: for the endpoints that have no method here, such as
// those of a session. The path may have a query; in is sent as JSON, and out filled, where they are
// not nil. An answer that is no success is an [*Error].
func (c *Client) Do(ctx context.Context, method, path string, in, out any, options ...Option) error {
	if err := checkPath(path); err != nil {
		return err
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "ajo-go")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	for _, o := range options {
		o(req)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	}
	return nil
}

// checkPath refuses a path that would be read as another one: servers leave empty parts and dots
// out, so that a balance of the account "" would be the account "balance".
func checkPath(path string) error {
	path, _, _ = strings.Cut(path, "?")
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%q cannot stand in the path %s", part, path)
		}
	}
	return nil
}

// refusal makes an error of an answer. What is not of the API, as a proxy's page, has the status's
// own text.
func refusal(resp *http.Response, answer []byte) *Error {
	e := &Error{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-ID")}
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &body) == nil {
		e.Message = body.Error
	}
	if e.Message == "" {
		e.Message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// call is Do with the answer as its value.
func call[T any](ctx context.Context, c *Client, method, path string, in any, options ...Option) (T, error) {
	var out T
	return out, c.Do(ctx, method, path, in, &out, options...)
}
