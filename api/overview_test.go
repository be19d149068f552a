package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/secret"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// moveEntry moves the entry of an event, as the confirmation or an operator does.
func (w *world) moveEntry(requestID string, ev ledger.Event) {
	w.T.Helper()
	group := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE request_id = $1`, requestID)
	w.MoveCredit(group, ev)
}

func TestGoldenOverview(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	golden(t, "overview-none", w.do("GET", "/auth/overview", "", m.withSession()...).ok(200, nil))
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), m.withKey()...).ok(201, nil)
	}
	w.pay(event{"r-1", "t-1", "shop-1", "5000.00", "25"})
	w.Clock.Advance(24 * time.Hour)
	w.pay(event{"r-2", "t-2", "shop-2", "100.00", "0"})
	w.pay(event{"r-3", "t-3", "shop-2", "7.00", "0"})
	w.moveEntry("r-1", ledger.EventConfirm)
	w.moveEntry("r-3", ledger.EventHold)
	w.settle(m.withKey(), orderOf1000)
	golden(t, "overview", w.do("GET", "/auth/overview", "", m.withSession()...).ok(200, nil))
}

// What a session reads is what the key reads: the same handler answers both.
func TestSessionReadsWhatTheKeyReads(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	ref := w.settle(key, orderOf1000)
	customer := w.read(key, "/v1/accounts/shop-1")["CustomerID"].(string)
	for _, path := range []string{
		"/accounts", "/accounts?limit=1&search=shop", "/accounts/shop-1", "/accounts/shop-1/balance", "/accounts/shop-1/history", "/accounts/shop-1/statement",
		"/customers", "/customers/" + customer, "/transfers", "/transfers?accountRef=shop-1&status=pending", "/transfers/" + ref,
	} {
		want := w.do("GET", "/v1"+path, "", key...).ok(200, nil)
		got := w.do("GET", "/auth"+path, "", m.withSession()...).ok(200, nil)
		require.Equal(t, want.Body, got.Body, path)
		require.Empty(t, got.Header.Get("RateLimit-Limit"))
	}
	for _, path := range []string{"/accounts/nobody", "/accounts/nobody/balance", "/accounts/nobody/history", "/accounts/nobody/statement", "/transfers?accountRef=nobody"} {
		w.do("GET", "/auth"+path, "", m.withSession()...).refused(404, "account not found")
	}
	w.do("GET", "/auth/customers/"+uuid.NewString(), "", m.withSession()...).refused(404, "customer not found")
	w.do("GET", "/auth/customers/x", "", m.withSession()...).refused(404, "customer not found")
	w.do("GET", "/auth/transfers/x", "", m.withSession()...).refused(404, "transfer not found")
}

func TestLoginByLink(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	link := func() string {
		token, _, err := w.opts.Tenants.LoginLink(context.Background(), m.id, audit.By{Actor: "cli:ada", Reason: "a ticket"})
		require.NoError(t, err)
		return fmt.Sprintf(`{"token":%q}`, token.Reveal())
	}
	body := link()
	r := w.do("POST", "/auth/login-link", body).ok(200, nil)
	r.has(fmt.Sprintf(`{"tenantId":%q,"name":"Ada Stores"}`, m.id))
	require.Regexp(t, `^service_session=[A-Za-z0-9_-]{43}; max-age=604800; path=/; HttpOnly; SameSite=Lax$`, r.Header.Get("Set-Cookie"))
	w.read(header{"Cookie", r.Header.Get("Set-Cookie")[:len("service_session=")+43]}, "/auth/me").has(t, fields{"id": m.id.String()})

	again := w.do("POST", "/auth/login-link", body).refused(400, "invalid or expired link")
	require.Empty(t, again.Header.Get("Set-Cookie"))
	late := link()
	w.Clock.Advance(10 * time.Minute)
	w.do("POST", "/auth/login-link", late).refused(400, "invalid or expired link")
	w.do("POST", "/auth/login-link", fmt.Sprintf(`{"token":%q}`, secret.NewToken().Reveal())).refused(400, "invalid or expired link")
	w.do("POST", "/auth/login-link", `{}`).refused(400, "token is required")
	w.do("POST", "/auth/login-link", `{"token":7}`).refused(400, "token must be a string")

	shut := link()
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, m.id)
	w.do("POST", "/auth/login-link", shut).refused(403, "tenant is suspended")
}

// Trying tokens is limited by the address that tries.
func TestLoginLinksAreLimited(t *testing.T) {
	w := setup(t)
	w.limits("100-M", "3-M")
	w.serve()
	for range 3 {
		w.do("POST", "/auth/login-link", `{"token":"x"}`).refused(400, "invalid or expired link")
	}
	r := w.do("POST", "/auth/login-link", `{"token":"x"}`).refused(429, "rate limit exceeded")
	require.NotEmpty(t, r.Header.Get("Retry-After"))
}
