package api

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ratelimit"
)

func requireLimited(t *testing.T, r reply) {
	t.Helper()
	r.refused(429, "rate limit exceeded")
	wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, wait, 1)
	require.Equal(t, "0", r.Header.Get("RateLimit-Remaining"))
}

func TestLimitOfAKey(t *testing.T) {
	spec.Shows(t, "auth.key.limit", "error.429", "error.message.rate-limit", "limit.rate", "limit.rate.answer")
	w := setup(t)
	a, b := w.onboard(), w.onboard()
	w.limits("3-H", "100-H")
	w.serve()
	for left := 2; left >= 0; left-- {
		r := w.do("GET", "/v1/accounts", "", a.withKey()...).ok(200, nil)
		require.Equal(t, "3", r.Header.Get("RateLimit-Limit"))
		require.Equal(t, strconv.Itoa(left), r.Header.Get("RateLimit-Remaining"))
		require.NotEmpty(t, r.Header.Get("RateLimit-Reset"))
		require.Empty(t, r.Header.Get("Retry-After"))
	}
	requireLimited(t, w.do("GET", "/v1/accounts", "", a.withKey()...))
	requireLimited(t, w.do("GET", "/v1/nothing", "", a.withKey()...))
	requireLimited(t, w.do("POST", "/auth/webhook-secret", "", a.withKey()...))
	w.do("POST", "/auth/webhook-secret", "", a.withSession()...).ok(200, nil)
	w.do("GET", "/v1/accounts", "", b.withKey()...).ok(200, nil)
	w.do("GET", "/health", "").ok(200, nil)
}

// The allowance is the tenant's: a rotated key has what the one before left of it, and sessions
// have one of their own together, half of which is the owner's.
func TestLimitIsTheTenants(t *testing.T) {
	spec.Shows(t, "limit.rate")
	w := setup(t)
	a, b := w.onboard(), w.onboard()
	second, viewer := member{cookie: w.login(a.email)}, w.joins(b, tenant.Viewer)
	w.limits("4-H", "100-H")
	w.serve()
	for range 3 {
		w.do("GET", "/v1/accounts", "", a.withKey()...).ok(200, nil)
	}
	var rotated struct{ APIKey string }
	w.do("POST", "/auth/rotate-key", "", a.withSession()...).ok(200, &rotated)
	require.Equal(t, "0", w.do("GET", "/v1/accounts", "", "X-API-Key", rotated.APIKey).ok(200, nil).Header.Get("RateLimit-Remaining"))
	requireLimited(t, w.do("GET", "/v1/accounts", "", "X-API-Key", rotated.APIKey))
	w.do("POST", "/auth/rotate-key", "", second.withSession()...).ok(200, &rotated)
	requireLimited(t, w.do("GET", "/v1/accounts", "", "X-API-Key", rotated.APIKey))

	w.do("GET", "/auth/me", "", a.withSession()...).ok(200, nil)
	require.Empty(t, w.do("GET", "/auth/overview", "", second.withSession()...).ok(200, nil).Header.Get("RateLimit-Limit"))
	for _, m := range []member{a, second} {
		requireLimited(t, w.do("GET", "/auth/me", "", m.withSession()...))
		requireLimited(t, w.do("POST", "/auth/webhook-secret", "", m.withSession()...))
	}
	for range 2 {
		w.do("GET", "/auth/me", "", viewer.withSession()...).ok(200, nil)
	}
	requireLimited(t, w.do("GET", "/auth/me", "", viewer.withSession()...))
	w.do("GET", "/auth/me", "", b.withSession()...).ok(200, nil)
	w.do("GET", "/auth/overview", "", b.withSession()...).ok(200, nil)
	w.do("GET", "/v1/accounts", "", b.withKey()...).ok(200, nil)
}

// What opens nothing counts under its address, however well it is formed: keys, sessions and the
// credentials of suspended tenants, also where a session is to end. Over the limit nothing new is
// looked up there, while credentials that have opened something still are.
func TestTryingKeysIsLimited(t *testing.T) {
	wellFormed := func() header { return header{"X-API-Key", secret.LiveKey.New().Reveal()} }
	for name, try := range map[string]func() header{
		"no key":             func() header { return header{} },
		"a malformed key":    func() header { return header{"X-API-Key", "ajo_wrong"} },
		"a well-formed key":  wellFormed,
		"a made-up session":  func() header { return header{"Cookie", "service_session=" + strings.Repeat("a", 43)} },
		"the same key again": func() func() header { k := wellFormed(); return func() header { return k } }(),
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			m, late := w.onboard(), w.onboard()
			w.limits("3-H", "100-H")
			w.serve()
			path := "/v1/accounts"
			if h := try(); len(h) > 0 && h[0] == "Cookie" {
				path = "/auth/me"
			}
			w.do("GET", "/v1/accounts", "", m.withKey()...).ok(200, nil)
			w.do("GET", "/auth/me", "", m.withSession()...).ok(200, nil)
			for range 3 {
				r := w.do("GET", path, "", try()...).refused(401, "unauthorized")
				if path == "/v1/accounts" {
					require.Equal(t, "3", r.Header.Get("RateLimit-Limit"))
				}
			}
			requireLimited(t, w.do("GET", path, "", try()...))
			requireLimited(t, w.do("GET", path, "", try()...))
			w.do("GET", "/v1/accounts", "", m.withKey()...).ok(200, nil)
			w.do("GET", "/auth/me", "", m.withSession()...).ok(200, nil)
			// which is good: nobody has looked
			requireLimited(t, w.do("GET", "/v1/accounts", "", late.withKey()...))
			requireLimited(t, w.do("GET", "/auth/me", "", late.withSession()...))
			requireLimited(t, w.do("POST", "/auth/logout", "", late.withSession()...))
			w.do("POST", "/auth/logout", "", m.withSession()...).ok(200, nil)
		})
	}
	t.Run("a logout of a made-up session", func(t *testing.T) {
		w := setup(t)
		m := w.onboard()
		w.limits("3-H", "100-H")
		w.serve()
		for range 3 {
			w.do("GET", "/auth/me", "", m.withSession()...).ok(200, nil)
			w.do("POST", "/auth/logout", "", "Cookie", sessionCookie+"="+strings.Repeat("a", 43)).ok(200, nil)
		}
		requireLimited(t, w.do("POST", "/auth/logout", "", "Cookie", sessionCookie+"="+strings.Repeat("b", 43)))
		requireLimited(t, w.do("GET", "/auth/me", "", m.withSession()...))
		w.do("POST", "/auth/logout", "", m.withSession()...).ok(200, nil)
		require.Zero(t, testenv.Value[int64](w.Env, `SELECT count(*) FROM sessions WHERE tenant_id = $1`, m.id))
	})
}

// A suspended tenant's requests are looked up so often, and no more.
func TestSuspendedTenantsAreLimited(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, m.id)
	w.limits("3-H", "100-H")
	w.serve()
	for range 3 {
		w.do("GET", "/v1/accounts", "", m.withKey()...).refused(403, "tenant is suspended")
	}
	requireLimited(t, w.do("GET", "/v1/accounts", "", m.withKey()...))
	requireLimited(t, w.do("GET", "/auth/me", "", m.withSession()...))
}

func TestLimitOfAnAddress(t *testing.T) {
	w := setup(t)
	w.limits("100-H", "3-H")
	w.serve()
	w.do("POST", "/register", `{}`).refused(400, "name is required")
	w.do("POST", "/auth/login", `{}`).refused(400, "email is required")
	w.do("POST", "/auth/verify-email", `{}`).refused(400, "tenantId is required")
	for _, path := range []string{"/register", "/auth/login", "/auth/verify-email"} {
		requireLimited(t, w.do("POST", path, `{}`))
		// no proxy of ours
		requireLimited(t, w.do("POST", path, `{}`, "X-Forwarded-For", "192.0.2.1"))
	}
	for range 10 {
		w.do("GET", "/health", "").ok(200, nil)
		w.do("GET", "/ready", "").ok(200, nil)
		w.do("POST", "/webhooks/provider", `{}`).ok(200, nil)
		w.do("POST", "/auth/logout", "").ok(200, nil)
	}
}

func TestAddressBehindProxies(t *testing.T) {
	w := setup(t, func(o *Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	w.limits("100-H", "1-H")
	w.serve()
	for _, c := range []struct {
		forwarded string
		limited   bool
	}{
		{"192.0.2.1", false},
		{"192.0.2.1", true},
		{"192.0.2.2", false},
		{"6.6.6.6, 192.0.2.2", true}, // what the client wrote itself is not believed
		{"192.0.2.3, 10.1.1.1", false},
		{"192.0.2.3, 10.2.2.2", true}, // through another of our proxies
		{"rubbish, 192.0.2.3", true},
		{"2001:db8::1", false},
		{"2001:db8::2", true}, // the same subscriber
		{"192.0.2.4, rubbish", false},
		{"rubbish", true}, // counted as the proxy itself, as the one before
	} {
		r := w.do("POST", "/auth/login", `{}`, "X-Forwarded-For", c.forwarded)
		if c.limited {
			requireLimited(t, r)
		} else {
			r.refused(400, "email is required")
		}
	}
}

func TestLimitOfAnAccount(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	body := func(email string) string { return fmt.Sprintf(`{"email":%q,"password":"wrong horse"}`, email) }
	// onboard has logged in from here: tries from here are counted since then, and apart
	for range 10 {
		w.do("POST", "/auth/login", body(m.email)).refused(401, "invalid credentials")
	}
	requireLimited(t, w.do("POST", "/auth/login", body(m.email)))
	requireLimited(t, w.do("POST", "/auth/login", body("  "+m.email)))
	for range 10 {
		w.do("POST", "/auth/login", body("nobody@example.com")).refused(401, "invalid credentials")
	}
	requireLimited(t, w.do("POST", "/auth/login", body("nobody@example.com")))

	id := uuid.New()
	for range 10 {
		w.do("POST", "/auth/verify-email", fmt.Sprintf(`{"tenantId":%q,"otp":"1"}`, id)).refused(400, "invalid or expired code")
	}
	for _, spelling := range []string{id.String(), id.URN(), "{" + id.String() + "}"} {
		requireLimited(t, w.do("POST", "/auth/verify-email", fmt.Sprintf(`{"tenantId":%q,"otp":"1"}`, spelling)))
	}
	for range 20 { // no account named, none counted
		w.do("POST", "/auth/login", `{"password":"x"}`).refused(400, "email is required")
		w.do("POST", "/auth/verify-email", `{"tenantId":"x","otp":"1"}`).refused(400, "invalid or expired code")
	}
	for range 10 {
		w.do("POST", "/register", `{"name":"A","email":"ada@example.com","password":"1234567"}`).refused(400, "password must be at least 8 characters")
	}
	requireLimited(t, w.do("POST", "/register", `{"name":"A","email":"ADA@example.com","password":"1234567"}`))

	// what mails people of a tenant's choice counts under the tenant
	for range 199 {
		w.opts.Limits.Tenant(t.Context(), ratelimit.Members, m.id)
	}
	var invited tenant.MemberRecord
	w.do("POST", "/auth/members", `{"email":"a@example.com","role":"viewer"}`, m.withSession()...).ok(201, &invited)
	requireLimited(t, w.do("POST", "/auth/members", `{"email":"b@example.com","role":"viewer"}`, m.withSession()...))
	requireLimited(t, w.do("POST", "/auth/members/"+invited.ID.String()+"/role", `{"role":"finance"}`, m.withSession()...))
	w.do("POST", "/auth/members/"+invited.ID.String()+"/remove", "", m.withSession()...).ok(200, nil)
}

// A tenant whose look-ups wait for the bank, as many as may, is told so and when to come again;
// another's look-up goes on.
func TestLookupsThatWaitAreBounded(t *testing.T) {
	w := setup(t)
	greedy, other := w.onboard(), w.onboard()
	o := w.opts.Transfers.Options
	o.Bank = w.bankClient(w.opts.Log, 1) // a busy machine asks for more than that, too
	t.Cleanup(w.opts.Transfers.Close)    // setup closes the other
	w.opts.Transfers = transfer.New(o)
	w.serve()
	look := func(m member, n int) reply {
		return w.do("POST", "/v1/transfers/lookup", fmt.Sprintf(`{"bankCode":"058","accountNumber":"01%08d"}`, n), m.withKey()...)
	}
	var all sync.WaitGroup
	refused := make(chan reply, 2*lookupsWaiting)
	for n := range 2 * lookupsWaiting {
		all.Go(func() {
			if r := look(greedy, n); r.Status == 429 {
				refused <- r
			}
		})
	}
	requireLimited(t, <-refused)
	look(other, 2*lookupsWaiting).ok(200, nil)
	all.Wait()

	// a settlement that needs a look-up is told the same, and not that the bank did not answer
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, greedy.withKey()...).ok(201, nil)
	settlements := make(chan reply, 2*lookupsWaiting)
	for n := range 2 * lookupsWaiting {
		all.Go(func() {
			order := fmt.Sprintf(`{"amount":"1.00","bankCode":"058","accountNumber":"02%08d","accountName":"Somebody"}`, n)
			settlements <- w.do("POST", "/v1/accounts/shop-1/settle", order, greedy.withKey()...)
		})
	}
	all.Wait()
	close(settlements)
	limited := 0
	for r := range settlements {
		if r.Status == 400 {
			r.refused(400, "account name mismatch")
			continue
		}
		requireLimited(t, r)
		limited++
	}
	require.Positive(t, limited)
}

// Accounts that are asked for faster than the bank may be called are told to wait. That is neither
// an error of the bank nor of the request.
func TestAccountsThatHaveNoTurn(t *testing.T) {
	w := setup(t)
	many, other := w.onboard(), w.onboard()
	bank, err := nomba.New(nomba.Options{
		URL: w.bankURL, AccountID: fakebank.DefaultAccountID, ClientID: fakebank.DefaultClientID, ClientSecret: fakebank.DefaultClientSecret,
		Clock: w.Clock, Log: w.opts.Log, RequestsPerSec: -1, PostsPerSec: 1, Timeout: 10 * time.Second,
	})
	require.NoError(t, err)
	o := w.opts.Accounts.Options
	o.Bank = bank
	w.opts.Accounts = account.New(o)
	w.serve()
	create := func(m member, n int) reply {
		return w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":"shop-%d","name":"Ada Obi"}`, n), m.withKey()...)
	}
	// Calls of the tenant that wait longer than a request may: who comes later has no turn in time.
	ctx, leave := context.WithCancel(provider.Patient(provider.ForTenant(t.Context(), many.id)))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { _, _ = bank.CreateAccount(ctx, provider.NewAccount{Ref: uuid.NewString(), Name: "Ada Obi"}) })
	}
	n := 0
	testenv.Eventually(t, time.Minute, "an account that has no turn", func() bool {
		n++
		r := create(many, n)
		if r.Status == 201 { // it came before those
			return false
		}
		requireLimited(t, r)
		return true
	})
	create(other, 1).ok(201, nil)
	leave()
	all.Wait()
	for n := range n + 1 { // and may be tried again
		create(many, n).ok(201, nil)
	}
}
