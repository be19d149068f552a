// Package dojah asks the Dojah service about a NIN (design, "NIN checks").
//
// It makes one call a check and repeats none. The number travels in the request's URL, which
// net/http puts into its errors, and a broken answer may echo it; so no error of this package
// carries any text of the request or the answer, only one of a few fixed reasons.
package dojah

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"ajo/internal/identity"
	"ajo/internal/metrics"
	"ajo/internal/secret"
)

const (
	defaultTimeout = 10 * time.Second
	maxAnswer      = 1 << 20
)

var ninForm = regexp.MustCompile(`^[0-9]{11}$`)

// Options are what New needs.
type Options struct {
	URL   string // the service's address, without the path; http or https
	AppID string // sent as AppId
	Key   string // sent as Authorization, without "Bearer"

	Timeout time.Duration // of a whole check; zero: 10 s
}

// Checker is an [identity.Checker] over Dojah's API. It is safe for concurrent use.
type Checker struct {
	endpoint string
	appID    string
	key      secret.Redacted
	http     *http.Client
	timeout  time.Duration
}

// New returns a checker, or an error that names the bad option.
func New(o Options) (*Checker, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, errors.New("dojah: the URL must be http(s)://host[:port][/path]")
	}
	if o.AppID == "" || o.Key == "" {
		return nil, errors.New("dojah: the app id and the key must both be set")
	}
	c := &Checker{
		endpoint: strings.TrimRight(u.String(), "/") + "/api/v1/kyc/nin",
		appID:    o.AppID,
		key:      secret.Redact(o.Key),
		timeout:  o.Timeout,
	}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxConnsPerHost:     16,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     90 * time.Second,
			ForceAttemptHTTP2:   true,
			// All checks share an HTTP/2 connection. If its path dies without a word, it would be
			// kept, and each check on it would time out, until TCP gives it up after a quarter of
			// an hour.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 3 * time.Second},
		},
		// A redirect would carry the number and the key to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// CheckNIN asks for the NIN's holder and compares names by [identity.NamesAgree]. An unanswered
// call means nothing: the service only reads, so asking again is safe. Every error wraps
// [identity.ErrUnavailable].
func (c *Checker) CheckNIN(ctx context.Context, nin, name string) (r identity.Result, err error) {
	begin := time.Now()
	defer func() { metrics.NINChecked(outcome(r, err), time.Since(begin)) }()
	if !ninForm.MatchString(nin) {
		return 0, unavailable("the number given is not 11 digits")
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	status, body, err := c.get(ctx, nin)
	if err != nil {
		return 0, err
	}
	switch {
	case status == http.StatusNotFound && ownError(body):
		return identity.NoSuch, nil
	case status != http.StatusOK:
		return 0, unavailable(fmt.Sprintf("HTTP status %d", status))
	}
	return compare(body, nin, name)
}

// outcome names a check's end for the metrics.
func outcome(r identity.Result, err error) string {
	if err != nil {
		return "unavailable"
	}
	return map[identity.Result]string{identity.Match: "match", identity.Mismatch: "mismatch", identity.NoSuch: "no_such"}[r]
}

func (c *Checker) get(ctx context.Context, nin string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint+"?"+url.Values{"nin": {nin}}.Encode(), nil)
	if err != nil {
		return 0, nil, unavailable("the request could not be made")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("AppId", c.appID)
	req.Header.Set("Authorization", c.key.Reveal())
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, noAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, noAnswer(err)
	}
	if len(body) > maxAnswer {
		return 0, nil, unavailable("the answer is too large")
	}
	return resp.StatusCode, body, nil
}

// holder is the answer's entity, in both spellings that the service uses.
type holder struct {
	FirstName string `json:"first_name"`
	Firstname string `json:"firstname"`
	LastName  string `json:"last_name"`
	Surname   string `json:"surname"`
	Lastname  string `json:"lastname"`
	NIN       string `json:"nin"`
}

func compare(body []byte, nin, name string) (identity.Result, error) {
	var answer struct {
		Entity *holder `json:"entity"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Entity == nil {
		return 0, unavailable("the answer holds no record")
	}
	h := answer.Entity
	if h.NIN != "" && h.NIN != nin {
		return 0, unavailable("the answer is about another number")
	}
	first, last := either(h.FirstName, h.Firstname), either(h.LastName, h.Surname, h.Lastname)
	if first == "" && last == "" {
		return 0, unavailable("the record holds no name")
	}
	if identity.NamesAgree(name, first, last) {
		return identity.Match, nil
	}
	return identity.Mismatch, nil
}

func either(spellings ...string) string {
	for _, s := range spellings {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}

// ownError reports whether a body is an error in the service's own envelope, an object with an
// "error" text and nothing else. A gateway's 404 (a page, a text, an empty body, another JSON) says
// nothing about the number.
func ownError(body []byte) bool {
	var fields map[string]json.RawMessage
	var text string
	return json.Unmarshal(body, &fields) == nil && len(fields) == 1 && json.Unmarshal(fields["error"], &text) == nil && text != ""
}

func unavailable(reason string) error {
	return fmt.Errorf("dojah: %s: %w", reason, identity.ErrUnavailable)
}

// noAnswer replaces net/http's error by its kind: the text would hold the URL, and with it the
// number.
func noAnswer(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("dojah: %w: %w", context.Canceled, identity.ErrUnavailable)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("dojah: %w: %w", context.DeadlineExceeded, identity.ErrUnavailable)
	default:
		return unavailable("the connection failed")
	}
}
