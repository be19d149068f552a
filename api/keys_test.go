package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/spec"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// keyAnswer is the answer with a new key.
type keyAnswer struct {
	APIKey, Warning string
	Key             struct {
		ID                    uuid.UUID
		Name, Suffix, Status  string
		Main                  bool
		Scopes, Networks      []string
		ExpiresAt, LastUsedAt *time.Time
		LastUsedFrom          *string
	}
}

// newKey makes a key of the tenant over HTTP.
func (w *world) newKey(m member, name string, scopes []tenant.Scope, networks ...string) keyAnswer {
	w.T.Helper()
	body, err := json.Marshal(map[string]any{"name": name, "scopes": scopes, "networks": networks, "password": password})
	require.NoError(w.T, err)
	var k keyAnswer
	w.do("POST", "/auth/keys", string(body), m.withSession()...).ok(201, &k)
	return k
}

// Every route that takes an API key has a scope, or stands among those that need none with the
// reason. A key with all scopes but the route's is refused, with a text that names it, and changes
// nothing; a key with that scope alone is let in, as the main key is.
func TestRoutesAndScopes(t *testing.T) {
	spec.Shows(t, "auth.roles")
	w := setup(t)
	m := w.onboard()
	w.belongings(m)
	lacks, only := map[tenant.Scope]string{}, map[tenant.Scope]string{}
	with := func(name string, scopes []tenant.Scope) string { // over HTTP the password may be tried ten times
		n := tenant.NewKey{Name: name}
		for _, s := range scopes {
			n.Scopes = append(n.Scopes, string(s))
		}
		key, _, err := w.opts.Tenants.CreateKey(t.Context(), m.id, tenant.Member{Role: tenant.Owner}, n, audit.Session(m.email, netip.Addr{}))
		require.NoError(t, err)
		return key.Reveal()
	}
	for i, s := range tenant.Scopes {
		others := append(append([]tenant.Scope{}, tenant.Scopes[:i]...), tenant.Scopes[i+1:]...)
		lacks[s], only[s] = with("lacks "+string(s), others), with("only "+string(s), tenant.Scopes[i:i+1])
	}
	reasons, used, before := maps.Clone(unscoped), map[tenant.Scope]bool{}, w.rows(m)
	allowed := func(r Route, key string) {
		t.Helper()
		got := w.do(r.Method, path(r), probes[r.Method+" "+r.Path].body, "X-API-Key", key)
		require.NotContains(t, []int{401, 403, 500}, got.Status, "%s %s: %s", r.Method, r.Path, got.Body)
	}
	for _, r := range Routes { // first all that is refused
		at := endpoint{r.Method, r.Path}
		switch {
		case r.Credential != Key && r.Credential != SessionOrKey:
			require.Empty(t, r.Scope, "%v takes no API key", at)
			require.Empty(t, unscoped[at], at)
		case r.Scope == anyScope:
			require.NotEmpty(t, reasons[at], "%v needs a scope, or a reason in unscoped", at)
			delete(reasons, at)
		default:
			require.Contains(t, tenant.Scopes, r.Scope, at)
			require.Empty(t, unscoped[at], "%v has both", at)
			used[r.Scope] = true
			w.do(r.Method, path(r), probes[r.Method+" "+r.Path].body, "X-API-Key", lacks[r.Scope], "Idempotency-Key", "without the scope").
				refused(403, "this API key lacks the scope "+string(r.Scope))
		}
	}
	require.Empty(t, reasons, "reasons of routes that need a scope, or are no more")
	require.Len(t, used, len(tenant.Scopes), "a scope that opens nothing")
	require.Equal(t, before, w.rows(m), "a refused request has changed nothing")
	for _, r := range Routes {
		if r.Scope != anyScope {
			allowed(r, only[r.Scope])
			allowed(r, m.key)
		}
	}
	for at := range unscoped {
		allowed(Route{Method: at.method, Path: at.route}, only[tenant.HoldsRead])
	}
	w.do("GET", "/v1/nothing", "", "X-API-Key", only[tenant.HoldsRead]).refused(404, "not found")
	// A session is not asked for a scope.
	w.do("POST", "/auth/webhook-secret", "", m.withSession()...).ok(200, nil)
}

// A customer's account is an account: a key that reads customers alone does not see where its
// events go, with what stands in that URL, nor what is expected and shared out.
func TestACustomersAccountNeedsTheScopeOfAccounts(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	customer := w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":"https://shop.example/hook?token=a"}`, 201, m.withKey())["CustomerID"].(string)
	at := "/v1/customers/" + customer + "/account"
	w.do("GET", at, "", "X-API-Key", w.newKey(m, "KYC", []tenant.Scope{tenant.CustomersRead, tenant.CustomersWrite}).APIKey).refused(403, "this API key lacks the scope accounts:read")
	w.do("GET", at, "", "X-API-Key", w.newKey(m, "Accounts", []tenant.Scope{tenant.AccountsRead}).APIKey).ok(200, nil)
}

// The list shows keys without their secret; one that is revoked, expired or out of its overlap is
// as unknown as any other.
func TestKeysOverTheirLife(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	hook := func(key string) reply { return w.do("GET", "/v1/accounts", "", "X-API-Key", key) }
	list := func() (names []string) {
		var page struct {
			Keys []struct{ Name, Status string }
		}
		r := w.do("GET", "/auth/keys", "", m.withSession()...).ok(200, &page)
		require.NotContains(t, r.Body, "ajo_")
		for _, k := range page.Keys {
			names = append(names, k.Name+" "+k.Status)
		}
		return names
	}
	reader := w.newKey(m, " Reader ", []tenant.Scope{tenant.AccountsRead, tenant.AccountsRead})
	require.Equal(t, "Reader", reader.Key.Name)
	require.Equal(t, []string{"accounts:read"}, reader.Key.Scopes)
	require.Equal(t, tenant.KeyWarning, reader.Warning)
	require.True(t, strings.HasSuffix(reader.APIKey, strings.TrimPrefix(reader.Key.Suffix, "…")))
	hook(reader.APIKey).ok(200, nil)

	var next keyAnswer
	w.do("POST", "/auth/keys/"+reader.Key.ID.String()+"/rotate", `{"overlap":3600}`, m.withSession()...).ok(200, &next)
	require.Equal(t, []string{"Reader", "accounts:read"}, []string{next.Key.Name, next.Key.Scopes[0]})
	hook(reader.APIKey).ok(200, nil)
	hook(next.APIKey).ok(200, nil)
	w.do("POST", "/auth/keys/"+reader.Key.ID.String()+"/rotate", `{}`, m.withSession()...).refused(409, "key has already been rotated")
	require.Equal(t, []string{"Reader active", "Reader rotating", "Main key active"}, list())
	w.Clock.Advance(time.Hour)
	hook(reader.APIKey).refused(401, "unauthorized")
	hook(next.APIKey).ok(200, nil)
	w.do("POST", "/auth/keys/"+reader.Key.ID.String()+"/rotate", `{}`, m.withSession()...).refused(422, "key is expired or revoked")

	w.do("POST", "/auth/keys/"+next.Key.ID.String()+"/revoke", "", m.withSession()...).ok(200, nil)
	hook(next.APIKey).refused(401, "unauthorized")
	again := w.do("POST", "/auth/keys/"+next.Key.ID.String()+"/revoke", "", m.withSession()...).ok(200, nil)
	require.Contains(t, again.Body, `"status":"revoked"`)

	soon := w.Clock.Now().Add(time.Minute)
	var short keyAnswer
	w.do("POST", "/auth/keys", fmt.Sprintf(`{"name":"Short","scopes":["accounts:read"],"expiresAt":%q}`, soon.Format(time.RFC3339Nano)), m.withSession()...).ok(201, &short)
	hook(short.APIKey).ok(200, nil)
	w.Clock.Advance(time.Minute)
	hook(short.APIKey).refused(401, "unauthorized")
	require.Equal(t, []string{"Short expired", "Reader revoked", "Reader expired", "Main key active"}, list())
	w.do("POST", "/auth/keys/"+uuid.NewString()+"/revoke", "", m.withSession()...).refused(404, "key not found")
	w.do("POST", "/auth/keys/none/rotate", `{}`, m.withSession()...).refused(404, "key not found")
}

// The specification's rotate-key replaces the main key alone; the main key can be rotated with an
// overlap, and be revoked.
func TestTheMainKey(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	hook := func(key string) reply { return w.do("GET", "/v1/accounts", "", "X-API-Key", key) }
	suffix := func() string {
		var me struct{ APIKeySuffix string }
		w.do("GET", "/auth/me", "", m.withSession()...).ok(200, &me)
		return me.APIKeySuffix
	}
	main := func() (id uuid.UUID) {
		return testenv.Value[uuid.UUID](w.Env, `SELECT id FROM api_keys WHERE tenant_id = $1 AND main`, m.id)
	}
	other := w.newKey(m, "Reader", []tenant.Scope{tenant.AccountsRead})
	require.Equal(t, "…"+m.key[len(m.key)-4:], suffix())
	var rotated struct{ APIKey string }
	for body, why := range map[string]string{`{"":tru}`: "invalid JSON body", `{"code":7}`: "code must be a string"} {
		w.do("POST", "/auth/rotate-key", body, m.withSession()...).refused(400, why)
	}
	hook(m.key).ok(200, nil)
	w.do("POST", "/auth/rotate-key", "", m.withSession()...).ok(200, &rotated)
	hook(m.key).refused(401, "unauthorized")
	hook(rotated.APIKey).ok(200, nil)
	hook(other.APIKey).ok(200, nil)
	require.Equal(t, "…"+rotated.APIKey[len(rotated.APIKey)-4:], suffix())

	var next keyAnswer
	w.do("POST", "/auth/keys/"+main().String()+"/rotate", proven(`{"overlap":60}`), m.withSession()...).ok(200, &next)
	require.True(t, next.Key.Main)
	require.Equal(t, next.Key.Suffix, suffix())
	require.Len(t, next.Key.Scopes, len(tenant.Scopes))
	hook(rotated.APIKey).ok(200, nil)
	hook(next.APIKey).ok(200, nil)
	// rotate-key turns the main key alone: the one in its overlap goes on until it ends
	var last struct{ APIKey string }
	w.do("POST", "/auth/rotate-key", "", m.withSession()...).ok(200, &last)
	hook(rotated.APIKey).ok(200, nil)
	hook(next.APIKey).refused(401, "unauthorized")
	w.Clock.Advance(time.Minute)
	hook(rotated.APIKey).refused(401, "unauthorized")

	w.do("POST", "/auth/keys/"+main().String()+"/revoke", "", m.withSession()...).ok(200, nil)
	hook(last.APIKey).refused(401, "unauthorized")
	require.Empty(t, suffix())
	hook(other.APIKey).ok(200, nil)
	w.do("POST", "/auth/rotate-key", "", m.withSession()...).ok(200, &last)
	hook(last.APIKey).ok(200, nil)
}

func TestNewKeysAreChecked(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	many := strings.Repeat(`"10.0.0.1",`, 21)
	for body, want := range map[string]string{
		`{"scopes":["accounts:read"]}`:                                           "name must have 1 to 100 characters, without control characters",
		`{"name":"a\nb","scopes":["accounts:read"]}`:                             "name must have 1 to 100 characters, without control characters",
		`{"name":"` + strings.Repeat("é", 101) + `","scopes":["accounts:read"]}`: "name must have 1 to 100 characters, without control characters",
		`{"name":"a"}`:             "scopes must name at least one scope",
		`{"name":"a","scopes":[]}`: "scopes must name at least one scope",
		`{"name":"a","scopes":["accounts:read","payouts:*"]}`:                                "scopes[1] is not a scope",
		`{"name":"a","scopes":"accounts:read"}`:                                              "scopes must be an array of strings",
		`{"name":"a","scopes":["accounts:read"],"expiresAt":"2020-01-01T00:00:00Z"}`:         "expiresAt must be in the future",
		`{"name":"a","scopes":["accounts:read"],"networks":["shop.example"]}`:                "networks[0] must be an IP address or a range such as 203.0.113.0/24 or 2001:db8::/32",
		`{"name":"a","scopes":["accounts:read"],"networks":["fe80::1%eth0"]}`:                "networks[0] must be an IP address or a range such as 203.0.113.0/24 or 2001:db8::/32",
		`{"name":"a","scopes":["accounts:read"],"networks":["10.0.0.1","203.0.113.9/24"]}`:   "networks[1] has host bits set; the range is 203.0.113.0/24",
		`{"name":"a","scopes":["accounts:read"],"networks":["::ffff:0.0.0.0/90"]}`:           "networks[0] must be an IP address or a range such as 203.0.113.0/24 or 2001:db8::/32",
		`{"name":"a","scopes":["accounts:read"],"networks":[` + many[:len(many)-1] + `]}`:    "networks must have at most 20 entries",
		`{"name":"a","scopes":["accounts:read"],"networks":{"a":1}}`:                         "networks must be an array of strings",
		`{"name":"a","scopes":["accounts:read"],"expiresAt":"tomorrow","networks":["::/0"]}`: "expiresAt must be an ISO 8601 time such as 2026-01-30T12:15:00Z",
	} {
		w.do("POST", "/auth/keys", body, m.withSession()...).refused(400, want)
	}
	w.do("POST", "/auth/keys/"+uuid.NewString()+"/rotate", `{"overlap":604801}`, m.withSession()...).refused(400, "overlap must be a whole number from 0 to 604800")
	for i := range 49 {
		w.newKey(m, fmt.Sprint(i), []tenant.Scope{tenant.AccountsRead})
	}
	w.do("POST", "/auth/keys", `{"name":"one too many","scopes":["accounts:read"]}`, m.withSession()...).refused(422, "a tenant has at most 50 active keys")
	first := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM api_keys WHERE tenant_id = $1 AND main`, m.id)
	w.do("POST", "/auth/keys/"+first.String()+"/rotate", proven(`{"overlap":1}`), m.withSession()...).refused(422, "a tenant has at most 50 active keys")
	w.do("POST", "/auth/keys/"+first.String()+"/rotate", `{"password":"`+password+`"}`, m.withSession()...).ok(200, nil)
}

// A key that is restricted to networks is refused elsewhere, by the client's own address behind a
// proxy too; whoever has it there uses up nothing of the tenant's limit.
func TestKeyFromElsewhere(t *testing.T) {
	w := setup(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	m := w.onboard()
	k := w.newKey(m, "Office", []tenant.Scope{tenant.AccountsRead}, "203.0.113.0/24", "2001:db8:1::/48", "::ffff:198.51.100.7")
	from := func(addr string) reply {
		return w.do("GET", "/v1/accounts", "", "X-API-Key", k.APIKey, "X-Forwarded-For", addr)
	}
	require.Equal(t, []string{"203.0.113.0/24", "2001:db8:1::/48", "198.51.100.7/32"}, k.Key.Networks)
	for _, good := range []string{"203.0.113.0", "203.0.113.255", "::ffff:203.0.113.9", "2001:db8:1:ffff::1", "198.51.100.7", "10.0.0.1, 203.0.113.1"} {
		from(good).ok(200, nil)
	}
	for addr, shown := range map[string]string{
		"203.0.114.0": "203.0.114.0", "2001:db8:2::1": "2001:db8:2::1", "::ffff:203.0.112.9": "203.0.112.9", "": "127.0.0.1",
		"203.0.113.1, 198.51.100.8": "198.51.100.8", "nonsense": "127.0.0.1", "203.0.113.1, nonsense": "127.0.0.1",
	} {
		r := from(addr).refused(403, "this API key may not be used from "+shown)
		require.NotEmpty(t, r.Header.Get("RateLimit-Limit"))
	}
	// the address is refused before the scope is looked at
	w.do("POST", "/v1/accounts", bodies["/v1/accounts"], "X-API-Key", k.APIKey).refused(403, "this API key may not be used from 127.0.0.1")
	// an unknown path tells it nothing either
	w.do("GET", "/v1/nothing", "", "X-API-Key", k.APIKey).refused(403, "this API key may not be used from 127.0.0.1")
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, m.id)
	from("198.51.100.8").refused(403, "tenant is suspended")
}

func TestAStolenKeyUsesUpNothing(t *testing.T) {
	w := setup(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	m := w.onboard()
	k := w.newKey(m, "Office", []tenant.Scope{tenant.AccountsRead}, "203.0.113.0/24")
	w.limits("5-M", "100000-M")
	w.serve()
	call := func(key, addr string) reply {
		return w.do("GET", "/v1/accounts", "", "X-API-Key", key, "X-Forwarded-For", addr)
	}
	for range 5 {
		call(k.APIKey, "198.51.100.8").refused(403, "this API key may not be used from 198.51.100.8")
	}
	call(k.APIKey, "198.51.100.8").refused(429, "rate limit exceeded")
	// all keys of a tenant share its limit
	for i := range 5 {
		call([]string{m.key, k.APIKey}[i%2], "203.0.113.1").ok(200, nil)
	}
	call(m.key, "203.0.113.1").refused(429, "rate limit exceeded")
	call(k.APIKey, "203.0.113.1").refused(429, "rate limit exceeded")
}

// A request that is under way when its key is revoked ends as it began; the next one is refused.
func TestRevokedWhileARequestRuns(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	k := w.newKey(m, "Worker", []tenant.Scope{tenant.AccountsRead, tenant.AccountsWrite})
	var mu sync.Mutex
	var revoked bool // as far as everybody knows
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				mu.Lock()
				ended := revoked
				mu.Unlock()
				switch r := w.do("GET", "/v1/accounts", "", "X-API-Key", k.APIKey); {
				case r.Status == 200 && ended:
					t.Error("a revoked key was accepted")
				case r.Status != 200 && r.Status != 401:
					t.Errorf("%d %s", r.Status, r.Body)
				}
			}
		})
	}
	w.do("POST", "/auth/keys/"+k.Key.ID.String()+"/revoke", "", m.withSession()...).ok(200, nil)
	mu.Lock()
	revoked = true
	mu.Unlock()
	wg.Wait()
	w.do("GET", "/v1/accounts", "", "X-API-Key", k.APIKey).refused(401, "unauthorized")
}

// A split moves money between accounts: a key that may not do that sets none, and takes none away.
// The rest of an account it may change.
func TestASplitNeedsTheScopeOfTransfers(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	}
	writes := w.newKey(w.joins(m, tenant.Developer), "Writer", []tenant.Scope{tenant.AccountsRead, tenant.AccountsWrite}).APIKey
	moves := w.newKey(m, "Mover", []tenant.Scope{tenant.AccountsWrite, tenant.AccountsTransfer}).APIKey
	const all = `{"shares":[{"accountRef":"shop-2","percent":"100"}]}`
	before := w.rows(m)["accounts"]
	for _, split := range []string{all, `{"shares":[]}`, `{}`} {
		w.do("PATCH", "/v1/accounts/shop-1", `{"name":"Ada","split":`+split+`}`, "X-API-Key", writes).refused(403, "this API key lacks the scope accounts:transfer")
	}
	require.Equal(t, before, w.rows(m)["accounts"])
	w.do("PATCH", "/v1/accounts/shop-1", `{"name":"Ada","split":null}`, "X-API-Key", writes).ok(200, nil)
	for _, split := range []string{all, `{"shares":[]}`} {
		w.do("PATCH", "/v1/accounts/shop-1", `{"split":`+split+`}`, "X-API-Key", moves).ok(200, nil)
	}
}

// A policy that refunds payments has money leave, so it takes the scope of refunds as well.
func TestAPolicyThatRefundsNeedsTheScopeOfPayouts(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	writes := w.newKey(w.joins(m, tenant.Developer), "Writer", []tenant.Scope{tenant.AccountsWrite}).APIKey
	pays := w.newKey(m, "Payer", []tenant.Scope{tenant.AccountsWrite, tenant.PayoutsCreate}).APIKey
	before := w.rows(m)["accounts"]
	for _, row := range []string{"exact", "under", "over", "late"} {
		policy := `"policy":{"` + row + `":"refund"}`
		w.do("PATCH", "/v1/accounts/shop-1", `{"name":"Ada",`+policy+`}`, "X-API-Key", writes).refused(403, "this API key lacks the scope payouts:create")
		w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi",`+policy+`}`, "X-API-Key", writes).refused(403, "this API key lacks the scope payouts:create")
	}
	require.Equal(t, before, w.rows(m)["accounts"])
	for _, policy := range []string{`{"exact":"accept","under":"hold"}`, `{}`, `null`} {
		w.do("PATCH", "/v1/accounts/shop-1", `{"name":"Ada","policy":`+policy+`}`, "X-API-Key", writes).ok(200, nil)
	}
	w.do("PATCH", "/v1/accounts/shop-1", `{"policy":{"over":"refund"}}`, "X-API-Key", pays).ok(200, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi","policy":{"late":"refund"}}`, "X-API-Key", pays).ok(201, nil)
	w.do("POST", "/auth/accounts", `{"externalRef":"shop-3","name":"Ada Obi","policy":{"late":"refund"}}`, w.joins(m, tenant.Finance).withSession()...).ok(201, nil)
}

// An expected amount decides which payments a policy sends back, so a key that may not refund
// changes none beside such a policy, and what another key changes is in the audit log.
func TestAnExpectedAmountBesideARefundNeedsTheScopeOfPayouts(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","expectedAmount":5000,"policy":{"under":"hold","over":"refund"}}`, m.withKey()...).ok(201, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi","policy":{"over":"refund"}}`, m.withKey()...).ok(201, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-3","name":"Ada Obi","expectedAmount":5000}`, m.withKey()...).ok(201, nil)
	writes := w.newKey(w.joins(m, tenant.Developer), "Writer", []tenant.Scope{tenant.AccountsWrite}).APIKey
	pays := w.newKey(m, "Payer", []tenant.Scope{tenant.AccountsWrite, tenant.PayoutsCreate})
	change := func(ref, body, key string) reply {
		return w.do("PATCH", "/v1/accounts/"+ref, body, "X-API-Key", key)
	}
	const lacks = "this API key lacks the scope payouts:create"
	before := w.rows(m)["accounts"]
	for _, ref := range []string{"shop-1", "shop-2"} {
		for _, body := range []string{`{"expectedAmount":1}`, `{"expectedAmount":999999999,"name":"Ada","policy":null}`} {
			change(ref, body, writes).refused(403, lacks)
		}
	}
	require.Equal(t, before, w.rows(m)["accounts"])
	change("shop-1", `{"expectedAmount":5000.00,"name":"Ada"}`, writes).ok(200, nil) // as it was
	change("shop-2", `{"name":"Ada"}`, writes).ok(200, nil)
	change("shop-3", `{"expectedAmount":1,"policy":{"over":"hold"}}`, writes).ok(200, nil)
	change("shop-1", `{"expectedAmount":1}`, pays.APIKey).ok(200, nil)
	line := w.read(m.withSession(), "/auth/audit?action=account.change").list("entries")[0]
	policy := map[string]any{"under": "hold", "over": "refund"}
	line.has(t, fields{
		"actor":  "key:" + pays.Key.ID.String(),
		"before": map[string]any{"callbackUrl": "", "expectedAmount": "5000.00", "policy": policy, "split": nil},
		"after":  map[string]any{"callbackUrl": "", "expectedAmount": "1.00", "policy": policy, "split": nil},
	})
	change("shop-1", `{"expectedAmount":7,"policy":{}}`, writes).ok(200, nil) // nothing goes back by it any more
}

// From its end on, an account whose policy refunds late payments sends back all that is paid to it,
// so a key that may not refund does not end it, and the audit log has who did.
func TestAnEndBesideALateRefundNeedsTheScopeOfPayouts(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for ref, policy := range map[string]string{"shop-1": `{"late":"refund"}`, "shop-2": `{"late":"hold"}`, "shop-3": `{"over":"refund"}`} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi","policy":`+policy+`}`, m.withKey()...).ok(201, nil)
	}
	writes := w.newKey(w.joins(m, tenant.Developer), "Writer", []tenant.Scope{tenant.AccountsRead, tenant.AccountsWrite})
	pays := w.newKey(m, "Payer", []tenant.Scope{tenant.AccountsWrite, tenant.PayoutsCreate})
	before := w.rows(m)["accounts"]
	w.do("POST", "/v1/accounts/shop-1/expire", "", "X-API-Key", writes.APIKey).refused(403, "this API key lacks the scope payouts:create")
	require.Equal(t, before, w.rows(m)["accounts"])
	w.read([]string{"X-API-Key", writes.APIKey}, "/v1/accounts/shop-1").has(t, fields{"Status": "active"})
	for ref, key := range map[string]string{"shop-1": pays.APIKey, "shop-2": writes.APIKey, "shop-3": writes.APIKey} {
		w.ask("POST", "/v1/accounts/"+ref+"/expire", "", 200, []string{"X-API-Key", key}).has(t, fields{"Status": "expired"})
	}
	lines := w.read(m.withSession(), "/auth/audit?action=account.expire").list("entries")
	require.Len(t, lines, 2, "where a policy decides about what comes later")
	for _, l := range lines {
		after := l["after"].(map[string]any)
		require.Equal(t, map[string]string{"shop-1": "key:" + pays.Key.ID.String(), "shop-2": "key:" + writes.Key.ID.String()}[after["accountRef"].(string)], l["actor"])
	}
}

// A key pays without a password, and a policy decides which payouts need others. So whoever changes
// those gives the proof that a payout takes: a session that was left open is not enough. What pays
// nothing takes none, nor does the specification's rotate-key of an owner without a second factor.
func TestWhatPaysLaterTakesTheProof(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	at := m.withSession()
	const pays = `{"name":"Payer","scopes":["accounts:read","payouts:create"]}`
	w.do("POST", "/auth/keys", pays, at...).refused(400, "password is required")
	w.do("POST", "/auth/keys", withProof(pays, "password", "wrong horse"), at...).refused(400, "password is wrong")
	w.do("POST", "/auth/keys", `{"name":"Reader","scopes":["accounts:read","beneficiaries:write"]}`, at...).ok(201, nil)
	k := w.newKey(m, "Payer", []tenant.Scope{tenant.PayoutsCreate})
	rotate := "/auth/keys/" + k.Key.ID.String() + "/rotate"
	w.do("POST", rotate, `{"overlap":60}`, at...).refused(400, "password is required")
	exempt := "/auth/beneficiaries/" + w.ask("POST", "/v1/beneficiaries", `{"bankCode":"058","accountNumber":"0123456789"}`, 201, m.withKey())["id"].(string) + "/exempt"
	w.do("POST", exempt, `{"exempt":true}`, at...).refused(400, "password is required")
	w.do("POST", exempt, `{"exempt":false}`, at...).ok(200, nil)
	w.do("POST", "/auth/payout-policy", `{"approvals":0}`, at...).refused(400, "password is required")
	w.do("POST", "/auth/rotate-key", "", at...).ok(200, nil)

	safe := w.onboard()
	at = safe.withSession()
	shared, _ := w.factor(safe)
	for path, body := range map[string]string{"/auth/keys": pays, "/auth/payout-policy": `{"approvals":0}`} {
		w.do("POST", path, proven(body), at...).refused(400, "code is required")
	}
	w.do("POST", "/auth/rotate-key", "", at...).refused(400, "code is required")
	w.do("POST", "/auth/rotate-key", `{"code":"abc"}`, at...).refused(400, "code is wrong")
	w.do("POST", "/auth/rotate-key", fmt.Sprintf(`{"code":%q}`, w.totp(shared)), at...).ok(200, nil)
}

// Of several rotations of one key at once, one makes the new key; the others are told so.
func TestRotatedTwiceAtOnce(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	k := w.newKey(m, "Worker", []tenant.Scope{tenant.AccountsRead})
	var wg sync.WaitGroup
	statuses := make([]int, 6)
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = w.do("POST", "/auth/keys/"+k.Key.ID.String()+"/rotate", `{"overlap":60}`, m.withSession()...).Status
		})
	}
	wg.Wait()
	made := 0
	for _, s := range statuses {
		require.Contains(t, []int{200, 409}, s)
		if s == 200 {
			made++
		}
	}
	require.Equal(t, 1, made)
	require.Equal(t, 2, testenv.Value[int](w.Env, `SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND name = 'Worker'`, m.id))
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'keys.rotate'`, m.id))
}

// The last use is in the list, with its address, and written beside the requests.
func TestLastUse(t *testing.T) {
	w := setup(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	m := w.onboard()
	k := w.newKey(m, "Reader", []tenant.Scope{tenant.AccountsRead})
	used := func() (at *time.Time, from *string) {
		var page struct {
			Keys []struct {
				ID           uuid.UUID
				LastUsedAt   *time.Time
				LastUsedFrom *string
			}
		}
		w.do("GET", "/auth/keys", "", m.withSession()...).ok(200, &page)
		for _, one := range page.Keys {
			if one.ID == k.Key.ID {
				return one.LastUsedAt, one.LastUsedFrom
			}
		}
		return nil, nil
	}
	at, from := used()
	require.Nil(t, at)
	require.Nil(t, from)
	w.do("GET", "/v1/accounts", "", "X-API-Key", k.APIKey, "X-Forwarded-For", "2001:db8::7").ok(200, nil)
	testenv.Eventually(t, 20*time.Second, "the last use", func() bool { at, from = used(); return at != nil })
	require.Equal(t, w.Clock.Now(), at.UTC())
	require.Equal(t, "2001:db8::7", *from)
}
