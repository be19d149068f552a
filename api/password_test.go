package api

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

var resetForm = regexp.MustCompile(`(?m)^ {4}([A-Za-z0-9_-]{43})$`)

// resetCode waits for a mail with a code that resets a password.
func (w *world) resetCode(to string) (code string) {
	w.T.Helper()
	testenv.Eventually(w.T, 10*time.Second, "a mail with a code", func() bool {
		w.mails.mu.Lock()
		defer w.mails.mu.Unlock()
		for _, m := range w.mails.sent {
			if found := resetForm.FindStringSubmatch(m.Text); m.To == to && found != nil {
				code = found[1]
			}
		}
		return code != ""
	})
	return code
}

func TestPasswordEndpoints(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	other := header{"Cookie", w.login(m.email)}
	change := func(old, fresh string) reply {
		return w.do("POST", "/auth/password", fmt.Sprintf(`{"oldPassword":%q,"newPassword":%q}`, old, fresh), m.withSession()...)
	}
	change("wrong horse", "another horse").refused(400, "oldPassword is wrong")
	change(password, "short").refused(400, "newPassword must be at least 8 characters")
	w.do("POST", "/auth/password", `{}`, m.withSession()...).refused(400, "oldPassword is required")
	w.do("POST", "/auth/password", `{}`, m.withKey()...).refused(401, "unauthorized")
	w.do("POST", "/auth/password", `{}`, append(m.withSession(), "Sec-Fetch-Site", "cross-site")...).refused(403, "cross-site request refused")
	change(password, "another horse").ok(200, nil).has(`{}`)
	w.do("GET", "/auth/me", "", m.withSession()...).ok(200, nil)
	w.do("GET", "/auth/me", "", other...).refused(401, "unauthorized")

	w.do("POST", "/auth/forgot-password", `{}`).refused(400, "email is required")
	long := strings.Repeat("a", 60) + "@" + strings.Repeat("a.", 96) + "com"
	w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":"another horse"}`, long)).refused(401, "invalid credentials")
	w.do("POST", "/register", fmt.Sprintf(`{"name":"Ada","email":%q,"password":"another horse"}`, long)).refused(400, "email is invalid")
	w.do("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, long)).refused(400, "email is invalid")
	unknown := w.do("POST", "/auth/forgot-password", `{"email":"nobody@example.com"}`).ok(200, nil)
	known := w.do("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, m.email)).ok(200, nil)
	require.Equal(t, unknown.form(), known.form(), "the answer tells nothing")
	code := w.resetCode(m.email)
	w.do("POST", "/auth/reset-password", `{"newPassword":"third horse"}`).refused(400, "code is required")
	w.do("POST", "/auth/reset-password", `{"code":"123456","newPassword":"third horse"}`).refused(400, "invalid or expired code")
	r := w.do("POST", "/auth/reset-password", fmt.Sprintf(`{"code":%q,"newPassword":"third horse"}`, code)).ok(200, nil)
	r.has(fmt.Sprintf(`{"tenantId":%q,"name":"Ada Stores"}`, m.id))
	require.Regexp(t, `^service_session=[A-Za-z0-9_-]{43}; max-age=604800; path=/; HttpOnly; SameSite=Lax$`, r.Header.Get("Set-Cookie"))
	w.do("GET", "/auth/me", "", m.withSession()...).refused(401, "unauthorized")
	w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":"third horse"}`, m.email)).ok(200, nil)
}

func TestPasswordLimits(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for range 10 {
		w.do("POST", "/auth/password", `{"oldPassword":"wrong horse","newPassword":"another horse"}`, m.withSession()...).refused(400, "oldPassword is wrong")
		w.do("POST", "/auth/forgot-password", `{"email":"nobody@example.com"}`).ok(200, nil)
	}
	requireLimited(t, w.do("POST", "/auth/password", `{"oldPassword":"wrong horse","newPassword":"another horse"}`, m.withSession()...))
	requireLimited(t, w.do("POST", "/auth/forgot-password", `{"email":" NOBODY@example.com"}`))
}

// Guesses from elsewhere do not shut the owner out: not where the owner has logged in from before,
// and with a mailed code nowhere.
func TestGuessesFromElsewhereDoNotShutTheOwnerOut(t *testing.T) {
	w := setup(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	m := w.onboard()
	try := func(from, password string) reply {
		return w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, m.email, password), "X-Forwarded-For", from)
	}
	const office, attacker, botnet, hotel = "192.0.2.1", "198.51.100.1", "203.0.113.7", "192.0.2.99"
	try(office, password).ok(200, nil)
	// the first logins, of onboard and of the office, came from networks that nobody knew yet
	left := 10 - 2
	for range left {
		try(attacker, "wrong horse").refused(401, "invalid credentials")
	}
	requireLimited(t, try(attacker, "wrong horse"))
	requireLimited(t, try(botnet, "wrong horse")) // another address is no new allowance
	requireLimited(t, try(botnet, password))

	try(office, password).ok(200, nil)
	for range 9 {
		try(office, "wrong horse").refused(401, "invalid credentials")
	}
	requireLimited(t, try(office, "wrong horse")) // there are limits there too

	requireLimited(t, try(hotel, password))
	w.do("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, m.email), "X-Forwarded-For", hotel).ok(200, nil)
	w.do("POST", "/auth/reset-password", fmt.Sprintf(`{"code":%q,"newPassword":"another horse"}`, w.resetCode(m.email)), "X-Forwarded-For", hotel).ok(200, nil)
	try(hotel, "another horse").ok(200, nil)
	// not known any more: a password that was reset may have been a stranger's there
	requireLimited(t, try(office, "another horse"))
}
