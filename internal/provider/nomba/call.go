package nomba

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"ajo/internal/provider"
)

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 1 << 20

// request is one call of the API.
type request struct {
	call    string // its name, for errors and metrics
	method  string
	path    string
	query   url.Values
	body    any           // nil: none
	timeout time.Duration // for the answer, once it is the call's turn; zero: the client's
	open    bool          // without a token
	turned  bool          // it has had its turn already
}

// patient reports whether the call may wait for its turn for as long as the context lasts, and has
// its time from then on. A payout does not: it was recorded as submitted, and what was checked for
// that gets old.
func (r *request) patient(ctx context.Context) bool {
	return provider.IsPatient(ctx) && !r.open && r.call != "pay"
}

// send makes the call once. A 401 is the bank's word that it has not acted: the token is renewed
// and the call repeated, once, whatever the call is. Every error is an [*Error].
func (c *Client) send(ctx context.Context, r request) (answer, error) {
	if r.open {
		return c.exchange(ctx, r, nil)
	}
	for first := true; ; first = false {
		t, err := c.token(ctx)
		if err != nil {
			return answer{}, &Error{Call: r.call, Msg: "no access token", Err: err, unsent: true}
		}
		a, err := c.exchange(ctx, r, t)
		r.turned = false
		if err != nil || a.status != http.StatusUnauthorized || a.verdict() == success || !first {
			return a, err
		}
		c.drop(t)
	}
}

// ask makes a call that has no effect, or the same effect however often it is made. After 429, a
// 5xx, a cut connection, and the answers that again names, it is repeated with growing, jittered
// gaps until the retries or the call's time is spent. The answer is the last one.
//
// The time of a patient call begins with its turn. Otherwise, of the calls that a worker may make
// at once, those that the limit does not allow within that time would be put off each time, longer
// and longer, and the bank would be idle meanwhile.
func (c *Client) ask(ctx context.Context, r request, again func(answer) bool) (answer, error) {
	if r.patient(ctx) {
		if err := c.turn(ctx, r); err != nil {
			return answer{}, noTurn(r, err)
		}
		r.turned = true
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var (
		last    answer
		lastErr error
		made    bool
	)
	attempt := func() (struct{}, error) {
		a, err := c.send(ctx, r)
		r.turned = false
		if made && hadNoTurn(err) { // the outcome is what the call before it brought
			return struct{}{}, nil
		}
		last, lastErr, made = a, err, true
		switch {
		case lastErr != nil && worthRepeating(ctx, lastErr):
			return struct{}{}, lastErr
		case lastErr != nil || !tooBusy(last) && !again(last):
			return struct{}{}, nil
		case last.after > 0:
			return struct{}{}, backoff.RetryAfter(last.after)
		default:
			return struct{}{}, errors.New("again")
		}
	}
	deadline, _ := ctx.Deadline()
	_, _ = backoff.Retry(ctx, attempt, // its error is lastErr, or says that last is one to repeat
		backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: c.retryWait, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 8 * c.retryWait,
		}),
		backoff.WithMaxTries(uint(1+c.retries)),
		backoff.WithMaxElapsedTime(time.Until(deadline)))
	return last, lastErr
}

// tooBusy, code01: after which answers ask repeats a call. Code 01 is a reason for most; to a
// question about a single reference it is the answer.
func tooBusy(a answer) bool { return a.notNow() && a.verdict() == later }
func code01(a answer) bool  { return a.verdict() == later }

// worthRepeating reports whether a call without an effect that got no answer may be repeated: the
// connection failed, and the time is not up.
func worthRepeating(ctx context.Context, err error) bool {
	var e *Error
	return ctx.Err() == nil && errors.As(err, &e) && !e.unsent && e.Err != nil && !e.timeout()
}

// exchange waits for the call's turn, sends it, and reads the answer. Every error is an [*Error].
func (c *Client) exchange(ctx context.Context, r request, t *token) (answer, error) {
	if !r.turned {
		if err := c.turn(ctx, r); err != nil {
			return answer{}, noTurn(r, err)
		}
	}
	r.timeout = cmp.Or(r.timeout, c.timeout)
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := c.request(ctx, r, t)
	if err != nil {
		return answer{}, &Error{Call: r.call, Msg: "not sent: cannot be written", Err: err, unsent: true}
	}
	if err := provider.Stands(ctx); err != nil {
		return answer{}, &Error{Call: r.call, Msg: "not sent: called off", Err: err, unsent: true}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which holds references
		}
		return answer{}, &Error{Call: r.call, Msg: "no answer", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &Error{Call: r.call, HTTP: resp.StatusCode, Msg: "the answer was cut", Err: err}
	case len(body) > maxAnswer:
		return answer{}, &Error{Call: r.call, HTTP: resp.StatusCode, Msg: "the answer is larger than 1 MiB"}
	}
	a := parseAnswer(r.call, resp.StatusCode, body)
	a.after, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return a, nil
}

func noTurn(r request, err error) error {
	return &Error{Call: r.call, Msg: "not sent: no turn in time", Err: err, unsent: true}
}

// hadNoTurn reports whether the call of an error was not made because it had no turn. That says
// nothing about the bank.
func hadNoTurn(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.unsent && errors.Is(e, provider.ErrBusy)
}

// turn waits until the limits allow the call: one of all calls, and for a POST one of the POSTs,
// which are few. What opens an account or pays goes before look-ups and lists. A POST that has had
// its turn among these goes before other calls: one page of a list answers many of them.
func (c *Client) turn(ctx context.Context, r request) error {
	if !r.patient(ctx) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	post := r.method == http.MethodPost
	if post && !r.open {
		if err := c.posts.wait(ctx, r.call == "create_account" || r.call == "pay"); err != nil {
			return err
		}
	}
	return c.all.wait(ctx, post)
}

// request writes the call. It must never bear an Idempotency-Key header: net/http takes that for
// leave to repeat a POST.
func (c *Client) request(ctx context.Context, r request, t *token) (*http.Request, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("accountId", c.accountID)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if t != nil { // the token's own endpoint answers 400 to an Authorization header
		req.Header.Set("Authorization", "Bearer "+t.value.Reveal())
	}
	return req, nil
}
