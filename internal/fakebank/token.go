package fakebank

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tokens are the access tokens in force, with their ends.
type tokens struct {
	mu   sync.RWMutex
	ends map[string]time.Time
}

func (t *tokens) issue(now time.Time, ttl time.Duration) (token string, end time.Time) {
	token, end = rand.Text(), now.Add(ttl)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends = make(map[string]time.Time)
	}
	for old, e := range t.ends {
		if !now.Before(e) {
			delete(t.ends, old)
		}
	}
	t.ends[token] = end
	return token, end
}

func (t *tokens) valid(token string, now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	end, ok := t.ends[token]
	return ok && now.Before(end)
}

// RevokeTokens ends all access tokens, so that the next call with one is answered 401.
func (b *Bank) RevokeTokens() {
	b.tokens.mu.Lock()
	defer b.tokens.mu.Unlock()
	clear(b.tokens.ends)
}

// issueToken serves POST /v1/auth/token/issue. It refuses a call that bears an Authorization
// header, as the live one does.
func (b *Bank) issueToken(c *call) answer {
	if c.Header.Get("Authorization") != "" {
		return failed(http.StatusBadRequest, "02", "Authorization header is not allowed here")
	}
	if c.Header.Get("accountId") == "" {
		return failed(http.StatusBadRequest, "02", "accountId header is required")
	}
	var in struct {
		GrantType    string `json:"grant_type"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	if a, ok := c.decode(&in); !ok {
		return a
	}
	if in.GrantType != "client_credentials" {
		return failed(http.StatusBadRequest, "02", "grant_type must be client_credentials")
	}
	if in.ClientID != b.opt.ClientID || in.ClientSecret != b.opt.ClientSecret || c.Header.Get("accountId") != b.opt.AccountID {
		return failed(http.StatusUnauthorized, "05", "Invalid client credentials")
	}
	token, end := b.tokens.issue(b.clock.Now(), b.opt.TokenTTL)
	return good(map[string]string{
		"businessId": b.opt.AccountID, "access_token": token, "refresh_token": rand.Text(), "expiresAt": wireTime(end),
	})
}

// authorise checks the token and the accountId header that every other call of the provider's wire
// must bear.
func (b *Bank) authorise(r *http.Request) (answer, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !b.tokens.valid(token, b.clock.Now()) {
		return failed(http.StatusUnauthorized, "05", "Unauthorized: the access token is missing, unknown or expired"), false
	}
	switch r.Header.Get("accountId") {
	case b.opt.AccountID:
		return answer{}, true
	case "":
		return failed(http.StatusBadRequest, "02", "accountId header is required"), false
	default:
		return failed(http.StatusForbidden, "05", "Not permitted for this accountId"), false
	}
}

// wireTime is a time as the wire has it: RFC 3339 in UTC, whole seconds.
func wireTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
