package e2e

import (
	"crypto/rand"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// testMode is the sandbox beside a live world.
type testMode struct {
	*testenv.Env
	settings map[string]string
	process  *process
}

// startSandbox runs `ajo sandbox` on databases of its own, and has the live settings name it.
func (w *world) startSandbox() *testMode {
	w.t.Helper()
	m := &testMode{Env: testenv.New(w.t)}
	m.Redis()
	shared := rand.Text() + rand.Text()
	w.keepSecret("secret of test mode", shared)
	m.settings = map[string]string{
		"AJO_HTTP_ADDR": freeAddress(w.t), "AJO_OPS_ADDR": "127.0.0.1:0", "LOG_FORMAT": "json", "AJO_TEST_SECRET": shared,
		"AJO_DATABASE_URL": m.DatabaseURL, "AJO_DATABASE_MAX_CONNS": "6", "AJO_REDIS_URL": m.RedisURL, "AJO_ENCRYPTION_KEYS": secret.NewKey("test").Reveal(),
		"AJO_SPOOL_DIR": filepath.Join(w.t.TempDir(), "sandbox", "spool"), "AJO_RECONCILE_EVERY": "2s", "AJO_RATE_LIMIT": "1000000-M", "AJO_SWEEP_EVERY": "1s",
		"AJO_CONFIRM_DELAYS": "1s", "AJO_SETTLE_DELAYS": "1s", "AJO_SETTLE_RECHECKS": "5s,5s,5s,5s,5s,5s,5s,5s,5s,5s",
	}
	w.settings["AJO_TEST_URL"], w.settings["AJO_TEST_SECRET"] = "http://"+m.settings["AJO_HTTP_ADDR"], shared
	m.run(w)
	return m
}

func (m *testMode) run(w *world) {
	m.process = start(w.t, w.dir, m.settings, "sandbox")
	w.procs = append(w.procs, m.process)
	m.process.logged("the sandbox listens")
}

// tableRows counts the rows of every table of a database.
func tableRows(e *testenv.Env) map[string]int64 {
	counts := map[string]int64{}
	for _, name := range testenv.Value[[]string](e, `SELECT array_agg(table_name::text) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`) {
		counts[name] = testenv.Value[int64](e, `SELECT count(*) FROM `+pgx.Identifier{name}.Sanitize())
	}
	return counts
}

// tenantMetric is a live series that a request, a payment or a payout of a tenant changes.
var tenantMetric = regexp.MustCompile(`(?m)^ajo_(http_requests_total|payments_total|inbound_events_total|confirmations_total|transfers_ended_total|delivery_attempts_total|nin_checks_total|queue_rows_total|queue_tasks|spool_bytes|spool_records|invariant_(accounts|dead_letters|differing_transfers|misdirected_events|needs_review|negative_balances|pending_transfers|processing_transfers|provisional_credits|provisional_naira|unposted_events|violations))\b.*$`)

// counted are the values of those series; what is not there is 0.
func counted(ops ...string) map[string]string {
	out := map[string]string{}
	for _, o := range ops {
		for _, line := range tenantMetric.FindAllString(scrape(o), -1) {
			if name, value, _ := strings.Cut(line, " "); value != "0" {
				out[o+" "+name] = value
			}
		}
	}
	return out
}

// In test mode a tenant's payments and payouts go their whole way, with the faults that it asks
// for, and the live service has none of it: no row of any table, nothing in its metrics, its queues
// and its float, and nothing at its webhook URL. A sandbox that ended is a 502, and goes on with
// its data.
func TestSandbox(t *testing.T) {
	w := newWorld(t)
	m := w.startSandbox()
	money, telling := w.startAll()
	live, test := newEndpoint(t), newEndpoint(t)
	c := w.signUp(live)
	c.session = sessionOf(t, c.want(200, "POST", "/auth/login", map[string]string{"email": c.email, "password": c.password}))
	session := http.Header{"Cookie": {"service_session=" + c.session}}
	inTest := func(method, path string, body any, status int) answer {
		t.Helper()
		h := session.Clone()
		h.Set(sandbox.ModeHeader, sandbox.ModeTest)
		a := w.send(method, path, body, h)
		require.Equal(t, status, a.status, "%s %s: %s", method, path, a.body)
		return a
	}
	w.eventually("the live metrics", func() bool { return len(counted(w.api.ops())) > 2 })
	before, rows := counted(w.api.ops(), money.ops(), telling.ops()), tableRows(w.Env)

	var key struct{ APIKey string }
	inTest("POST", "/auth/keys", map[string]any{"name": "tests", "scopes": []string{"accounts:read", "accounts:write", "payments:read", "payouts:create", "payouts:read", "webhooks:write"}}, 201).into(t, &key)
	require.True(t, secret.TestKey.Check(key.APIKey))
	w.keepSecret("test key", key.APIKey)
	dev := &tenant{w: w, key: key.APIKey}
	dev.want(200, "POST", "/auth/webhook-url", map[string]string{"url": test.URL})
	var signing struct{ WebhookSecret string }
	dev.want(200, "POST", "/auth/webhook-secret", nil).into(t, &signing)
	test.learn(signing.WebhookSecret)
	dev.want(201, "POST", "/v1/accounts", map[string]string{"externalRef": "shop-1", "name": "Ada Obi"})
	pay := func(fault string) string {
		t.Helper()
		var paid struct{ TransactionID string }
		dev.want(201, "POST", "/v1/test/payments", map[string]string{"accountRef": "shop-1", "amount": "5000.00", "fault": fault}).into(t, &paid)
		return paid.TransactionID
	}
	ends := map[string]string{}
	for fault, end := range map[string]string{
		"": "confirmed", "webhook_lost": "confirmed", "webhook_late": "confirmed", "webhook_duplicate": "confirmed", "amount_differs": "needs_review",
		"failed_at_bank": "reversed", "pending_at_bank": "confirmed", "recalled": "reversed",
	} {
		ends[pay(fault)] = end
	}
	statusOf := func(txn string) string {
		return testenv.Value[string](m.Env, `SELECT coalesce((SELECT status FROM ledger_entries WHERE provider_txn_ref = $1 AND reversal_of IS NULL), 'none')`, txn)
	}
	w.eventually("the payments to end as their faults say", func() bool {
		for txn, end := range ends {
			if statusOf(txn) != end {
				return false
			}
		}
		return true
	})
	payouts := map[string]string{}
	for to, end := range map[string]string{
		"0123456789": "success", sandbox.ToRejected: "failed", sandbox.ToNobody: "failed", sandbox.ToUnclear: "success", sandbox.ToFailed: "failed", sandbox.ToRefunded: "refunded",
	} {
		var made struct{ MerchantTxRef string }
		dev.want(202, "POST", "/v1/accounts/shop-1/settle", map[string]string{"amount": "100.00", "bankCode": "058", "accountNumber": to}).into(t, &made)
		payouts[made.MerchantTxRef] = end
	}
	left, reasons := map[string]string{}, map[string]string{}
	ended := func(ref, end string) bool {
		var got struct{ Status, AccountNumber, FailureReason string }
		dev.want(200, "GET", "/v1/transfers/"+ref, nil).into(t, &got)
		left[got.AccountNumber] = got.Status + " (" + got.FailureReason + "), not " + end
		if got.Status == end {
			delete(left, got.AccountNumber)
		}
		if end == "failed" {
			reasons[got.AccountNumber] = got.FailureReason
		}
		return got.Status == end
	}
	for ref, end := range payouts { // one after the other, as each question passes two processes
		testenv.Eventually(t, 4*healLimit, "a payout to end as its destination says", func() bool { return ended(ref, end) }, func() any { return left })
	}
	for ref, end := range payouts {
		require.True(t, ended(ref, end), "%v", left)
	}
	for to, reason := range reasons {
		require.Equal(t, to == sandbox.ToNobody, strings.Contains(reason, "does not exist"), "%s: %s", to, reason)
	}
	require.Empty(t, live.received())
	w.eventually("the test events", func() bool { return len(test.received()) >= 7 })
	for _, h := range test.received() {
		require.Equal(t, sandbox.ModeTest, h.header.Get(sandbox.ModeHeader))
	}
	test.checkAll()
	after := tableRows(w.Env)
	delete(rows, "reconciliations") // the live workers reconcile by the clock meanwhile
	delete(after, "reconciliations")
	require.Equal(t, rows, after, "rows of the live database")
	require.Equal(t, before, counted(w.api.ops(), money.ops(), telling.ops()), "live metrics")
	require.Zero(t, w.bank.Wallet().Sign(), "the live bank")

	m.process.Signal(syscall.SIGTERM)
	require.Zero(t, m.process.exit())
	dev.want(502, "GET", "/v1/accounts", nil)
	c.want(200, "GET", "/auth/accounts", nil)
	m.run(w)
	inTest("GET", "/auth/overview", nil, 200)
	again := pay("")
	w.eventually("a payment after the restart", func() bool { return statusOf(again) == "confirmed" })
}

// Neither mode starts on the other's database, nor the sandbox on a Redis that another service
// uses, nor anything with another account at the bank than the one that the books are of.
func TestSandboxKeepsToItsOwn(t *testing.T) {
	w := newWorld(t)
	m := w.startSandbox()
	w.startAPI()
	c := w.signUp(nil)
	c.session = sessionOf(t, c.want(200, "POST", "/auth/login", map[string]string{"email": c.email, "password": c.password}))
	h := http.Header{"Cookie": {"service_session=" + c.session}, sandbox.ModeHeader: {sandbox.ModeTest}}
	require.Equal(t, 200, w.send("GET", "/auth/me", nil, h).status)
	c.want(201, "POST", "/v1/accounts", map[string]string{"externalRef": "shop-1", "name": "Ada Obi"})
	own := m.Redis()
	require.NoError(t, own.FlushDB(t.Context()).Err())
	testenv.Eventually(t, 20*time.Second, "a Redis that has lost its data to be the sandbox's again", func() bool {
		return own.Exists(t.Context(), "ajo:sandbox").Val() > 0
	})
	m.process.Signal(syscall.SIGTERM)
	require.Zero(t, m.process.exit())
	m.run(w)
	m.process.Signal(syscall.SIGTERM)
	require.Zero(t, m.process.exit())

	mixed := maps.Clone(m.settings)
	mixed["AJO_DATABASE_URL"] = w.DatabaseURL
	wrong := runToEnd(t, w.dir, mixed, "sandbox")
	require.Equal(t, 1, wrong.code)
	require.Contains(t, wrong.out, "AJO_DATABASE_URL: it has live tenants: the sandbox needs a database of its own")
	for _, role := range []string{"api", "worker"} {
		wrong = runToEnd(t, w.dir, w.with(map[string]string{"AJO_DATABASE_URL": m.DatabaseURL}), role)
		require.Equal(t, 1, wrong.code)
		require.Contains(t, wrong.out, "AJO_DATABASE_URL: it is the sandbox's")
		wrong = runToEnd(t, w.dir, w.with(map[string]string{"AJO_REDIS_URL": m.settings["AJO_REDIS_URL"]}), role)
		require.Equal(t, 1, wrong.code)
		require.Contains(t, wrong.out, "AJO_REDIS_URL: it is the sandbox's")
		// nor on books of another account at the bank
		wrong = runToEnd(t, w.dir, w.with(map[string]string{"AJO_PROVIDER_ACCOUNT_ID": "another"}), role)
		require.Equal(t, 1, wrong.code)
		require.Contains(t, wrong.out, "AJO_PROVIDER_ACCOUNT_ID, AJO_PROVIDER_URL: the books are of another account at the bank")
	}
	mixed = maps.Clone(m.settings)
	mixed["AJO_REDIS_URL"] = w.RedisURL
	require.NoError(t, w.redis.Set(t.Context(), "asynq:queues", "x", time.Hour).Err())
	wrong = runToEnd(t, w.dir, mixed, "sandbox")
	require.Equal(t, 1, wrong.code)
	require.Contains(t, wrong.out, "AJO_REDIS_URL: it has keys of another service")
}
