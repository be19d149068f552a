package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/api/client"
	"ajo/internal/fakebank"
	"ajo/internal/pg"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/ratelimit"
)

// modes are the live service and the sandbox, each on a database of its own.
type modes struct {
	live *world
	// the sandbox; its requests go through the live API
	box *world
	// where the sandbox itself listens
	boxURL string
	passes *sandbox.Passes
}

func setupModes(t *testing.T) *modes {
	t.Helper()
	t.Parallel()
	m := &modes{live: newWorld(t), box: newWorld(t)}
	shared := secret.Redact(rand.Text() + rand.Text())
	m.passes = sandbox.NewPasses(shared, m.live.Clock)
	m.box.opts.Tenants.KeyKind = secret.TestKey
	m.box.opts.Sandbox = &Sandbox{Passes: sandbox.NewPasses(shared, m.box.Clock), Bank: &sandbox.Bank{Bank: m.box.bank}}
	m.box.serve()
	m.boxURL = m.box.url
	m.box.bank.SetWebhookURL(m.boxURL + "/webhooks/provider")
	m.live.opts.Test = NewTestMode(m.boxURL, m.passes, slog.New(slog.DiscardHandler))
	t.Cleanup(m.live.opts.Test.Close)
	m.live.serve()
	m.box.url, m.box.events = m.live.url, m.boxURL
	return m
}

// advance moves both clocks, as passes go by them.
func (m *modes) advance(d time.Duration) {
	m.box.Clock.Advance(d)
	m.live.Clock.Advance(d)
}

// inTest is the member in test mode, with a test key.
func (m *modes) inTest(live member) member {
	m.live.T.Helper()
	live.test = true
	var made struct{ APIKey string }
	r := m.live.do("POST", "/auth/keys", `{"name":"tests","scopes":["accounts:read","accounts:write","accounts:transfer","payments:read","customers:read","customers:write","payouts:create","payouts:read","webhooks:read","webhooks:write","holds:read","holds:write","beneficiaries:read","beneficiaries:write"]}`, live.withSession()...)
	r.ok(201, &made)
	require.Equal(m.live.T, "test", r.Header.Get("X-Ajo-Mode"))
	require.True(m.live.T, secret.TestKey.Check(made.APIKey))
	live.key = made.APIKey
	return live
}

// stored waits until the sandbox has stored the simulated bank's event of a transaction.
func (m *modes) stored(txn, eventType string) {
	m.box.T.Helper()
	const find = `SELECT count(*) FROM inbound_events WHERE id = (SELECT event_id FROM event_keys WHERE transaction = event_key($1) AND event_type = $2)`
	testenv.Eventually(m.box.T, time.Minute, "the bank's "+eventType, func() bool { return testenv.Value[int64](m.box.Env, find, txn, eventType) == 1 })
}

// received posts what the bank has sent to the sandbox, as its worker would, and returns the
// entry's status after a check against the bank's record.
func (m *modes) received(txn string) string {
	m.box.T.Helper()
	ctx := context.Background()
	m.stored(txn, "payment_success")
	id := testenv.Value[uuid.UUID](m.box.Env, `SELECT event_id FROM event_keys WHERE transaction = event_key($1) AND event_type = 'payment_success'`, txn)
	_, err := m.box.opts.Payments.Post(ctx, id)
	require.NoError(m.box.T, err)
	m.advance(time.Minute)
	_ = m.box.opts.Payments.Confirm(ctx, id) // an error asks for another check
	return testenv.Value[string](m.box.Env, `SELECT status FROM ledger_entries WHERE provider_txn_ref = $1 AND reversal_of IS NULL`, txn)
}

// A key that a session makes in test mode opens an account at the simulated bank, which is paid and
// confirmed; the live database has none of it.
func TestTestModeFromKeyToPayment(t *testing.T) {
	m := setupModes(t)
	w := m.live
	ada := w.onboard()
	before := rowCounts(t, w.Pool)
	test := m.inTest(ada)
	key := test.withKey()
	r := w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, append(key, "X-Request-ID", "mine-1")...)
	var account struct{ ID, BankAccountNumber string }
	r.ok(201, &account)
	require.Equal(t, "mine-1", r.Header.Get("X-Request-ID"))
	require.Equal(t, "test", r.Header.Get("X-Ajo-Mode"))
	require.Len(t, r.Header.Values("Content-Type"), 1)
	require.NotEmpty(t, r.Header.Get("RateLimit-Remaining"))
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, append(key, "Idempotency-Key", " ")...).refused(400, "Idempotency-Key must have 1 to 255 printable characters")

	c, x := w.connect(test)
	paid := whole[client.TestPayment](x, "")(c.ReceiveTestPayment(context.Background(), client.NewTestPayment{AccountRef: "shop-1", Amount: "5000.00", Sender: client.TestSender{Name: "Bola Ade"}}))
	require.Equal(t, account.BankAccountNumber, paid.AccountNumber)
	require.Equal(t, "confirmed", m.received(paid.TransactionID))
	for _, as := range []header{key, test.withSession()} {
		path := map[bool]string{true: "/v1", false: "/auth"}[as[0] == "X-API-Key"]
		var balance struct{ Balance string }
		w.do("GET", path+"/accounts/shop-1/balance", "", as...).ok(200, &balance)
		require.Equal(t, "4975.00", balance.Balance)
	}
	// Nobody takes what is made of it for money.
	id := w.read(key, "/v1/payments").list("payments")[0]["id"].(string)
	const mark = "TEST DATA: no money was moved"
	for path, want := range map[string]string{
		"/auth/payments/" + id + "/receipt.pdf": "test-receipt-" + id + "-2026-03-02.pdf", "/auth/accounts/shop-1/statement.pdf": "test-statement-shop-1-2026-03-02.pdf",
		"/auth/statement.pdf": "test-statements-2026-03-02.pdf", "/auth/statement.xml": "test-statements-2026-03-02.xml", "/auth/payments.csv": "test-payments-2026-03-02.csv",
	} {
		file := w.do("GET", path, "", test.withSession()...).ok(200, nil)
		require.Equal(t, "attachment; filename="+want, file.Header.Get("Content-Disposition"))
		switch {
		case strings.HasSuffix(path, ".pdf"): // its title, which is UTF-16
			require.Contains(t, strings.ReplaceAll(file.Body, "\x00", ""), mark, path)
		case strings.HasSuffix(path, ".xml"):
			require.Contains(t, file.Body, mark)
		}
	}
	w.do("GET", "/auth/accounts/shop-1", "", ada.withSession()...).refused(404, "account not found")
	w.do("GET", "/v1/accounts/shop-1", "", ada.withKey()...).refused(404, "account not found")

	var me struct{ ID, Name, Email, KYCStatus, WebhookURL string }
	w.do("GET", "/auth/me", "", test.withSession()...).ok(200, &me)
	require.Equal(t, []string{ada.id.String(), "Ada Stores", ada.email, "verified"}, []string{me.ID, me.Name, me.Email, me.KYCStatus})
	w.do("GET", "/auth/me", "", ada.withSession()...).ok(200, &me)
	require.Equal(t, "unverified", me.KYCStatus)
	require.Equal(t, before, rowCounts(t, w.Pool), "the live database")
}

// A tenant writes so much a day, since the simulated bank keeps it in memory. It still reads, and
// others write.
func TestTestModeTakesSoMuchADay(t *testing.T) {
	m := setupModes(t)
	one, other := m.inTest(m.live.onboard()), m.inTest(m.live.onboard())
	for left := int64(2); left > 1; {
		left = m.box.opts.Limits.Tenant(t.Context(), ratelimit.TestWrite, one.id).Remaining
	}
	m.live.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, one.withKey()...).ok(201, nil)
	resp := m.live.do("POST", "/v1/test/payments", `{"accountRef":"shop-1","amount":"10.00"}`, one.withKey()...)
	resp.refused(429, ratelimit.ErrLimited.Msg)
	require.Equal(t, "2000", resp.Header.Get("RateLimit-Limit"))
	m.live.do("GET", "/v1/accounts/shop-1", "", one.withKey()...).ok(200, nil)
	m.live.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, other.withKey()...).ok(201, nil)
	require.Len(t, m.box.bank.Transactions(), 0)
}

// rowCounts counts the rows of every table.
func rowCounts(t *testing.T, pool *pg.Pool) map[string]int64 {
	t.Helper()
	ctx := context.Background()
	tables, err := pg.Collect(ctx, pool, pgx.RowTo[string], `SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	require.Contains(t, tables, "ledger_entries")
	counts := map[string]int64{}
	for _, name := range tables {
		var n int64
		require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM `+pgx.Identifier{name}.Sanitize()).Scan(&n))
		counts[name] = n
	}
	return counts
}

// Each fault of a payment ends as the document says.
func TestFaultsOfTestPayments(t *testing.T) {
	m := setupModes(t)
	test := m.inTest(m.live.onboard())
	key := test.withKey()
	m.live.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	pay := func(fault string) string {
		var paid struct{ TransactionID, Fault string }
		m.live.do("POST", "/v1/test/payments", fmt.Sprintf(`{"accountRef":"shop-1","amount":"5000.00","fault":%q}`, fault), key...).ok(201, &paid)
		require.Equal(t, fault, paid.Fault)
		return paid.TransactionID
	}
	for fault, want := range map[string]string{
		"": "confirmed", "webhook_duplicate": "confirmed", "amount_differs": "needs_review", "failed_at_bank": "reversed", "pending_at_bank": "confirmed", "recalled": "reversed",
	} {
		txn := pay(fault)
		record, _ := m.box.bank.Transaction(txn)
		require.Equal(t, cmp.Or(map[string]string{"pending_at_bank": fakebank.StatusPending, "failed_at_bank": fakebank.StatusFailed}[fault], fakebank.StatusSuccess), record.Status)
		if fault == "recalled" {
			m.advance(time.Minute)
			m.stored(txn, "payment_reversal") // its record says so before
		}
		require.Equal(t, want, m.received(txn), fault)
	}
	late, lost := pay("webhook_late"), pay("webhook_lost")
	_, sent := m.box.bank.WebhookFor(late)
	require.False(t, sent)
	m.advance(time.Minute)
	require.Equal(t, "confirmed", m.received(late))
	_, sent = m.box.bank.WebhookFor(lost)
	require.False(t, sent, "it is found in the bank's list")

	for body, text := range map[string]string{
		`{"amount":"10.00"}`: errOneAccount.Msg, `{"amount":"10.00","accountRef":"shop-1","accountNumber":"1"}`: errOneAccount.Msg,
		`{"accountRef":"shop-1","amount":"0"}`: "invalid amount", `{"accountRef":"shop-1","amount":"1e3"}`: "invalid amount",
		`{"accountRef":"shop-1","amount":"10.00","fault":"x"}`:                                          sandbox.ErrFault.Msg,
		`{"accountRef":"shop-1","amount":"10.00","sender":{"name":"` + strings.Repeat("x", 141) + `"}}`: sandbox.ErrLong.Msg,
	} {
		m.live.do("POST", "/v1/test/payments", body, key...).refused(400, text)
	}
	m.live.do("POST", "/v1/test/payments", `{"accountNumber":"0123456789","amount":"10.00"}`, key...).refused(404, "account not found")
	m.live.do("POST", "/v1/test/payments", `{"accountRef":" shop-1 ","amount":"10.00"}`, key...).ok(201, nil)
}

// Who pays has an account of that name: the test payments of one tenant change nothing of who holds
// the account that another's came from, and that a refund goes back to.
func TestPayersKeepTheirAccounts(t *testing.T) {
	m := setupModes(t)
	one, other := m.inTest(m.live.onboard()), m.inTest(m.live.onboard())
	pay := func(as member, sender string) fakebank.Transaction {
		var paid struct{ TransactionID string }
		m.live.do("POST", "/v1/test/payments", `{"accountRef":"shop-1","amount":"5000.00","sender":`+sender+`}`, as.withKey()...).ok(201, &paid)
		record, known := m.box.bank.Transaction(paid.TransactionID)
		require.True(t, known)
		return record
	}
	for _, as := range []member{one, other} {
		m.live.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, as.withKey()...).ok(201, nil)
	}
	named, unnamed := pay(one, `{"name":"Bola Ade"}`), pay(one, `{}`)
	pay(other, `{"name":"Chidi Okeke"}`)
	for name, record := range map[string]fakebank.Transaction{"Bola Ade": named, "TEST SENDER": unnamed} {
		var holder struct{ AccountName string }
		body := fmt.Sprintf(`{"bankCode":%q,"accountNumber":%q}`, record.SenderBankCode, record.SenderAccount)
		m.live.do("POST", "/v1/transfers/lookup", body, one.withKey()...).ok(200, &holder)
		require.Equal(t, name, holder.AccountName)
	}
	require.Equal(t, named.SenderAccount, pay(other, `{"name":"Bola Ade"}`).SenderAccount)
	require.Equal(t, "2345678901", pay(one, `{"name":"Bola Ade","account":"2345678901"}`).SenderAccount)
}

// Who asks for the events of test mode is not given live ones.
func TestListeningIsLive(t *testing.T) {
	m := setupModes(t)
	ada := m.live.onboard()
	m.live.do("POST", "/auth/listen", `{"wait":0}`, ada.withSession()...).ok(200, nil)
	ada.test = true
	m.live.do("POST", "/auth/listen", `{"wait":0}`, ada.withSession()...).refused(400, errListenLive.Msg)
}

// The routes of a session that test mode leaves to the live service are those of the list.
func TestLiveOnlyRoutes(t *testing.T) {
	t.Parallel()
	rest := map[endpoint]bool{}
	for at := range liveOnly {
		rest[at] = true
	}
	for _, r := range Routes {
		delete(rest, endpoint{r.Method, r.Path})
		if !r.InTestMode() {
			require.NotEqual(t, Key, r.Credential, "%s %s", r.Method, r.Path)
		}
	}
	require.Empty(t, rest)
}

// Whoever reaches the sandbox without the live API is refused, whatever the credential; and so is a
// pass that is not this request's.
func TestPasses(t *testing.T) {
	m := setupModes(t)
	live := m.live.onboard()
	test := m.inTest(live)
	at := *m.live
	at.url = m.boxURL
	caller := &sandbox.Caller{TenantID: live.id, TenantName: "Ada Stores", TenantEmail: live.email, MemberID: uuid.New(), Name: "Eve", Email: "eve@example.com", Role: "owner"}
	pass := func(p *sandbox.Passes, method, uri, body string) string {
		text, err := p.Write(sandbox.Pass{Caller: caller}, sandbox.Request{Method: method, URI: uri, Body: []byte(body)})
		require.NoError(t, err)
		return text
	}
	good := pass(m.passes, "GET", "/auth/accounts?limit=2", "")
	at.unchecked("GET", "/auth/accounts?limit=2", "", "X-Ajo-Test-Pass", good).ok(200, nil)
	refused := func(method, uri, body, pass string, more ...string) {
		t.Helper()
		r := at.unchecked(method, uri, body, append(more, "X-Ajo-Test-Pass", pass)...)
		require.Equal(t, 401, r.Status, r.Body)
		require.Contains(t, []string{`{"error":"` + sandbox.ErrPass.Msg + `"}`, `{"error":"unauthorized"}`}, r.Body)
	}
	refused("GET", "/auth/accounts?limit=2", "", "")
	refused("GET", "/auth/accounts?limit=2", "", "", test.withSession()...)
	refused("GET", "/v1/accounts", "", "", test.withKey()...)
	refused("GET", "/auth/accounts?limit=3", "", good)
	refused("GET", "/auth/transfers?limit=2", "", good)
	refused("GET", "/auth/accounts?limit=2", "x", good)
	refused("GET", "/auth/accounts?limit=2", "", good+"x")
	refused("GET", "/auth/accounts?limit=2", "", "."+strings.SplitN(good, ".", 2)[1])
	foreign := sandbox.NewPasses(secret.Redact(rand.Text()+rand.Text()), m.live.Clock)
	refused("GET", "/auth/accounts?limit=2", "", pass(foreign, "GET", "/auth/accounts?limit=2", ""))
	refused("GET", "/v1/accounts", "", pass(m.passes, "GET", "/v1/accounts", ""), live.withKey()...)
	for _, path := range []string{"/auth/login", "/register", "/auth/password", "/auth/members", "/dashboard"} {
		require.Equal(t, 404, at.unchecked("GET", path, "").Status, path)
	}
	m.box.Clock.Advance(61 * time.Second)
	refused("GET", "/auth/accounts?limit=2", "", good)
	m.box.Clock.Set(testenv.Epoch.Add(-10 * time.Minute))
	refused("GET", "/auth/accounts?limit=2", "", good)
}

// unchecked is do without a look at the document, which has no word for what the sandbox itself
// answers.
func (w *world) unchecked(method, path, body string, headers ...string) reply {
	w.T.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	require.NoError(w.T, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	got, err := testenv.Send(w.client, req)
	require.NoError(w.T, err)
	return reply{w.T, got.Status, got.Header, got.Body}
}

// Test mode that is off, away or busy says so, and the live service goes on.
func TestTestModeThatDoesNotAnswer(t *testing.T) {
	m := setupModes(t)
	w := m.live
	ada := w.onboard()
	test := m.inTest(ada)
	for range cap(w.opts.Test.slots) {
		w.opts.Test.slots <- struct{}{}
	}
	for _, h := range []header{test.withKey(), test.withSession()} {
		path := map[bool]string{true: "/v1/accounts", false: "/auth/accounts"}[h[0] == "X-API-Key"]
		r := w.unchecked("GET", path, "", h...)
		r.refused(503, "test mode is busy: try again in a second")
		require.Equal(t, "1", r.Header.Get("Retry-After"))
		require.Equal(t, h[0] == "X-API-Key", r.Header.Get("RateLimit-Limit") != "", "on every answer under /v1")
	}
	for range cap(w.opts.Test.slots) {
		<-w.opts.Test.slots
	}
	// a tenant has its share of the sandbox, with its keys and its sessions together
	box, other := m.box.opts.Sandbox, m.inTest(w.onboard())
	for range answersPerTenant {
		require.True(t, box.begin(ada.id))
	}
	requireLimited(t, w.do("GET", "/v1/accounts", "", test.withKey()...))
	requireLimited(t, w.do("GET", "/auth/accounts", "", test.withSession()...))
	w.do("GET", "/v1/accounts", "", other.withKey()...).ok(200, nil)
	w.do("GET", "/auth/accounts", "", other.withSession()...).ok(200, nil)
	for range answersPerTenant {
		box.end(ada.id)
	}
	w.do("GET", "/v1/accounts", "", test.withKey()...).ok(200, nil)
	require.Empty(t, box.answers)
	good := w.opts.Test.passes
	w.opts.Test.passes = sandbox.NewPasses(secret.Redact(rand.Text()+rand.Text()), w.Clock)
	w.unchecked("GET", "/v1/accounts", "", test.withKey()...).refused(502, "test mode does not answer: try again later")
	w.opts.Test.passes = good
	w.opts.Test.url = "http://127.0.0.1:1"
	away := w.unchecked("GET", "/v1/accounts", "", test.withKey()...).refused(502, "test mode does not answer: try again later")
	require.NotEmpty(t, away.Header.Get("RateLimit-Remaining"))
	w.unchecked("GET", "/auth/accounts", "", test.withSession()...).refused(502, "test mode does not answer: try again later")
	w.do("GET", "/v1/accounts", "", ada.withKey()...).ok(200, nil)
	w.do("GET", "/auth/member", "", test.withSession()...).ok(200, nil)
	w.unchecked("GET", "/auth/accounts", "", append(ada.withSession(), "X-Ajo-Mode", "tset")...).refused(400, errMode.Msg)
	w.do("GET", "/auth/accounts", "", append(ada.withSession(), "X-Ajo-Mode", "live")...).ok(200, nil)
	w.do("GET", "/v1/accounts", "", "X-API-Key", test.key+"x").refused(401, "unauthorized")

	w.opts.Test = nil
	w.serve()
	w.do("GET", "/v1/accounts", "", test.withKey()...).refused(401, errTestOff.Msg)
	w.unchecked("GET", "/auth/accounts", "", test.withSession()...).refused(400, errModeOff.Msg)
	w.do("POST", "/v1/test/payments", `{"accountRef":"shop-1","amount":"10.00"}`, ada.withKey()...).refused(404, errLiveOnly.Msg)
}

// A request with a key of one mode that says the other is refused: a live key and the header for
// test mode move no money.
func TestAKeyHasOneMode(t *testing.T) {
	m := setupModes(t)
	w := m.live
	ada := w.onboard()
	test := m.inTest(ada)
	for _, mode := range []string{"test", "tset", "TEST"} {
		w.unchecked("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, append(ada.withKey(), "X-Ajo-Mode", mode, "Content-Type", "application/json")...).refused(400, errKeyMode.Msg)
	}
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, ada.id))
	other := w.unchecked("GET", "/v1/accounts", "", append(test.withKey(), "X-Ajo-Mode", "live")...).refused(400, errKeyMode.Msg)
	require.NotEmpty(t, other.Header.Get("RateLimit-Limit"))
	limit := other.Header.Get("RateLimit-Limit")
	require.Equal(t, []string{limit}, w.do("GET", "/v1/accounts", "", test.withKey()...).ok(200, nil).Header.Values("RateLimit-Limit"), "once")
	w.do("GET", "/v1/accounts", "", append(test.withKey(), "X-Ajo-Mode", "test")...).ok(200, nil)
	w.do("GET", "/v1/accounts", "", append(ada.withKey(), "X-Ajo-Mode", "live")...).ok(200, nil)
	// a key goes before the session, whose mode it is then not
	w.unchecked("GET", "/auth/webhook-endpoints", "", append(test.withSession(), ada.withKey()...)...).refused(400, errKeyMode.Msg)
}

// The owner of the sandbox's tenant is nobody, and so no approver: a policy that nobody can meet
// has its warning.
func TestApproversInTestMode(t *testing.T) {
	m := setupModes(t)
	w := m.live
	owner := w.onboard()
	test := m.inTest(owner)
	r := w.ask("POST", "/auth/payout-policy", `{"approvals":2,"threshold":"1.00"}`, 200, test.withSession())
	r.has(t, fields{"approvers": json.Number("1"), "warning": "payouts that need approval will fail: approvals is 2, and members who may approve: 1"})
	finance := w.joins(owner, tenant.Finance)
	finance.test = true
	w.read(finance.withSession(), "/auth/payout-policy").has(t, fields{"approvers": json.Number("2"), "warning": nil})
}

// A test key that was revoked, or is of a tenant whose shadow is suspended, opens nothing. The live
// tenant's suspension ends its sessions, and so test mode in the dashboard; its test keys are the
// sandbox's to stop.
func TestTestKeysThatEnded(t *testing.T) {
	m := setupModes(t)
	w := m.live
	ada := w.onboard()
	test := m.inTest(ada)
	id := testenv.Value[uuid.UUID](m.box.Env, `SELECT id FROM api_keys`)
	w.do("POST", "/auth/keys/"+id.String()+"/revoke", "", ada.withSession()...).refused(404, "key not found")
	w.do("GET", "/v1/accounts", "", test.withKey()...).ok(200, nil)
	w.do("POST", "/auth/keys/"+id.String()+"/revoke", "", test.withSession()...).ok(200, nil)
	w.do("GET", "/v1/accounts", "", test.withKey()...).refused(401, "unauthorized")

	other := m.inTest(ada)
	w.Exec(`UPDATE tenants SET status = 'suspended'`)
	w.do("GET", "/auth/accounts", "", other.withSession()...).refused(403, "tenant is suspended")
	w.do("GET", "/v1/accounts", "", other.withKey()...).ok(200, nil)
	m.box.Exec(`UPDATE tenants SET status = 'suspended'`)
	w.do("GET", "/v1/accounts", "", other.withKey()...).refused(403, "tenant is suspended")
}

// In test mode each route is tried with another tenant's test things, and those of one mode with
// the other's keys. Nothing of it is in the live database.
func TestModesAreIsolated(t *testing.T) {
	m := setupModes(t)
	owner, intruder := m.live.onboard(), m.live.onboard()
	live := m.live.belongings(owner)
	before, sums := rowCounts(t, m.live.Pool), m.live.rows(owner)
	test := m.inTest(owner)
	things := m.box.belongings(test)
	spy := m.inTest(intruder)
	kept := m.box.rows(test)
	for _, named := range []bool{true, false} {
		for _, r := range Routes {
			p := probes[r.Method+" "+r.Path]
			if param.MatchString(r.Path) != named || !r.InTestMode() {
				continue
			}
			m.box.probe(r, p, &spy, things)
		}
	}
	number := testenv.Value[string](m.box.Env, `SELECT bank_account_number FROM accounts WHERE tenant_id = $1 AND account_ref = 'shop-1'`, test.id)
	m.box.do("POST", "/v1/test/payments", fmt.Sprintf(`{"accountNumber":%q,"amount":"10.00"}`, number), spy.withKey()...).refused(404, "account not found")
	m.box.do("POST", "/v1/test/payments", `{"accountRef":"order-of-the-owner","amount":"10.00"}`, spy.withKey()...).refused(404, "account not found")
	require.Equal(t, kept, m.box.rows(test), "nothing of the owner's has changed")
	for _, r := range Routes {
		p := probes[r.Method+" "+r.Path]
		if p.notFound == "" || r.Credential != Key {
			continue
		}
		for _, id := range things {
			if id != "shop-1" && id != "order-of-the-owner" && !strings.HasPrefix(id, "txn-") {
				m.live.do(r.Method, param.ReplaceAllString(r.Path, id), p.body, owner.withKey()...).refused(404, p.notFound)
			}
		}
		for _, id := range live {
			if id != "shop-1" && id != "order-of-the-owner" && !strings.HasPrefix(id, "txn-") {
				m.live.do(r.Method, param.ReplaceAllString(r.Path, id), p.body, test.withKey()...).refused(404, p.notFound)
			}
		}
	}
	require.Equal(t, before, rowCounts(t, m.live.Pool), "the live database")
	require.Equal(t, sums, m.live.rows(owner))
}

// Several first requests of one tenant at once make one shadow, each with its member.
func TestShadowsAreMadeOnce(t *testing.T) {
	m := setupModes(t)
	id := uuid.New()
	fail := make(chan error, 8)
	for i := range cap(fail) {
		go func() {
			caller := &sandbox.Caller{TenantID: id, TenantName: "Ada Stores", TenantEmail: "ada@example.com", MemberID: uuid.NewSHA1(id, []byte{byte(i % 2)}), Name: "Ada", Email: fmt.Sprintf("ada%d@example.com", i%2), Role: "owner"}
			text, err := m.passes.Write(sandbox.Pass{Caller: caller}, sandbox.Request{Method: "GET", URI: "/auth/me"})
			if err == nil {
				req, _ := http.NewRequest("GET", m.boxURL+"/auth/me", nil)
				req.Header.Set("X-Ajo-Test-Pass", text)
				var r testenv.Reply
				if r, err = testenv.Send(m.live.client, req); err == nil && r.Status != 200 {
					err = fmt.Errorf("%d %s", r.Status, r.Body)
				}
			}
			fail <- err
		}()
	}
	for range cap(fail) {
		require.NoError(t, <-fail)
	}
	require.EqualValues(t, 1, testenv.Value[int64](m.box.Env, `SELECT count(*) FROM tenants`))
	require.EqualValues(t, 3, testenv.Value[int64](m.box.Env, `SELECT count(*) FROM members`), "both, and the owner that nobody is")
}
