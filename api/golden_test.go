package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

var volatile = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "uuid"},
	{regexp.MustCompile(`ajo_[0-9A-Za-z]{49}`), "key"},
	{regexp.MustCompile(`AJ[OR][0-9a-f]{32}`), "ref"},
	{regexp.MustCompile(`…[0-9A-Za-z]{4}`), "suffix"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "secret"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`), "time"},
	{regexp.MustCompile(`"[A-E][A-Za-z0-9_-]{22}"|"[A-E][A-Za-z0-9_-]{17}"`), "cursor"},
}

// golden compares a body with testdata/<name>.golden.json, which pins field names, casing, order
// and form. What differs from run to run is replaced by its kind and a number: the same number is
// the same value.
func golden(t *testing.T, name string, r reply) {
	t.Helper()
	text := []byte(r.Body)
	for _, v := range volatile {
		seen := map[string]string{}
		text = v.form.ReplaceAllFunc(text, func(b []byte) []byte {
			if seen[string(b)] == "" {
				seen[string(b)] = fmt.Sprintf("<%s %d>", v.name, len(seen)+1)
			}
			if b[0] == '"' {
				return []byte(`"` + seen[string(b)] + `"`)
			}
			return []byte(seen[string(b)])
		})
	}
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, text, "", "  "), r.Body)
	out.WriteByte('\n')
	file := filepath.Join("testdata", name+".golden.json")
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run `go test ./api -update`, and look at what it wrote")
	require.Equal(t, string(want), out.String(), name)
}

func TestGoldenOnboarding(t *testing.T) {
	spec.Shows(t, "field.tenant.name", "field.tenant.status", "field.tenant.kyc.unverified", "field.tenant.kyc.verified",
		"field.tenant.business.null", "field.tenant.webhook", "field.tenant.webhook.unset", "field.case.tenant", "state.tenant-kyc.verified",
		"endpoint.register", "endpoint.register.status", "endpoint.register.code", "endpoint.verify-email", "endpoint.login", "endpoint.login.body",
		"endpoint.logout.body", "endpoint.health", "endpoint.me", "endpoint.rotate-key", "endpoint.business-kyc", "endpoint.webhook-url",
		"endpoint.webhook-secret", "endpoint.misdirected.null")
	spec.Shows(t, "auth.key.obtained", "auth.session.login", "auth.session.httponly", "auth.session.cookie-life", "error.200")
	w := setup(t)
	registered := w.do("POST", "/register", `{"name":"Ada Stores","email":"ada@example.com","password":"correct horse","unknown":[{"a":1}]}`)
	golden(t, "register", registered.ok(201, nil))
	var id struct{ TenantID string }
	registered.ok(201, &id)
	golden(t, "verify-email", w.do("POST", "/auth/verify-email",
		fmt.Sprintf(`{"tenantId":%q,"otp":%q}`, id.TenantID, w.mails.code(t, "ada@example.com"))).ok(200, nil))
	login := w.do("POST", "/auth/login", `{"email":"ada@example.com","password":"correct horse"}`).ok(200, nil)
	golden(t, "login", login)
	require.Regexp(t, `^service_session=[A-Za-z0-9_-]{43}; max-age=604800; path=/; HttpOnly; SameSite=Lax$`, login.Header.Get("Set-Cookie"))
	cookie := login.Header.Get("Set-Cookie")[:len("service_session=")+43]

	golden(t, "me-new", w.do("GET", "/auth/me", "", "Cookie", cookie).ok(200, nil))
	golden(t, "business-kyc", w.do("POST", "/auth/business-kyc", `{"businessType":"ngo","cacNumber":"RC 1"}`, "Cookie", cookie).ok(200, nil))
	golden(t, "webhook-url", w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/hook?a=1&b=2"}`, "Cookie", cookie).ok(200, nil))
	golden(t, "webhook-secret", w.do("POST", "/auth/webhook-secret", "", "Cookie", cookie).ok(200, nil))
	golden(t, "rotate-key", w.do("POST", "/auth/rotate-key", "", "Cookie", cookie).ok(200, nil))
	golden(t, "me", w.do("GET", "/auth/me", "", "Cookie", cookie).ok(200, nil))
	golden(t, "misdirected-none", w.do("GET", "/auth/misdirected", "", "Cookie", cookie).ok(200, nil))
	logout := w.do("POST", "/auth/logout", "", "Cookie", cookie).ok(200, nil)
	golden(t, "logout", logout)
	require.Regexp(t, `^service_session=; expires=Thu, 01 Jan 1970 .*; path=/; HttpOnly; SameSite=Lax$`, logout.Header.Get("Set-Cookie"))
	golden(t, "health", w.do("GET", "/health", "").ok(200, nil))
	golden(t, "ready", w.do("GET", "/ready", "").ok(200, nil))
}

func TestGoldenAccounts(t *testing.T) {
	spec.Shows(t, "field.json.answer", "field.money.string", "field.money.expected", "field.money.inbound", "field.money.currency",
		"field.case.request", "field.case.records", "field.case.balance", "field.case.statement", "field.case.pagination", "field.time",
		"field.uuid", "field.account.provider", "field.account.number", "field.account.name", "field.account.bank", "field.account.currency",
		"field.account.status.active", "field.account.type.dedicated", "field.account.type.onetime", "field.account.callback",
		"field.account.callback.null", "field.account.expected", "field.account.expected.null", "field.account.expires",
		"field.account.expires.null", "field.entry.id", "field.entry.credit", "field.entry.currency", "field.entry.status.provisional",
		"field.line.entry", "field.deadletter.id", "field.deadletter.status", "field.inbound.signature", "field.inbound.status",
		"field.inbound.category", "field.inbound.error", "field.inbound.retries", "state.account.created", "state.account.created.history",
		"endpoint.provider.body", "endpoint.misdirected", "endpoint.accounts.create", "endpoint.accounts.list", "endpoint.accounts.get",
		"endpoint.accounts.balance", "endpoint.accounts.history", "endpoint.statement", "endpoint.provision.external-ref", "endpoint.provision.name",
		"endpoint.provision.expected-amount", "endpoint.provision.expires-at", "endpoint.provision.mode", "endpoint.provision.mode.default",
		"endpoint.statement.account", "endpoint.statement.lines", "endpoint.statement.opening", "endpoint.statement.credits",
		"endpoint.statement.pagination", "endpoint.statement.aggregates", "endpoint.dead-letters")
	spec.Shows(t, "event.out.dead-letters", "event.in.transaction.id", "event.in.category.misdirected.visible", "error.201", "limit.page.accounts",
		"limit.page.statement")
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	golden(t, "accounts-none", w.do("GET", "/v1/accounts", "", key...).ok(200, nil))
	golden(t, "account-created", w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","bvn":"22222222222"}`, key...).ok(201, nil))
	golden(t, "account-onetime", w.do("POST", "/v1/accounts", `{"externalRef":"order-7","name":"Ada Obi","mode":"onetime","expectedAmount":5000.5,
		"expiresAt":"2026-03-02T11:00:00+01:00","callbackUrl":"https://example.com/cb"}`, key...).ok(201, nil))
	golden(t, "account", w.do("GET", "/v1/accounts/shop-1", "", key...).ok(200, nil))
	golden(t, "accounts", w.do("GET", "/v1/accounts?limit=1", "", key...).ok(200, nil))
	golden(t, "history", w.do("GET", "/v1/accounts/shop-1/history", "", key...).ok(200, nil))
	golden(t, "statement-none", w.do("GET", "/v1/accounts/shop-1/statement", "", key...).ok(200, nil))

	w.pay(event{"r-1", "t-1", "shop-1", "5000.00", "10.5"})
	w.pay(event{"r-2", "t-2", "shop-1", "100", "0"})
	golden(t, "balance", w.do("GET", "/v1/accounts/shop-1/balance", "", key...).ok(200, nil))
	golden(t, "statement", w.do("GET", "/v1/accounts/shop-1/statement?limit=1", "", key...).ok(200, nil))

	golden(t, "provider-webhook", w.send(event{"r-3", "t-3", "nobody", "1", "0"}).ok(200, nil))
	w.pay(event{"r-4", "t-4", "nobody at all", "1", "0"})
	golden(t, "misdirected", w.do("GET", "/auth/misdirected", "", m.withSession()...).ok(200, nil))

	golden(t, "dead-letters-none", w.do("GET", "/v1/webhooks/dead-letters", "", key...).ok(200, nil))
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
		SELECT $1, $2, id, $1, 'payment.received', 'https://example.com/cb', '{}', 'dead_letter', 6, 'HTTP 500', $3 FROM accounts WHERE tenant_id = $2 LIMIT 1`,
		uuid.New(), m.id, w.Clock.Now())
	golden(t, "dead-letters", w.do("GET", "/v1/webhooks/dead-letters", "", key...).ok(200, nil))
}
