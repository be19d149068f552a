package nomba

import (
	"context"
	"net/http"
	"time"

	"ajo/internal/secret"
)

const (
	tokenPath  = "/v1/auth/token/issue"
	tokenLife  = 30 * time.Minute // where the bank does not say
	tokenEarly = 5 * time.Minute  // how long before its end a token is renewed
	// a fresh token is used for as long, whatever its end: the bank's clock may be off
	tokenLeast    = time.Minute
	renewalPause  = 10 * time.Second // after an early renewal that failed
	tokenSingleID = "token"
)

// token is an access token in force. It never changes.
type token struct {
	value secret.Redacted
	renew time.Time // from here on a new one is fetched, while this one is still used
	end   time.Time // from here on it is not used
}

// token returns the access token to use. The first call, and one after the token's end, waits for a
// new one, which is fetched once for all callers; in the last five minutes a new one is fetched in
// the background.
func (c *Client) token(ctx context.Context) (*token, error) {
	c.mu.Lock()
	now, t := c.clock.Now(), c.held
	usable := t != nil && now.Before(t.end)
	early := usable && !now.Before(t.renew) && !now.Before(c.nextTo)
	c.mu.Unlock()
	if usable && !early {
		return t, nil
	}
	// The renewal belongs to no caller: one that goes away must not end it for the others.
	fetch := context.WithoutCancel(ctx)
	done := c.flight.DoChan(tokenSingleID, func() (any, error) { return c.renew(fetch) })
	if usable {
		return t, nil
	}
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*token), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// drop gives up a token that the bank refused, unless it has been replaced already.
func (c *Client) drop(t *token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == t {
		c.held = nil
	}
}

// renew fetches a token, unless another call has just done so.
func (c *Client) renew(ctx context.Context) (t *token, err error) {
	c.mu.Lock()
	if t, now := c.held, c.clock.Now(); t != nil && now.Before(t.renew) {
		c.mu.Unlock()
		return t, nil
	}
	c.mu.Unlock()

	defer c.observe("token", time.Now(), &err)
	t, err = c.issue(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.nextTo = c.clock.Now().Add(renewalPause)
		c.log.WarnContext(ctx, "no access token from the bank", "error", err)
		return nil, err
	}
	c.held = t
	return t, nil
}

// issue asks for a token. An unanswered call means nothing but that there is none: it is repeated.
// No answer to it is ever a rejection, as it says nothing about the call that needed the token.
func (c *Client) issue(ctx context.Context) (*token, error) {
	asked := c.clock.Now()
	a, err := c.ask(ctx, request{
		call: "token", method: http.MethodPost, path: tokenPath, open: true,
		body: map[string]string{
			"grant_type": "client_credentials", "client_id": c.clientID, "client_secret": c.secret.Reveal(),
		},
	}, code01)
	if err != nil {
		return nil, err
	}
	if a.verdict() != success {
		return nil, a.err("no token issued")
	}
	var data struct {
		AccessToken string `json:"access_token"`
		ExpiresAt   text   `json:"expiresAt"`
	}
	if err := a.decode(&data); err != nil {
		return nil, err
	}
	if data.AccessToken == "" {
		return nil, a.err("the answer holds no access_token")
	}
	end, err := wireTime(string(data.ExpiresAt))
	if err != nil || end.IsZero() || end.After(asked.Add(24*time.Hour)) {
		end = asked.Add(tokenLife)
	}
	t := &token{value: secret.Redact(data.AccessToken), renew: end.Add(-tokenEarly), end: end}
	if least := asked.Add(tokenLeast); t.renew.Before(least) {
		t.renew = least
		if t.end.Before(least) {
			t.end = least
		}
	}
	return t, nil
}
