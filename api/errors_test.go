package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"

	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/spec"
)

// Every kind has a status of its own in the map, and the fixed text of a 500 hides whatever went
// wrong.
func TestEveryKindHasAStatus(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for kind := errs.Internal; kind <= errs.Unavailable; kind++ {
		status, text := explain(fmt.Errorf("wrapped: %w", errs.New(kind, "the text")))
		require.NotZero(t, statusOf[kind], kind)
		require.False(t, seen[status], "%d twice", status)
		seen[status] = true
		if kind == errs.Internal {
			require.Equal(t, "internal error", text)
		} else {
			require.Equal(t, "the text", text)
		}
	}
	require.Len(t, statusOf, len(seen))
	for err, want := range map[error]struct {
		status int
		text   string
	}{
		errors.New("pq: secret detail"):  {500, "internal error"},
		context.DeadlineExceeded:         {500, "internal error"},
		fiber.NewError(500, "detail"):    {500, "internal error"},
		fiber.NewError(404, "Cannot GE"): {404, "not found"},
		fiber.ErrMethodNotAllowed:        {405, "method not allowed"},
		fiber.ErrRequestEntityTooLarge:   {413, "request body too large"},
		fiber.ErrRequestTimeout:          {408, "request timeout"},
		fiber.NewError(400, "\x00raw"):   {400, "bad request"},
	} {
		status, text := explain(err)
		require.Equal(t, want.status, status)
		require.Equal(t, want.text, text)
	}
}

func TestRefusalsOverHTTP(t *testing.T) {
	spec.Shows(t, "field.money.expected", "field.json.request", "state.tenant-kyc.others", "endpoint.register.name", "endpoint.register.email",
		"endpoint.register.password", "endpoint.verify-email.tenant", "endpoint.verify-email.otp", "endpoint.business-kyc.type",
		"endpoint.business-kyc.cac", "endpoint.webhook-url.url", "endpoint.provision.external-ref", "endpoint.provision.expected-amount",
		"endpoint.provision.expires-at", "endpoint.provision.409", "endpoint.provision.502", "endpoint.page.size")
	spec.Shows(t, "auth.key.invalid", "auth.session.password", "auth.login.wrong", "error.body", "error.400.missing", "error.400.format", "error.404",
		"error.409", "error.502", "error.message.unauthorized", "error.message.account", "error.message.duplicate", "error.message.provider",
		"error.other.external-ref", "limit.password")
	w := setup(t)
	m := w.onboard()
	key, session := m.withKey(), m.withSession()
	const taken = `{"externalRef":"shop-1","name":"Ada Obi"}`
	w.do("POST", "/v1/accounts", taken, key...).ok(201, nil)
	for _, c := range []struct {
		method, path, body string
		headers            header
		status             int
		text               string
	}{
		{"GET", "/nothing", "", nil, 404, "not found"},
		{"GET", "/Health", "", nil, 404, "not found"},
		{"GET", "/health/", "", nil, 404, "not found"},
		{"GET", "/v1foo", "", nil, 404, "not found"},
		{"POST", "/health", "", nil, 405, "method not allowed"},
		{"DELETE", "/register", "", nil, 405, "method not allowed"},
		{"GET", "/v1/nothing", "", nil, 401, "unauthorized"},
		{"GET", "/v1/nothing", "", key, 404, "not found"},
		{"DELETE", "/v1/accounts", "", key, 405, "method not allowed"},

		{"POST", "/register", ``, nil, 400, "invalid JSON body"},
		{"POST", "/register", `{`, nil, 400, "invalid JSON body"},
		{"POST", "/register", `{"name":"A"} {}`, nil, 400, "invalid JSON body"},
		{"POST", "/register", `[]`, nil, 400, "request body must be a JSON object"},
		{"POST", "/register", `null`, nil, 400, "request body must be a JSON object"},
		{"POST", "/register", `{}`, nil, 400, "name is required"},
		{"POST", "/register", `{"Name":"A"}`, nil, 400, "name is required"},
		{"POST", "/register", `{"name":1}`, nil, 400, "name must be a string"},
		{"POST", "/register", `{"name":null}`, nil, 400, "name is required"},
		{"POST", "/register", `{"name":"A","name":"B"}`, nil, 400, `duplicate field "name"`},
		{"POST", "/register", `{"name":"A","NAME":"B"}`, nil, 400, `duplicate field "NAME"`},
		{"POST", "/register", `{"name":"A\u0000"}`, nil, 400, "name must not contain a NUL character"},
		{"POST", "/register", "{\"name\":\"\xff\"}", nil, 400, "invalid JSON body"},
		{"POST", "/register", `{"name":"A"}`, nil, 400, "email is required"},
		{"POST", "/register", `{"name":"A","email":"x"}`, nil, 400, "email is invalid"},
		{"POST", "/register", `{"name":"A","email":"a@example.com"}`, nil, 400, "password is required"},
		{"POST", "/register", `{"name":"A","email":"a@example.com","password":"1234567"}`, nil, 400, "password must be at least 8 characters"},
		{"POST", "/register", `{"name":"A","email":"a@example.com","password":12345678}`, nil, 400, "password must be a string"},
		{"POST", "/register", `name=A`, header{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type must be application/json"},
		{"POST", "/register", `{}`, header{"Content-Type", ""}, 415, "Content-Type must be application/json"},
		{"POST", "/register", `{}`, header{"Content-Type", "application/json; charset=utf-16"}, 415, "Content-Type must be application/json"},
		{"POST", "/register", `{}`, header{"Content-Encoding", "gzip"}, 415, "Content-Encoding is not supported"},
		{"POST", "/register", `{}`, header{"Content-Encoding", "identity"}, 415, "Content-Encoding is not supported"},
		{"POST", "/auth/verify-email", `{}`, nil, 400, "tenantId is required"},
		{"POST", "/auth/verify-email", `{"tenantId":"x"}`, nil, 400, "otp is required"},
		{"POST", "/auth/verify-email", `{"tenantId":"x","otp":123456}`, nil, 400, "otp must be a string"},
		{"POST", "/auth/verify-email", `{"tenantId":"x","otp":"123456"}`, nil, 400, "invalid or expired code"},
		{"POST", "/auth/login", `{}`, nil, 400, "email is required"},
		{"POST", "/auth/login", `{"email":"nobody@example.com","password":"x"}`, nil, 401, "invalid credentials"},
		{"GET", "/auth/me", "", nil, 401, "unauthorized"},
		{"GET", "/auth/me", "", key, 401, "unauthorized"},
		{"POST", "/auth/business-kyc", `{"businessType":"bank"}`, session, 400, "businessType must be one of sole_proprietor, registered_business, ngo, other"},
		{"POST", "/auth/webhook-url", `{}`, session, 400, "url is required"},
		{"POST", "/auth/webhook-url", `{"url":"ftp://example.com"}`, key, 400, "url must begin with https:// or http://"},
		{"GET", "/auth/misdirected?limit=0", "", session, 400, "limit must be a whole number from 1 to 100"},
		{"GET", "/auth/misdirected?after=x", "", session, 400, "invalid cursor"},

		{"GET", "/v1/accounts", "", nil, 401, "unauthorized"},
		{"GET", "/v1/accounts", "", session, 401, "unauthorized"},
		{"GET", "/v1/accounts", "", header{"X-API-Key", "ajo_x"}, 401, "unauthorized"},
		{"GET", "/v1/accounts?limit=101", "", key, 400, "limit must be a whole number from 1 to 100"},
		{"GET", "/v1/accounts?after=%00", "", key, 400, "invalid cursor"},
		{"POST", "/v1/accounts", `{"name":"Ada"}`, key, 400, "externalRef is required"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expectedAmount":"5"}`, key, 400, "expectedAmount must be a number"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expectedAmount":5.001}`, key, 400, "expectedAmount must be a positive number with at most two decimals"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expectedAmount":-5}`, key, 400, "expectedAmount must be a positive number with at most two decimals"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expectedAmount":5e1}`, key, 400, "expectedAmount must be a positive number with at most two decimals"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expectedAmount":0}`, key, 400, "expectedAmount must be above zero"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","expiresAt":"tomorrow"}`, key, 400, "expiresAt must be an ISO 8601 time such as 2026-01-30T12:15:00Z"},
		{"POST", "/v1/accounts", `{"externalRef":"x","name":"Ada","bvn":"1"}`, key, 400, "bvn must be exactly 11 digits"},
		{"GET", "/v1/accounts/unknown", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/unknown/balance", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/unknown/history", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/unknown/statement", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/%00", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/%ff", "", key, 404, "account not found"},
		{"GET", "/v1/accounts/shop-1/statement?after=x", "", key, 400, "invalid cursor"},
		{"GET", "/v1/webhooks/dead-letters?limit=x", "", key, 400, "limit must be a whole number from 1 to 100"},
	} {
		t.Run(c.method+" "+c.path+" "+c.body, func(t *testing.T) {
			r := w.do(c.method, c.path, c.body, c.headers...).refused(c.status, c.text)
			if strings.HasPrefix(c.path, "/v1/") {
				require.NotEmpty(t, r.Header.Get("RateLimit-Limit"))
			}
			if c.status == http.StatusMethodNotAllowed {
				require.NotEmpty(t, r.Header.Get("Allow"))
			}
		})
	}
	w.bank.Faults.SetDown(fakebank.DownAnswer)
	w.do("POST", "/v1/accounts", `{"externalRef":"new","name":"Ada"}`, key...).refused(502, "provider error: failed to provision virtual account")
	w.do("POST", "/v1/accounts", taken, key...).ok(201, nil)
	w.Exec(`UPDATE accounts SET status = 'expired', expired_at = now() WHERE account_ref = 'shop-1'`)
	w.do("POST", "/v1/accounts", taken, key...).refused(409, "account with this reference already exists")
	w.do("POST", "/auth/business-kyc", `{"businessType":"ngo"}`, session...).ok(200, nil)
	w.do("POST", "/auth/business-kyc", `{"businessType":"ngo"}`, session...).refused(422, "business kyc is already verified")
}

// When the database is away: 500 with the fixed text, and one log line with the request's id; no
// credential in it.
func TestInternalErrors(t *testing.T) {
	spec.Shows(t, "error.500", "event.in.503")
	w := setup(t)
	m := w.onboard()
	w.Pool.Close()
	w.do("GET", "/v1/accounts", "", append(m.withKey(), "X-Request-ID", "my-request-1")...).refused(500, "internal error")
	w.do("POST", "/webhooks/provider", `{}`).refused(503, "the event could not be stored; send it again")
	w.do("GET", "/health", "").ok(200, nil)
	w.log.Has(t, `"request_id":"my-request-1"`)
	w.log.Has(t, `"msg":"request failed"`)
	for _, hidden := range []string{m.key, strings.TrimPrefix(m.cookie, "service_session="), password} {
		w.log.HasNot(t, hidden)
	}
}
