package api

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// probe says what a tenant must get that tries an endpoint with what belongs to another. The zero
// value: an answer with nothing of the other's in it.
type probe struct {
	notFound string // the path names something: this refusal
	body     string
	// %s takes each of the other's ids: a refusal, or an answer with nothing of the other's in it
	query string
	tries int    // so often it may be tried before it is limited: the first things that many
	open  string // no credential is asked for; why that gives nothing away
	// the status of the refusal outside test mode; in test mode the intruder may
	liveOnly int
}

// probes has every route under /auth and /v1. A new route fails the test until it is added here.
var probes = map[string]probe{
	"POST /auth/verify-email":    {open: "the mailed code decides"},
	"POST /auth/login":           {open: "the password decides"},
	"POST /auth/login-link":      {open: "the token decides, and is the operator's to give"},
	"POST /auth/forgot-password": {open: "the answer is the same for all, and the code goes to the owner"},
	"POST /auth/reset-password":  {open: "the mailed code decides"},
	"POST /auth/password":        {body: `{"oldPassword":"correct horse","newPassword":"correct horse"}`},
	"POST /auth/logout":          {open: "it ends the session that it is sent with"},

	"GET /auth/me":                     {},
	"POST /auth/rotate-key":            {},
	"GET /auth/keys":                   {query: "after=%s"},
	"GET /auth/audit":                  {query: "after=%[1]s&actor=session:%[1]s"},
	"GET /auth/audit.csv":              {query: "actor=session:%s"},
	"GET /auth/member":                 {},
	"GET /auth/members":                {query: "after=%s"},
	"POST /auth/members":               {body: `{"email":"intruder@example.com","role":"viewer"}`},
	"POST /auth/members/:id/role":      {notFound: "member not found", body: `{"role":"viewer"}`},
	"POST /auth/members/:id/remove":    {notFound: "member not found"},
	"POST /auth/members/:id/hand-over": {notFound: "member not found", body: `{"password":"correct horse"}`, tries: 2},
	"GET /auth/sessions":               {query: "after=%s"},
	"POST /auth/sessions/:id/end":      {notFound: "session not found"},
	"POST /auth/accept-invitation":     {open: "the mailed code decides"},

	// refused for the missing code, whoever asks
	"POST /auth/totp":          {body: `{"password":"correct horse"}`},
	"POST /auth/totp/confirm":  {body: `{}`, query: "code=%s"},
	"POST /auth/totp/off":      {body: `{}`, query: "code=%s"},
	"POST /auth/totp-required": {body: `{"required":false}`},

	"POST /auth/keys":            {body: `{"name":"mine","scopes":["accounts:read"]}`},
	"POST /auth/keys/:id/rotate": {notFound: "key not found", body: `{"overlap":60}`},
	"POST /auth/keys/:id/revoke": {notFound: "key not found"},
	"POST /auth/business-kyc":    {body: `{"businessType":"ngo"}`},
	"POST /auth/webhook-url":     {body: `{"url":"https://intruder.example/"}`},
	"POST /auth/webhook-secret":  {},
	// the whole system's, as specified: what no tenant owns
	"GET /auth/misdirected": {query: "after=%s"},

	"GET /auth/overview":                             {},
	"GET /auth/search":                               {query: "q=%s"},
	"GET /auth/accounts":                             {query: "after=%[1]s&search=%[1]s"},
	"GET /auth/accounts/:accountRef":                 {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/balance":         {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/history":         {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/statement":       {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/statement.csv":   {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/statement.pdf":   {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/statement.xml":   {notFound: "account not found"},
	"GET /auth/statement.csv":                        {query: "from=%s"},
	"GET /auth/statement.pdf":                        {query: "from=%s"},
	"GET /auth/statement.xml":                        {query: "from=%s"},
	"GET /auth/payments/:id/receipt.pdf":             {notFound: "payment not found"},
	"GET /auth/transfers/:merchantTxRef/receipt.pdf": {notFound: "transfer not found"},
	"GET /auth/accounts/:accountRef/holds":           {notFound: "account not found"},
	"GET /auth/accounts/:accountRef/recalls":         {notFound: "account not found"},
	"GET /auth/payments":                             {query: "after=%[1]s&search=%[1]s&accountRef=%[1]s"},
	"GET /auth/payments.csv":                         {query: "search=%s"},
	"GET /auth/payments/:id":                         {notFound: "payment not found"},
	"GET /auth/customers":                            {query: "search=%s"},
	"GET /auth/customers/:id":                        {notFound: "customer not found"},
	"GET /auth/transfers":                            {query: "accountRef=%s"},
	"GET /auth/transfers/:merchantTxRef":             {notFound: "transfer not found"},
	"GET /auth/transfers/:merchantTxRef/approval":    {notFound: "transfer not found"},
	"POST /auth/transfers/:merchantTxRef/approve":    {notFound: "transfer not found"},
	"POST /auth/transfers/:merchantTxRef/reject":     {notFound: "transfer not found"},
	"GET /auth/transfers/banks":                      {},
	"POST /auth/transfers/lookup":                    {body: `{"bankCode":"058","accountNumber":"0123456789"}`},
	"GET /auth/payout-policy":                        {},
	"POST /auth/payout-policy":                       {body: `{"approvals":1,"threshold":"0.00","password":"correct horse"}`},

	"GET /auth/deliveries":             {query: "accountRef=%s"},
	"GET /auth/deliveries/:id":         {notFound: "delivery not found"},
	"POST /auth/deliveries/replay":     {body: `{"since":"2020-01-01T00:00:00Z"}`},
	"POST /auth/deliveries/:id/replay": {notFound: "delivery not found"},
	"GET /auth/webhook-events":         {},
	"POST /auth/webhook-events":        {body: `{"events":["payment.reversed"]}`},
	"POST /auth/webhook-test":          {body: `{"url":"http://127.0.0.1:1/"}`},
	"GET /auth/webhook-endpoints":      {},
	// its second try is a conflict with the first
	"POST /auth/webhook-endpoints":                   {body: `{"url":"https://intruder.example/2"}`, query: "after=%s"},
	"PATCH /auth/webhook-endpoints/:id":              {notFound: "webhook endpoint not found", body: `{"paused":true}`},
	"DELETE /auth/webhook-endpoints/:id":             {notFound: "webhook endpoint not found"},
	"POST /auth/webhook-endpoints/:id/rotate-secret": {notFound: "webhook endpoint not found"},
	"POST /auth/events/resend":                       {body: `{"transactionGroupId":"01890000-0000-7000-8000-000000000001"}`, query: "after=%s", tries: 3},

	"POST /auth/listen": {body: `{"wait":0}`},

	"POST /auth/accounts":                    {body: `{"externalRef":"shop-1","name":"Ada Obi","bvn":"22233344455"}`, query: "after=%s"},
	"POST /v1/accounts":                      {body: `{"externalRef":"shop-1","name":"Ada Obi","bvn":"22233344455"}`},
	"GET /v1/accounts":                       {query: "after=%s"},
	"GET /v1/accounts/:accountRef":           {notFound: "account not found"},
	"PATCH /v1/accounts/:accountRef":         {notFound: "account not found", body: `{"name":"Taken","callbackUrl":"https://intruder.example/"}`},
	"GET /v1/accounts/:accountRef/balance":   {notFound: "account not found"},
	"GET /v1/balance":                        {},
	"GET /v1/limits":                         {},
	"GET /v1/accounts/:accountRef/history":   {notFound: "account not found"},
	"GET /v1/accounts/:accountRef/statement": {notFound: "account not found"},
	"POST /v1/accounts/:accountRef/expire":   {notFound: "account not found"},
	"POST /v1/accounts/:accountRef/transfer": {notFound: "account not found", body: `{"amount":"1.00","toAccountRef":"shop-1"}`},
	"POST /v1/accounts/:accountRef/settle":   {notFound: "account not found", body: `{"amount":"1.00","bankCode":"058","accountNumber":"0123456789"}`},

	"POST /auth/accounts/:accountRef/settle": {
		notFound: "account not found", tries: 2,
		body: `{"amount":"1.00","bankCode":"058","accountNumber":"0123456789","password":"correct horse"}`,
	},

	"POST /v1/beneficiaries":              {body: `{"bankCode":"058","accountNumber":"1111111111","label":"mine"}`},
	"GET /v1/beneficiaries":               {query: "after=%s"},
	"GET /v1/beneficiaries/:id":           {notFound: "beneficiary not found"},
	"PATCH /v1/beneficiaries/:id":         {notFound: "beneficiary not found", body: `{"label":"mine"}`},
	"DELETE /v1/beneficiaries/:id":        {notFound: "beneficiary not found"},
	"POST /auth/beneficiaries":            {body: `{"bankCode":"058","accountNumber":"1111111111","label":"mine"}`},
	"GET /auth/beneficiaries":             {query: "after=%s"},
	"PATCH /auth/beneficiaries/:id":       {notFound: "beneficiary not found", body: `{"label":"mine"}`},
	"POST /auth/beneficiaries/:id/exempt": {notFound: "beneficiary not found", body: `{"exempt":false}`},
	"DELETE /auth/beneficiaries/:id":      {notFound: "beneficiary not found"},

	"POST /v1/entries/:id/refund":           {notFound: "ledger entry not found", body: `{"amount":"1.00"}`},
	"POST /v1/accounts/:accountRef/holds":   {notFound: "account not found", body: `{"amount":"1.00","reason":"mine"}`},
	"POST /auth/accounts/:accountRef/holds": {notFound: "account not found", body: `{"amount":"1.00","reason":"mine"}`},
	"POST /auth/holds/:id/release":          {notFound: "hold not found"},
	"POST /auth/payments/:id/refund":        {notFound: "ledger entry not found", tries: 2, body: `{"amount":"1.00","password":"correct horse"}`},
	"GET /v1/accounts/:accountRef/holds":    {notFound: "account not found"},
	"GET /v1/holds/:id":                     {notFound: "hold not found"},
	"POST /v1/holds/:id/release":            {notFound: "hold not found"},

	// in test mode only
	"POST /v1/test/payments":   {body: `{"accountRef":"shop-1","amount":"10.00"}`, liveOnly: 404},
	"POST /auth/test/payments": {body: `{"accountRef":"shop-1","amount":"10.00"}`, liveOnly: 404},

	"GET /v1/payments":                     {query: "search=%s"},
	"GET /v1/payments/:id":                 {notFound: "payment not found"},
	"GET /v1/customers":                    {query: "after=%s"},
	"GET /v1/customers/:id":                {notFound: "customer not found"},
	"PATCH /v1/customers/:id":              {notFound: "customer not found", body: `{"name":"Taken"}`},
	"GET /v1/customers/:id/account":        {notFound: "customer not found"},
	"POST /v1/customers/:id/kyc":           {notFound: "customer not found", body: `{"nin":"` + ninOfAda + `"}`},
	"POST /auth/customers/:id/kyc":         {notFound: "customer not found", body: `{"nin":"` + ninOfAda + `"}`},
	"POST /auth/customers/:id/kyc/approve": {notFound: "customer not found"},
	"POST /auth/customers/:id/kyc/reject":  {notFound: "customer not found"},
	"GET /v1/transfers":                    {query: "accountRef=%s"},
	"GET /v1/transfers/banks":              {},
	"POST /v1/transfers/lookup":            {body: `{"bankCode":"058","accountNumber":"0123456789"}`},
	"GET /v1/transfers/:merchantTxRef":     {notFound: "transfer not found"},
	"GET /v1/fees/calculate":               {query: "amount=5000&accountRef=%s"},
	"GET /v1/webhooks/dead-letters":        {query: "after=%s"},
	"GET /v1/events":                       {query: "after=%s"},
}

var param = regexp.MustCompile(`:[A-Za-z]+`)

// Each route under /v1 and /auth is tried with another tenant's ids: 404, or an answer with nothing
// of the other's in it; and of what the other has, nothing changes.
func TestTenantsAreIsolated(t *testing.T) {
	spec.Shows(t, "error.403.cross-tenant", "error.message.account.other", "endpoint.dead-letters.own")
	w := setup(t)
	owner := w.onboard()
	things := w.belongings(owner)
	intruder := w.onboard()
	before := w.rows(owner)
	unused := map[string]bool{}
	for name := range probes {
		unused[name] = true
	}
	// The paths that name something come first: later the intruder has a shop-1 of its own.
	for _, named := range []bool{true, false} {
		for _, r := range Routes {
			name := r.Method + " " + r.Path
			if param.MatchString(r.Path) != named || !(strings.HasPrefix(r.Path, "/v1/") || strings.HasPrefix(r.Path, "/auth/")) {
				continue
			}
			p, known := probes[name]
			delete(unused, name)
			switch {
			case !known:
				t.Errorf("%s is not known here: add to probes what a tenant gets that tries it with another's ids", name)
			case (p.open != "") != (r.Credential == None):
				t.Errorf("%s asks for the credential %s; probes says otherwise", name, r.Credential)
			case p.open == "":
				w.probe(r, p, &intruder, things)
			}
		}
	}
	require.Empty(t, unused, "probes of routes that are no more")
	require.Equal(t, before, w.rows(owner), "nothing of the owner's has changed")
}

// probe tries one route with each credential that opens it.
func (w *world) probe(r Route, p probe, intruder *member, things []string) {
	w.T.Helper()
	require.Equal(w.T, param.MatchString(r.Path), p.notFound != "", "%s %s: a path that names something must answer 404", r.Method, r.Path)
	var credentials []header
	if r.Credential != Session {
		credentials = append(credentials, intruder.withKey())
	}
	if r.Credential != Key {
		credentials = append(credentials, intruder.withSession())
	}
	for _, h := range credentials {
		named := things
		if p.tries > 0 {
			named = things[:p.tries]
		}
		if p.notFound != "" {
			for _, id := range named {
				w.do(r.Method, param.ReplaceAllString(r.Path, id), p.body, h...).refused(404, p.notFound)
			}
			continue
		}
		got := w.do(r.Method, r.Path, p.body, append(h, "Idempotency-Key", "key-of-the-owner")...)
		if p.liveOnly > 0 && !intruder.test {
			got.refused(p.liveOnly, errLiveOnly.Msg)
			continue
		}
		w.requireNothingOf(things, got, p.query != "")
		if p.query != "" {
			for _, id := range named {
				w.requireNothingOf(things, w.do(r.Method, r.Path+"?"+fmt.Sprintf(p.query, id), p.body, h...), true)
			}
		}
		if r.Path == "/auth/rotate-key" {
			var got struct{ APIKey string }
			w.do("POST", r.Path, "", h...).ok(200, &got)
			intruder.key = got.APIKey
		}
	}
}

// requireNothingOf looks for another's ids in a good answer, or, where that may be, in a refusal.
func (w *world) requireNothingOf(things []string, r reply, mayRefuse bool) {
	w.T.Helper()
	require.True(w.T, r.Status < 300 || mayRefuse && (r.Status == 400 || r.Status == 404 || r.Status == 409 || r.Status == 422), "%d %s", r.Status, r.Body)
	require.Empty(w.T, r.Header.Get("Idempotent-Replayed"))
	for _, id := range things {
		if id != "shop-1" { // the intruder may have one too
			require.NotContains(w.T, r.Body, id)
		}
	}
}

// belongings gives the tenant one of everything, and returns what names it.
func (w *world) belongings(m member) []string {
	w.T.Helper()
	key := m.withKey()
	w.do("POST", "/auth/webhook-url", `{"url":"https://owner.example/"}`, key...).ok(200, nil)
	var sec struct{ WebhookSecret string }
	w.do("POST", "/auth/webhook-secret", "", key...).ok(200, &sec)
	var a struct{ ID, CustomerID uuid.UUID }
	w.do("POST", "/v1/accounts", probes["POST /v1/accounts"].body, append(key, "Idempotency-Key", "key-of-the-owner")...).ok(201, &a)
	var b struct{ ID uuid.UUID }
	w.do("POST", "/v1/accounts", `{"externalRef":"order-of-the-owner","name":"Ada Obi","mode":"onetime"}`, key...).ok(201, &b)
	w.do("POST", "/v1/customers/"+a.CustomerID.String()+"/kyc", `{"nin":"`+ninUnclear+`"}`, key...).ok(200, nil)
	w.pay(event{"r-1", "txn-of-the-owner", "shop-1", "5000.00", "25"})
	var s struct{ MerchantTxRef string }
	w.do("POST", "/v1/accounts/shop-1/settle", `{"amount":"100.00","bankCode":"058","accountNumber":"0123456789"}`, key...).ok(202, &s)
	var k struct{ Key struct{ ID uuid.UUID } }
	w.do("POST", "/auth/keys", `{"name":"a key of the owner","scopes":["accounts:read"]}`, m.withSession()...).ok(201, &k)
	var saved struct{ ID uuid.UUID }
	w.do("POST", "/v1/beneficiaries", `{"bankCode":"058","accountNumber":"0123456789","label":"landlord of the owner"}`, key...).ok(201, &saved)
	var people []string
	if !m.test { // people are the same in both modes
		w.do("POST", "/auth/members", `{"email":"dev@owner.example","role":"developer"}`, m.withSession()...).ok(201, nil)
		invited, session := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = 'dev@owner.example'`), testenv.Value[uuid.UUID](w.Env, `SELECT id FROM sessions WHERE tenant_id = $1`, m.id)
		people = []string{invited.String(), session.String(), "dev@owner.example", page.ID(page.Members, invited), page.ID(page.Sessions, session)}
	}
	delivery := testenv.Value[uuid.UUID](w.Env, `UPDATE deliveries SET status = 'dead_letter', attempt_count = 6 RETURNING id`)
	hold := uuid.Must(uuid.NewV7())
	w.Exec(`INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at) VALUES ($1, $2, $3, 1, 'a deposit of the owner', 'open', now())`, hold, m.id, a.ID)
	w.Exec(`UPDATE ledger_balances SET held = 1 WHERE account_id = $1`, a.ID)
	things := append(people,
		saved.ID.String(), "landlord of the owner", page.ID(page.Beneficiaries, saved.ID),
		hold.String(), "a deposit of the owner", k.Key.ID.String(), "a key of the owner", page.ID(page.Keys, k.Key.ID),
		"shop-1", "order-of-the-owner", a.ID.String(), a.CustomerID.String(), b.ID.String(), m.id.String(), s.MerchantTxRef, delivery.String(),
		"txn-of-the-owner", m.key, sec.WebhookSecret, m.email, "owner.example", page.ID(page.Accounts, a.ID), page.ID(page.Customers, a.CustomerID), page.ID(page.Deliveries, delivery),
		testenv.Value[string](w.Env, `SELECT id::text FROM transfers`), testenv.Value[string](w.Env, `SELECT id::text FROM inbound_events`),
		testenv.Value[string](w.Env, `SELECT id::text FROM ledger_entries WHERE direction = 'credit' AND kind = '' AND tenant_id = $1`, m.id),
	)
	for _, t := range things {
		require.NotEmpty(w.T, t)
	}
	return things
}

// rows are all that the database has of a tenant, as text, but for the last uses of its keys.
func (w *world) rows(m member) map[string]string {
	w.T.Helper()
	ctx := context.Background()
	tables, err := pg.Collect(ctx, w.Pool, pgx.RowTo[string], `
		SELECT table_name::text FROM information_schema.columns WHERE table_schema = 'public' AND column_name = 'tenant_id' AND table_name::text NOT IN (SELECT inhrelid::regclass::text FROM pg_inherits) ORDER BY 1`)
	require.NoError(w.T, err)
	require.Contains(w.T, tables, "accounts")
	out := map[string]string{"tenants": testenv.Value[string](w.Env, `SELECT t::text FROM tenants t WHERE id = $1`, m.id)}
	for _, table := range tables {
		out[table] = testenv.Value[string](w.Env, fmt.Sprintf(`SELECT coalesce(string_agg(r, E'\n' ORDER BY r), '') FROM (
			SELECT (to_jsonb(t) - '{last_used_at,last_used_from}'::text[])::text AS r FROM %s t WHERE tenant_id = $1) rows`,
			pgx.Identifier{table}.Sanitize()), m.id)
	}
	return out
}
