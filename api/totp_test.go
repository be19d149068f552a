package api

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// factor sets up a second factor over HTTP, and returns its secret and the recovery codes.
func (w *world) factor(m member) (shared string, codes []string) {
	w.T.Helper()
	var set struct{ Secret, URL string }
	w.do("POST", "/auth/totp", fmt.Sprintf(`{"password":%q}`, password), m.withSession()...).ok(200, &set)
	var on struct{ RecoveryCodes []string }
	w.do("POST", "/auth/totp/confirm", fmt.Sprintf(`{"code":%q}`, w.totp(set.Secret)), m.withSession()...).ok(200, &on)
	w.Clock.Advance(time.Minute)
	return set.Secret, on.RecoveryCodes
}

func (w *world) totp(shared string) string {
	w.T.Helper()
	code, err := totp.GenerateCode(shared, w.Clock.Now())
	require.NoError(w.T, err)
	return code
}

func TestSecondFactorOverHTTP(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/auth/totp", `{"password":"wrong horse"}`, m.withSession()...).refused(400, "password is wrong")
	w.do("POST", "/auth/totp/confirm", `{"code":"123456"}`, m.withSession()...).refused(422, "two-factor authentication is not being set up")
	w.do("POST", "/auth/totp/confirm", `{}`, m.withSession()...).refused(400, "code is required")
	shared, codes := w.factor(m)
	w.read(m.withSession(), "/auth/member").has(t, fields{"totp": true, "totpRequired": false, "reviewsKYC": true})
	login := func(code string) reply {
		return w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q%s}`, m.email, password, code))
	}
	login("").refused(401, "code is required")
	login(`,"code":null`).refused(401, "code is required")
	login(`,"code":"abc"`).refused(401, "invalid code")
	code := fmt.Sprintf(`,"code":%q`, w.totp(shared))
	r := login(code).ok(200, nil)
	m.cookie, _, _ = strings.Cut(r.Header.Get("Set-Cookie"), ";")
	login(code).refused(401, "invalid code")
	login(fmt.Sprintf(`,"code":%q`, codes[0])).ok(200, nil)
	login(fmt.Sprintf(`,"code":%q`, codes[0])).refused(401, "invalid code")

	w.do("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, m.email)).ok(200, nil)
	w.do("POST", "/auth/totp/off", fmt.Sprintf(`{"code":%q}`, codes[0]), m.withSession()...).refused(400, "code is wrong")
	w.do("POST", "/auth/totp-required", `{"required":true}`, m.withSession()...).ok(200, nil)
	w.do("POST", "/auth/totp/off", fmt.Sprintf(`{"code":%q}`, codes[1]), m.withSession()...).refused(422, "two-factor authentication is required for this role")
	w.do("POST", "/auth/totp-required", `{}`, m.withSession()...).refused(400, "required must be true or false")
	w.do("POST", "/auth/totp-required", `{"required":false}`, m.withSession()...).ok(200, nil)
	w.do("POST", "/auth/totp/off", fmt.Sprintf(`{"code":%q}`, codes[1]), m.withSession()...).ok(200, nil)
	login("").ok(200, nil)
}

// The ownership is handed over with the stronger of the two that the owner has, as money is paid
// out: the password alone, and a browser that was left open, are not enough beside a second factor.
func TestHandOverTakesTheSecondFactor(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	next := w.joins(owner, tenant.Viewer)
	path := "/auth/members/" + testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, next.email).String() + "/hand-over"
	shared, _ := w.factor(owner)
	w.do("POST", path, fmt.Sprintf(`{"password":%q}`, password), owner.withSession()...).refused(400, "code is required")
	w.do("POST", path, `{"code":"abc"}`, owner.withSession()...).refused(400, "code is wrong")
	w.ask("POST", path, fmt.Sprintf(`{"code":%q}`, w.totp(shared)), 200, owner.withSession()).has(t, fields{"role": "owner"})
	w.read(next.withSession(), "/auth/member").has(t, fields{"role": "owner"})
}

// Where the tenant requires a second factor, the owner and finance without one get to those
// endpoints alone by which one is set up, or a stranger is put out; each has its reason in
// withoutTOTP. Other members, and API keys, go on.
func TestRoutesWithoutARequiredSecondFactor(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	fin, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	w.do("POST", "/auth/totp-required", `{"required":true}`, owner.withSession()...).ok(200, nil)
	reasons := maps.Clone(withoutTOTP)
	for _, r := range Routes {
		if r.Role == "" {
			continue
		}
		at := endpoint{r.Method, r.Path}
		early := reasons[at] != ""
		delete(reasons, at)
		for _, m := range []member{owner, fin, dev} {
			who := w.read(m.withSession(), "/auth/member")["role"].(string)
			if (tenant.Member{Role: tenant.Role(who)}).Allows(r.Role) != nil {
				continue
			}
			got := w.do(r.Method, path(r), probes[r.Method+" "+r.Path].body, m.withSession()...)
			if early || who == string(tenant.Developer) {
				require.NotContains(t, []int{401, 403, 500}, got.Status, "%v as %s: %s", at, who, got.Body)
				continue
			}
			got.refused(403, "set up two-factor authentication first")
		}
	}
	require.Empty(t, reasons, "reasons of routes that are no more")
	w.do("GET", "/v1/accounts", "", owner.withKey()...).ok(200, nil)
	w.factor(fin)
	w.do("GET", "/auth/misdirected", "", fin.withSession()...).ok(200, nil)
	w.do("GET", "/auth/misdirected", "", owner.withSession()...).refused(403, "set up two-factor authentication first")
}
