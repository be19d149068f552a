package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/testenv"
)

// The main job by the API alone, on an empty database, with one API and two workers: a tenant signs
// up, opens an account, is paid, notified and shown; its key and session end when it says so.
func TestMainJob(t *testing.T) {
	w := newWorld(t)
	w.lookForRaces()
	w.settings["AJO_DATABASE_URL"] = testenv.EmptyDatabase(t)
	// the entry stays provisional till the test has seen it
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail, Status: 503})
	w.migrate()
	w.startAll()
	e := newEndpoint(t)
	c := w.signUp(e)

	a := c.open("shop-1")
	require.Equal(t, account{
		ID: a.ID, TenantID: c.id, CustomerID: a.CustomerID, AccountRef: "shop-1", Provider: "nomba", BankAccountNumber: a.BankAccountNumber,
		BankAccountName: a.BankAccountName, BankName: fakebank.BankName, Currency: "NGN", Status: "active", Type: "dedicated",
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}, a)
	require.Contains(t, a.BankAccountName, "Ada Obi")
	upstream, ok := w.bank.Account(a.BankAccountNumber)
	require.True(t, ok, "the number is the bank's")
	require.Equal(t, a.ID, upstream.Ref, "the reference upstream is the account's id")
	require.Equal(t, "0.00", c.balance("shop-1"))

	tx := w.payAndTell(a.BankAccountNumber, "5000.00")
	w.eventually("the delivery", func() bool { return len(e.received()) == 1 })
	seen := seenProvisional(t, c, tx)
	c.checkDelivered(e, tx, seen)
	w.bank.Faults.Clear()
	w.eventually("the confirmation", func() bool { return c.statement("shop-1").Lines[0].Entry.Status == "confirmed" })
	s := c.statement("shop-1")
	seen.Status = "confirmed"
	require.Equal(t, seen, s.Lines[0].Entry, "nothing but the status has changed")
	require.Equal(t, []string{"4975.00", "0.00", "4975.00", "0.00", "4975.00"},
		[]string{s.Lines[0].RunningBalance, s.OpeningBalance, s.TotalCredits, s.TotalDebits, s.ClosingBalance})
	require.Equal(t, "4975.00", c.balance("shop-1"))
	require.Len(t, e.received(), 1, "confirmation sends no second webhook")
	c.leave(e)
}

// migrate brings the schema up with the binary, twice: the second time there is nothing to do.
func (w *world) migrate() {
	w.t.Helper()
	only := map[string]string{"AJO_DATABASE_URL": w.settings["AJO_DATABASE_URL"]}
	first := runToEnd(w.t, w.dir, only, "migrate")
	require.Zero(w.t, first.code, first.out)
	files, err := os.ReadDir("../../migrations")
	require.NoError(w.t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".sql") {
			require.Contains(w.t, first.out, "applied "+f.Name())
		}
	}
	require.Equal(w.t, result{0, "the schema is up to date\n"}, runToEnd(w.t, w.dir, only, "migrate"))
}

// seenProvisional is the one entry of the statement, which must be the payment's and provisional.
func seenProvisional(t *testing.T, c *tenant, tx fakebank.Transaction) entry {
	t.Helper()
	s := c.statement("shop-1")
	require.Len(t, s.Lines, 1)
	got := s.Lines[0].Entry
	require.Equal(t, entry{
		ID: got.ID, Direction: "credit", Amount: "4975.00", Fee: "25.00", Currency: "NGN", Status: "provisional", Narration: "school fees",
		ProviderTxnRef: tx.ID, TransactionGroupID: got.TransactionGroupID, CreatedAt: got.CreatedAt,
	}, got)
	require.Equal(t, "4975.00", s.ClosingBalance)
	require.Equal(t, "4975.00", c.balance("shop-1"), "a provisional credit counts")
	return got
}

// checkDelivered compares the one delivery to the specification and to the statement's entry.
func (c *tenant) checkDelivered(e *endpoint, tx fakebank.Transaction, posted entry) {
	t := c.w.t
	t.Helper()
	all := e.received()
	require.Len(t, all, 1)
	h := all[0]
	require.Empty(t, h.badReason)
	require.Equal(t, paymentReceived{
		EventType: "payment.received", TransactionGroupID: posted.TransactionGroupID, AccountRef: "shop-1", Amount: "4975.00", GrossAmount: "5000.00",
		ProviderFee: "25.00", Currency: "NGN", SenderName: tx.SenderName, Narration: "school fees", Status: "provisional",
	}, h.event)
	require.Equal(t, "application/json", h.header.Get("Content-Type"))
	require.Equal(t, posted.TransactionGroupID, h.header.Get("webhook-id"))
	// The receiver is not one that takes anything: the same bytes under another secret, or a
	// changed byte, are refused.
	signature := h.header.Get("X-Service-Signature")
	require.NotEmpty(t, refusal("another secret", signature, h.body, h.at))
	require.NotEmpty(t, refusal(e.secret, signature, append([]byte(" "), h.body...), h.at))
	require.NotEmpty(t, refusal(e.secret, signature, h.body, h.at.Add(10*time.Minute)))
}

// leave logs in, looks, rotates the key and logs out.
func (c *tenant) leave(e *endpoint) {
	w, t := c.w, c.w.t
	t.Helper()
	require.Equal(t, 401, w.send("GET", "/auth/me", nil, http.Header{"X-Api-Key": {c.key}}).status, "a key is no session")
	bad := c.want(401, "POST", "/auth/login", map[string]string{"email": c.email, "password": "not " + c.password})
	require.JSONEq(t, `{"error":"invalid credentials"}`, string(bad.body))

	in := c.want(200, "POST", "/auth/login", map[string]string{"email": c.email, "password": c.password})
	require.JSONEq(t, `{"tenantId":"`+c.id+`","name":"Ada Stores"}`, string(in.body))
	c.session = sessionOf(t, in)
	w.keepSecret("session token", c.session)
	var me struct {
		ID, Name, Email, Status, APIKeySuffix, KYCStatus, WebhookURL string
		BusinessType                                                 *string
		CreatedAt                                                    time.Time
	}
	c.want(200, "GET", "/auth/me", nil).into(t, &me)
	require.Equal(t, []string{c.id, "Ada Stores", c.email, "active", "…" + c.key[len(c.key)-4:], "unverified", e.URL},
		[]string{me.ID, me.Name, me.Email, me.Status, me.APIKeySuffix, me.KYCStatus, me.WebhookURL})

	old := c.key
	var rotated struct {
		APIKey string `json:"apiKey"`
	}
	c.want(200, "POST", "/auth/rotate-key", nil).into(t, &rotated)
	c.key = rotated.APIKey
	w.keepSecret("second API key", c.key)
	require.NotEqual(t, old, c.key)
	dead := w.send("GET", "/v1/accounts", nil, http.Header{"X-Api-Key": {old}})
	require.Equal(t, 401, dead.status, "the old key dies at once")
	require.JSONEq(t, `{"error":"unauthorized"}`, string(dead.body))
	c.want(200, "GET", "/v1/accounts", nil)

	require.JSONEq(t, `{}`, string(c.want(200, "POST", "/auth/logout", nil).body))
	c.want(401, "GET", "/auth/me", nil)
	c.want(200, "GET", "/v1/accounts/shop-1", nil)
}

// sessionOf is the token in the cookie that login sets.
func sessionOf(t testing.TB, a answer) string {
	t.Helper()
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, "service_session", cookies[0].Name)
	require.True(t, cookies[0].HttpOnly)
	require.Equal(t, int(7*24*time.Hour/time.Second), cookies[0].MaxAge)
	return cookies[0].Value
}
