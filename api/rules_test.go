package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/safehttp"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/webhook"
)

// The specification's own lists of what a session opens and what nothing is asked for, against the
// table of routes, which TestCredentials tries over HTTP.
func TestCredentialsAreTheSpecifiedOnes(t *testing.T) {
	spec.Shows(t, "auth.key.header", "auth.session.me", "auth.session.rotate-key", "auth.session.business-kyc", "auth.session.misdirected",
		"auth.session.approve", "auth.session.reject", "auth.open.register", "auth.open.login", "auth.open.verify-email", "auth.open.health",
		"auth.open.provider", "event.out.dead-letters.informational", "version.prefix", "version.no-prefix", "endpoint.misdirected.credential",
		"endpoint.fees.key")
	w := setup(t)
	m := w.onboard()
	specified := map[string]Credential{
		"GET /auth/me": Session, "POST /auth/rotate-key": Session, "POST /auth/business-kyc": Session, "GET /auth/misdirected": Session,
		"POST /auth/customers/:id/kyc/approve": Session, "POST /auth/customers/:id/kyc/reject": Session,
		"POST /register": None, "POST /auth/login": None, "POST /auth/verify-email": None, "GET /health": None, "POST /webhooks/provider": Signature,
	}
	for _, r := range Routes {
		name := r.Method + " " + r.Path
		require.Equal(t, strings.HasPrefix(r.Path, "/v1/"), r.Credential == Key, name)
		if strings.Contains(r.Path, "dead-letters") {
			require.Equal(t, "GET /v1/webhooks/dead-letters", name)
		}
		want, listed := specified[name]
		if !listed {
			continue
		}
		delete(specified, name)
		require.Equal(t, want, r.Credential, name)
		switch want {
		case Session:
			w.do(r.Method, path(r), "").refused(401, "unauthorized")
			w.do(r.Method, path(r), "", m.withKey()...).refused(401, "unauthorized")
		case None:
			require.NotContains(t, []int{401, 403}, w.do(r.Method, r.Path, "").Status, name)
		default:
			w.do(r.Method, r.Path, "").ok(200, nil)
			require.Equal(t, "sig_invalid", testenv.Value[string](w.Env, `SELECT category FROM inbound_events`))
		}
	}
	require.Empty(t, specified)
}

// After it was given out, the key is in no answer, and only its hash in the database.
func TestKeyIsGivenOnce(t *testing.T) {
	spec.Shows(t, "auth.key.once", "auth.key.hash", "endpoint.verify-email.once")
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", bodies["/v1/accounts"], m.withKey()...).ok(201, nil)
	hash := sha256.Sum256([]byte(m.key))
	require.Equal(t, hash[:], testenv.Value[[]byte](w.Env, `SELECT hash FROM api_keys WHERE tenant_id = $1`, m.id))
	require.NotContains(t, testenv.Value[string](w.Env, `SELECT t::text FROM tenants t WHERE id = $1`, m.id), m.key)
	for _, r := range Routes {
		if r.Method == "GET" {
			for _, h := range []header{m.withKey(), m.withSession()} {
				require.NotContains(t, w.do("GET", path(r), "", h...).Body, m.key, r.Path)
			}
		}
	}
	login := w.do("POST", "/auth/login", `{"email":"`+m.email+`","password":"`+password+`"}`).ok(200, nil)
	require.NotContains(t, login.Body, m.key)
}

// A delivery goes to the account's own URL, else to the tenant's; the secret of POST
// /auth/webhook-secret verifies it, and its group finds the entry in the statement.
func TestWhereDeliveriesGo(t *testing.T) {
	spec.Shows(t, "auth.webhook-secret.obtained", "auth.webhook-secret.verifies", "event.out.post", "event.out.callback", "event.out.tenant-url",
		"event.out.field.group", "event.out.group.lookup", "event.in.transaction.alias", "event.in.transaction.narration",
		"endpoint.webhook-url.used", "endpoint.provision.callback-url")
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	type call struct {
		request, signature string
		body               []byte
	}
	got := make(chan call, 1)
	tenant := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- call{r.Method + " " + r.URL.Path, r.Header.Get("X-Service-Signature"), body}
	}))
	t.Cleanup(tenant.Close)
	client := safehttp.New(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	deliveries := webhook.New(webhook.Options{Pool: w.Pool, Clock: w.Clock, Box: w.opts.Tenants.Box, Client: client, Delays: defaults.DeliveryDelays})
	t.Cleanup(func() { deliveries.Close(); client.Close() })

	var s struct{ WebhookSecret string }
	w.do("POST", "/auth/webhook-secret", "", key...).ok(200, &s)
	w.do("POST", "/auth/webhook-url", `{"url":"`+tenant.URL+`/tenant"}`, key...).ok(200, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"plain","name":"Ada Obi"}`, key...).ok(201, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"own","name":"Ada Obi","callbackUrl":"`+tenant.URL+`/account"}`, key...).ok(201, nil)
	for ref, want := range map[string]string{"plain": "POST /tenant", "own": "POST /account"} {
		w.pay(event{"r-" + ref, "t-" + ref, ref, "5000.00", "10.5"})
		claimed := deliveries.Claim(context.Background(), []uuid.UUID{testenv.Value[uuid.UUID](w.Env, `SELECT id FROM deliveries WHERE status = 'pending'`)})
		require.NoError(t, deliveries.Attempt(context.Background(), claimed[0]))
		c := <-got
		require.Equal(t, want, c.request)
		at, digest, ok := strings.Cut(strings.TrimPrefix(c.signature, "t="), ",v1=")
		require.True(t, ok, c.signature)
		mac := hmac.New(sha256.New, []byte(s.WebhookSecret))
		_, _ = mac.Write(append([]byte(at+"."), c.body...))
		require.Equal(t, hex.EncodeToString(mac.Sum(nil)), digest)

		var event struct{ TransactionGroupID uuid.UUID }
		require.NoError(t, json.Unmarshal(c.body, &event))
		var statement struct {
			Lines []struct {
				Entry struct {
					TransactionGroupID uuid.UUID
					Narration          string
				}
			}
		}
		w.do("GET", "/v1/accounts/"+ref+"/statement", "", key...).ok(200, &statement)
		require.Len(t, statement.Lines, 1)
		require.Equal(t, event.TransactionGroupID, statement.Lines[0].Entry.TransactionGroupID)
		require.Equal(t, "Rent & more", statement.Lines[0].Entry.Narration)
	}
}

// Neither a settlement, to its end, nor an expiry is published to a tenant that has a URL.
func TestOnlyPaymentsAreDelivered(t *testing.T) {
	spec.Shows(t, "event.out.silent", "endpoint.settle.pending")
	w := setup(t)
	_, key := w.funded("5000.00")
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/hook"}`, key...).ok(200, nil)
	// one that is paid, one that does not exist
	for _, number := range []string{"0123456789", "0001234567"} {
		w.advance(w.settle(key, `{"amount":"100.00","bankCode":"058","accountNumber":"`+number+`"}`))
	}
	require.Equal(t, "failed,success", testenv.Value[string](w.Env, `SELECT string_agg(status, ',' ORDER BY status) FROM transfers`))
	w.do("POST", "/v1/accounts/shop-1/expire", "", key...).ok(200, nil)
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM deliveries`))
}

// The calculator goes by the table that it is given, the specification's unless another is set.
func TestFeesFollowTheTable(t *testing.T) {
	spec.Shows(t, "limit.fee.table", "version.fees")
	for _, c := range []struct{ tiers, amount, fee, send string }{
		{"", "44975", "25.00", "45000.00"},
		{"999.99=5.00,*=7.50", "44975", "7.50", "44982.50"},
	} {
		t.Run(c.fee, func(t *testing.T) {
			w := setup(t, func(o *Options) {
				if c.tiers != "" {
					o.Fees = nil
					require.NoError(t, o.Fees.UnmarshalText([]byte(c.tiers)))
				}
			})
			w.do("GET", "/v1/fees/calculate?amount="+c.amount, "", w.onboard().withKey()...).ok(200, nil).has(
				`{"receive_amount":"44975.00","provider_fee":"` + c.fee + `","send_amount":"` + c.send + `"}`)
		})
	}
}

func (r reply) has(body string) {
	r.t.Helper()
	require.Equal(r.t, body, r.Body)
}
