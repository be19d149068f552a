package api

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/spec"
)

// path fills the parameters of a route.
func path(r Route) string { return param.ReplaceAllString(r.Path, "shop-1") }

// body is a good body for each route that wants one, so that what refuses a request is its
// credential.
var bodies = map[string]string{
	"/auth/business-kyc": `{"businessType":"ngo"}`,
	"/auth/webhook-url":  `{"url":"https://example.com/"}`,
	"/v1/accounts":       `{"externalRef":"shop-1","name":"Ada Obi"}`,
}

// Every route against every credential: the one it asks for opens it, no other does, and a
// suspended tenant's opens none. What else a request may be refused for (its body, an unknown
// reference) shows that the door is open.
func TestCredentials(t *testing.T) {
	spec.Shows(t, "field.tenant.status.suspended")
	spec.Shows(t, "auth.key.missing", "auth.key.suspended", "auth.key.no-session", "error.401", "error.403", "error.message.suspended")
	w := setup(t)
	m, suspended := w.onboard(), w.onboard()
	w.do("POST", "/v1/accounts", bodies["/v1/accounts"], m.withKey()...).ok(201, nil)
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, suspended.id)
	for _, r := range Routes {
		if r.Credential == None || r.Credential == Signature || r.Path == "/auth/rotate-key" {
			continue
		}
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			call := func(h header) reply {
				body := bodies[r.Path]
				if r.Method == "GET" {
					body = ""
				}
				return w.do(r.Method, path(r), body, h...)
			}
			byKey, bySession := r.Credential != Session, r.Credential != Key
			call(nil).refused(401, "unauthorized")
			call(header{"X-API-Key", "", "Cookie", "service_session="}).refused(401, "unauthorized")
			for _, c := range []struct {
				opens bool
				h     func(member) header
			}{{byKey, member.withKey}, {bySession, member.withSession}} {
				if c.opens {
					require.NotContains(t, []int{401, 403, 405, 415, 500}, call(c.h(m)).Status)
					call(c.h(suspended)).refused(403, "tenant is suspended")
				} else {
					call(c.h(m)).refused(401, "unauthorized")
					call(c.h(suspended)).refused(401, "unauthorized")
				}
			}
		})
	}
}

func TestRotatedKeyDiesAtOnce(t *testing.T) {
	spec.Shows(t, "auth.key.rotate", "endpoint.rotate-key.previous")
	w := setup(t)
	m := w.onboard()
	var got struct{ APIKey string }
	w.do("POST", "/auth/rotate-key", "", m.withSession()...).ok(200, &got)
	w.do("GET", "/v1/accounts", "", m.withKey()...).refused(401, "unauthorized")
	w.do("GET", "/v1/accounts", "", "X-API-Key", got.APIKey).ok(200, nil)
}

func TestABadKeyIsNotSavedByACookie(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/auth/webhook-secret", "", append(m.withSession(), "X-API-Key", "wrong")...).refused(401, "unauthorized")
}

// What only begins like a test key is no key, and is refused as any other bad one is. A genuine one
// is told that test mode is off.
func TestABadTestKeyIsUnauthorized(t *testing.T) {
	w := setup(t)
	for _, r := range []endpoint{{"GET", "/v1/accounts"}, {"GET", "/v1/nothing"}, {"POST", "/auth/webhook-secret"}} {
		for _, bad := range []string{"ajo_test_invalid", "ajo_test_", secret.TestKey.New().Reveal() + "x"} {
			w.do(r.method, r.route, "", "X-API-Key", bad).refused(401, "unauthorized")
		}
		w.do(r.method, r.route, "", "X-API-Key", secret.TestKey.New().Reveal()).refused(401, errTestOff.Msg)
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	spec.Shows(t, "endpoint.logout", "endpoint.logout.body")
	w := setup(t)
	m := w.onboard()
	other := w.login(m.email)
	w.do("GET", "/auth/me", "", m.withSession()...).ok(200, nil)
	w.do("POST", "/auth/logout", "", m.withSession()...).ok(200, nil)
	w.do("GET", "/auth/me", "", m.withSession()...).refused(401, "unauthorized")
	w.do("GET", "/auth/me", "", "Cookie", other).ok(200, nil)
	w.do("POST", "/auth/logout", "").ok(200, nil)
	w.do("POST", "/auth/logout", "", m.withSession()...).ok(200, nil)
}

func TestCrossSiteRequestsAreRefused(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for _, c := range []struct {
		headers header
		passes  bool
	}{
		{nil, true}, // no browser
		{header{"Sec-Fetch-Site", "same-origin"}, true},
		{header{"Sec-Fetch-Site", "none"}, true},
		{header{"Sec-Fetch-Site", "same-site"}, false},
		{header{"Sec-Fetch-Site", "cross-site"}, false},
		{header{"Sec-Fetch-Site", "cross-site", "Origin", w.url}, false},
		// the browser knows better
		{header{"Sec-Fetch-Site", "same-origin", "Origin", "https://elsewhere.example"}, true},
		{header{"Origin", w.url}, true},
		{header{"Origin", "https://" + w.addr}, true}, // behind a proxy that ends TLS
		{header{"Origin", "https://elsewhere.example"}, false},
		{header{"Origin", "http://" + w.addr + ".elsewhere.example"}, false},
		{header{"Origin", "null"}, false},
		{header{"Origin", "https://elsewhere.example", "X-Forwarded-Host", "elsewhere.example"}, false},
	} {
		t.Run(fmt.Sprint(c.headers), func(t *testing.T) {
			for _, path := range []string{"/auth/webhook-secret", "/auth/logout"} {
				cookie := m.withSession()
				if path == "/auth/logout" {
					cookie = header{"Cookie", sessionCookie + "=ended"}
				}
				r := w.do("POST", path, "", append(cookie, c.headers...)...)
				if c.passes {
					r.ok(200, nil)
				} else {
					r.refused(403, "cross-site request refused")
				}
			}
			w.do("GET", "/auth/me", "", append(m.withSession(), c.headers...)...).ok(200, nil)
			w.do("POST", "/auth/webhook-secret", "", append(m.withKey(), c.headers...)...).ok(200, nil)
		})
	}
}

func TestForwardedHostOfATrustedProxy(t *testing.T) {
	w := setup(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	m := w.onboard()
	origin := header{"Origin", "https://ajo.example", "X-Forwarded-Host", "ajo.example"}
	w.do("POST", "/auth/webhook-secret", "", append(m.withSession(), origin...)...).ok(200, nil)
}
