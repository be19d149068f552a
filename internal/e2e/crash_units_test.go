package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

var enqueues = []string{"tasks/before-enqueue", "tasks/after-enqueue"}

// scenarios are the kinds of work that between them pass every point.
var scenarios = []scenario{
	{
		name: "settlement", points: slices.Concat([]string{"transfer/"}, enqueues), queues: "settle",
		begin: (*crash).chooseSettlements, unit: (*crash).settlement, check: (*crash).checkSettlements,
	},
	{
		name: "fee", points: []string{
			"transfer/accept:before-commit", "transfer/accept:after-commit", "transfer/after-pay", "transfer/after-ask", "transfer/end:before-commit", "transfer/end:after-commit",
		},
		queues: "settle", begin: (*crash).chooseFees, unit: (*crash).settlement, check: (*crash).checkSettlements,
	},
	{
		name: "approval", points: slices.Concat([]string{
			"approval/before-commit", "approval/after-commit", "transfer/accept:before-commit", "transfer/accept:after-commit", "transfer/claim:before-commit", "transfer/claim:after-commit",
			"transfer/submit:before-commit", "transfer/submit:after-commit", "transfer/before-pay", "transfer/after-pay", "transfer/end:before-commit", "transfer/end:after-commit",
		}, enqueues),
		queues: "settle", begin: (*crash).needApproval, unit: (*crash).approving, check: (*crash).checkApproved,
	},
	{
		name: "approval by hook", points: []string{"approval/"}, queues: "settle", begin: (*crash).answerByHook, unit: (*crash).asking, check: (*crash).checkAsked,
	},
	{name: "hold", points: []string{"once/"}, queues: "settle", unit: (*crash).holding, check: (*crash).checkHolds},
	{
		name: "refund", points: []string{
			"once/", "transfer/claim:before-commit", "transfer/claim:after-commit", "transfer/before-lookup", "transfer/after-lookup", "transfer/submit:before-commit",
			"transfer/submit:after-commit", "transfer/before-pay", "transfer/after-pay", "transfer/end:before-commit", "transfer/end:after-commit",
		},
		queues: "settle", unit: (*crash).refunding, check: (*crash).checkRefunds,
	},
	{
		name: "refund by policy", points: []string{"policy/", "payment/record:before-commit", "payment/record:after-commit"},
		begin: (*crash).needApproval, unit: (*crash).sendingBack, check: (*crash).checkSentBack,
	},
	{
		name: "payment", points: slices.Concat([]string{
			"account/", "payment/store:before-commit", "payment/store:after-commit", "payment/post:before-commit", "payment/post:after-commit",
			"payment/claim:before-commit", "payment/claim:after-commit", "payment/before-ask", "payment/after-ask", "payment/record:before-commit",
			"payment/record:after-commit", "webhook/claim:before-commit", "webhook/claim:after-commit", "webhook/before-call", "webhook/after-call",
			"webhook/record:before-commit", "webhook/record:after-commit",
		}, enqueues),
		begin: (*crash).listenToAll, unit: (*crash).sale, check: (*crash).checkPayments,
	},
	{
		// One call at a time, so that of several deliveries at once all but one are put off.
		name: "crowd", points: []string{"webhook/postpone:before-commit", "webhook/postpone:after-commit"}, queues: "ingest,confirm,deliver=8", width: 2,
		begin: (*crash).listenSlowly, unit: (*crash).crowd, check: (*crash).checkCredits,
	},
	{
		name: "found", points: slices.Concat([]string{
			"reconcile/before-run-commit", "reconcile/after-run-commit", "reconcile/before-list", "reconcile/after-list", "reconcile/before-ask-absent",
			"reconcile/after-ask-absent", "reconcile/before-slice-commit", "reconcile/after-slice-commit", "reconcile/before-items-commit", "reconcile/after-items-commit", "reconcile/before-report-commit", "reconcile/after-report-commit", "payment/store:before-commit", "payment/store:after-commit",
		}, enqueues),
		settings: map[string]string{"AJO_RECONCILE_EVERY": "1s", "AJO_RECONCILE_WINDOW": "1h", "AJO_CONFIRM_MIN_AGE": "0s"}, times: 2,
		begin: (*crash).openWithUnknown, unit: (*crash).silentPayment, check: (*crash).checkFound,
	},
	{
		name: "spooled", points: []string{"spool/", "payment/store:before-commit", "payment/store:after-commit"}, width: 1, times: 2,
		begin: (*crash).drawLine, unit: (*crash).spooledPayments, check: (*crash).checkCredits,
	},
	{
		name: "joining", points: []string{"tenant/", "customer/"}, queues: "expire", times: 2,
		settings: map[string]string{"AJO_IDENTITY_APP_ID": "app", "AJO_IDENTITY_KEY": "an-identity-key-of-this-test", "AJO_TRUSTED_PROXIES": "127.0.0.0/8"},
		begin:    (*crash).askIdentity, unit: (*crash).joining, check: (*crash).checkJoined,
	},
}

func (c *crash) listen() {
	c.endpoint, c.deliveries = newEndpoint(c.t), 1
	c.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, c.tenant, c.endpoint.URL)
}

// listenToAll gets confirmations as well.
func (c *crash) listenToAll() {
	c.listen()
	c.deliveries = 2
	c.price("payment", "10.00")
	c.Exec(`UPDATE tenants SET webhook_events = '{payment.confirmed,payment.reversed}' WHERE id = $1`, c.tenant)
}

// sale opens a one-time account, which is paid its exact amount, and so expires and is closed at
// the bank; the payment is stored, posted, delivered and confirmed. Another account expires at the
// tenant's word.
func (c *crash) sale(n int) unit {
	var order, shop account
	var tx fakebank.Transaction
	expired := false
	key := map[string]string{"X-Api-Key": c.key}
	return func() bool {
		switch {
		case order.ID == "":
			order = c.opened(fmt.Sprintf(`{"externalRef":"order-%d","name":"Ada Obi","mode":"onetime","expectedAmount":5000}`, n))
		case shop.ID == "":
			shop = c.opened(fmt.Sprintf(`{"externalRef":"shop-%d","name":"Ada Obi"}`, n))
		case tx.ID == "":
			tx = c.pay(order.BankAccountNumber, "5000.00")
		case !expired:
			a, ok := c.ask("POST", "/v1/accounts/"+shop.ID+"/expire", nil, key)
			// 422: it had expired, and the answer was lost
			expired = ok && (a.status == 200 || a.status == 422)
		default:
			return c.credited(tx, true) &&
				c.count(`SELECT count(*) FROM accounts WHERE id IN ($1, $2) AND closed_at IS NOT NULL AND NOT EXISTS (SELECT FROM work w WHERE w.id = accounts.id)`, order.ID, shop.ID) == 2
		}
		return false
	}
}

// opened asks for an account under one key; a zero account when it is not there yet.
func (c *crash) opened(body string) (a account) {
	got, ok := c.ask("POST", "/v1/accounts", json.RawMessage(body), map[string]string{"X-Api-Key": c.key, "Idempotency-Key": body})
	if !ok || got.status == http.StatusConflict || got.status == http.StatusServiceUnavailable {
		return a
	}
	if got.status == http.StatusInternalServerError && c.line != nil {
		return a // by a connection that was cut in the round before
	}
	require.Equal(c.t, 201, got.status, "%s", got.body)
	got.into(c.t, &a)
	return a
}

// credited reports whether the payment is posted, confirmed, and if delivered is set, delivered.
func (c *crash) credited(tx fakebank.Transaction, delivered bool) bool {
	return c.count(`
		SELECT count(*) FROM inbound_events e JOIN ledger_entries l ON l.transaction_group_id = e.id
		WHERE e.provider_txn_ref = $1 AND l.status = 'confirmed'
			AND ($2 = (SELECT count(*) FROM deliveries WHERE transaction_group_id = e.id AND status = 'delivered'))`, tx.ID, map[bool]int{true: c.deliveries}[delivered]) == 1
}

// checkPayments: there is one of each in the end, here and at the bank.
func (c *crash) checkPayments(units int) {
	c.t.Helper()
	c.checkCredits(units)
	require.Len(c.t, c.bank.Transactions(), units)
	there := c.bank.Accounts()
	require.Len(c.t, there, 2*units)
	for _, a := range there {
		require.True(c.t, a.Closed, a.NUBAN)
	}
	require.Equal(c.t, 2*units, c.count(`SELECT count(*) FROM accounts`))
	require.Equal(c.t, 2*units, c.count(`SELECT count(*) FROM account_history WHERE to_status = 'expired'`))
}

// checkCredits compares the books with the bank's: each payment is there once, with its net amount,
// delivered at least once where somebody listens; and all that can be recomputed agrees.
func (c *crash) checkCredits(int) {
	c.t.Helper()
	for _, tx := range c.bank.Transactions() {
		require.Equal(c.t, fmt.Sprintf("credit %s confirmed", tx.Amount.Sub(tx.Fee)), testenv.Value[string](c.Env, `
			SELECT coalesce(string_agg(direction || ' ' || amount || ' ' || status, ', '), 'nothing') FROM ledger_entries WHERE provider_txn_ref = $1 AND kind = ''`, tx.ID))
	}
	if c.endpoint != nil {
		require.Len(c.t, c.endpoint.groups(), len(c.bank.Transactions()), "notified of each payment, at least once")
		require.Equal(c.t, c.deliveries*len(c.bank.Transactions()), c.count(`SELECT count(*) FROM deliveries WHERE status = 'delivered'`))
	}
	require.Zero(c.t, c.count(`SELECT count(*) FROM inbound_events WHERE status NOT IN ('processed', 'ignored')`))
	testenv.FindsNothing(c.t, c.Pool, invariant.Verify)
}

func (c *crash) listenSlowly() {
	c.listen()
	c.endpoint.answers(func(int) int { time.Sleep(1200 * time.Millisecond); return 200 })
}

// openOne waits for an account of its own that a unit is to be paid on.
func (c *crash) openOne(ref string) (a account) {
	c.t.Helper()
	c.until("the account", func() bool {
		a = c.opened(`{"externalRef":"` + ref + `","name":"Ada Obi"}`)
		return a.ID != ""
	})
	return a
}

// crowd makes some payments at once.
func (c *crash) crowd(n int) unit {
	a := c.openOne(fmt.Sprintf("shop-%d", n))
	var txs []fakebank.Transaction
	for range 4 {
		txs = append(txs, c.pay(a.BankAccountNumber, "100.00"))
	}
	return func() bool {
		return !slices.ContainsFunc(txs, func(tx fakebank.Transaction) bool { return !c.credited(tx, true) })
	}
}

// openWithUnknown posts a payment that the bank does not know: runs ask about it.
func (c *crash) openWithUnknown() { c.credit(c.Account(c.tenant, "unknown"), money.Must("10.00")) }

// silentPayment is one whose event never comes. What the bank does not know is asked about less
// often the older it is, so it is made new: the next run asks again.
func (c *crash) silentPayment(n int) unit {
	c.Exec(`UPDATE reconcile_items SET found_at = now(), due_at = now()`)
	a := c.openOne(fmt.Sprintf("shop-%d", n))
	tx := c.payment(fakebank.Payment{NUBAN: a.BankAccountNumber, Amount: money.Must("5000.00"), Silent: true})
	return func() bool { return c.credited(tx, false) }
}

// checkFound: every payment was found in the bank's list, and the runs have ended.
func (c *crash) checkFound(units int) {
	c.t.Helper()
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM inbound_events WHERE source = 'reconciliation'`))
	c.until("a run that has ended, with the payment that the bank does not know", func() bool {
		return c.count(`SELECT count(*) FROM reconciliations WHERE status = 'finished' AND report::text LIKE '%unknown_at_bank%'`) > 0
	})
	c.checkCredits(units)
}

// drawLine has the API reach Postgres by a line that can be cut; the worker goes there directly.
func (c *crash) drawLine() {
	c.t.Helper()
	c.byLine, c.line = throughProxy(c.t, c.settings["AJO_DATABASE_URL"], false)
}

// spooledPayments arrive while the API has no Postgres, until it has taken them on its disk, or
// dies of it.
func (c *crash) spooledPayments(int) unit {
	number := c.openOne("shop").BankAccountNumber
	c.line.Refuse(true)
	var txs []fakebank.Transaction
	for range 3 {
		txs = append(txs, c.pay(number, "100.00"))
	}
	taken := false
	return func() bool {
		taken = taken || !slices.ContainsFunc(txs, func(tx fakebank.Transaction) bool {
			hook, ok := c.bank.WebhookFor(tx.ID)
			return !ok || hook.State != fakebank.HookDelivered
		})
		if !taken {
			return false
		}
		c.line.Restore()
		return !slices.ContainsFunc(txs, func(tx fakebank.Transaction) bool { return !c.credited(tx, false) })
	}
}

func (c *crash) askIdentity() { c.settings["AJO_IDENTITY_URL"] = c.bank.URL() }

// joining is a tenant that signs up and a customer of it who shows a NIN. Its person does what
// people do who hear nothing: registers again when no mail comes, logs in when a code is not taken
// any more.
func (c *crash) joining(n int) unit {
	email, password := fmt.Sprintf("dev-%d@tenant.example", n), "correct horse battery"
	var id, key, customer string
	tries, mails, unsure := 0, 0, false // unsure: the code was entered, and there is no key
	var asked time.Time
	// another address each time, as registrations are limited by address
	from := func() map[string]string {
		tries++
		return map[string]string{"X-Forwarded-For": fmt.Sprintf("10.%d.%d.%d", n/250, n%250, tries%250)}
	}
	return func() bool {
		switch {
		case id == "" || key == "" && !unsure && time.Since(asked) > 2*time.Second:
			a, ok := c.ask("POST", "/register", map[string]string{"name": "Ada Stores", "email": email, "password": password}, from())
			switch {
			case ok && a.status == 429: // it has heard nothing ten times
				email, id = "new-"+email, ""
			case ok:
				require.Equal(c.t, 201, a.status, "%s", a.body)
				var registered struct{ TenantID string }
				a.into(c.t, &registered)
				id, mails, asked = registered.TenantID, 0, time.Now()
			}
		case key == "" && unsure:
			key, unsure = c.rekeyed(email, password, from)
		case key == "":
			all := c.codes(id)
			if len(all) == mails {
				return false
			}
			mails = len(all)
			key = c.verified(id, all[mails-1], from)
			unsure = key == ""
		case customer == "":
			a, ok := c.ask("POST", "/v1/accounts", json.RawMessage(`{"externalRef":"amina","name":"Amina Bello"}`), map[string]string{"X-Api-Key": key, "Idempotency-Key": "amina"})
			if ok && a.status == 201 {
				var made account
				a.into(c.t, &made)
				customer = made.CustomerID
			}
		default:
			a, ok := c.ask("POST", "/v1/customers/"+customer+"/kyc", map[string]string{"nin": fakebank.SandboxNIN}, map[string]string{"X-Api-Key": key})
			// that the answer was lost
			return ok && (a.status == 200 || strings.Contains(string(a.body), "already at tier 2"))
		}
		return false
	}
}

// verified enters a code, and returns the key; empty when it does not hold, or nobody answers.
func (c *crash) verified(id, code string, from func() map[string]string) string {
	a, ok := c.ask("POST", "/auth/verify-email", map[string]string{"tenantId": id, "otp": code}, from())
	if !ok || a.status != 200 {
		return ""
	}
	var verified struct{ APIKey string }
	a.into(c.t, &verified)
	return verified.APIKey
}

// rekeyed is for who has entered a code and has no key: its answer was lost. Logged in, a tenant
// makes another. One that cannot log in was not verified, which is sure then.
func (c *crash) rekeyed(email, password string, from func() map[string]string) (key string, unsure bool) {
	a, ok := c.ask("POST", "/auth/login", map[string]string{"email": email, "password": password}, from())
	if !ok || a.status != 200 {
		return "", !ok
	}
	header := from()
	header["Cookie"] = "service_session=" + sessionOf(c.t, a)
	if a, ok = c.ask("POST", "/auth/rotate-key", nil, header); !ok {
		return "", true
	}
	require.Equal(c.t, 200, a.status, "%s", a.body)
	var rotated struct{ APIKey string }
	a.into(c.t, &rotated)
	return rotated.APIKey, false
}

// codes are those that were mailed for the registration, in the order of the mails.
func (c *crash) codes(id string) (all []string) {
	files, err := filepath.Glob(filepath.Join(c.settings["AJO_MAIL_DIR"], "*.eml"))
	require.NoError(c.t, err)
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(c.t, err)
		if m := codeForm.FindSubmatch(b); m != nil && strings.Contains(string(b), id) {
			all = append(all, string(m[1]))
		}
	}
	return all
}

// checkJoined: each tenant is there once, and each customer has shown a NIN.
func (c *crash) checkJoined(units int) {
	c.t.Helper()
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM tenants t WHERE email LIKE '%dev-%' AND EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = t.id AND k.main)`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM customers WHERE kyc_status = 'approved' AND kyc_tier = 2 AND nin IS NOT NULL`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM customers`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM accounts WHERE status = 'active'`))
	c.checkCredits(units)
}
