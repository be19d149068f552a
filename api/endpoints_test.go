package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// What the specification leaves open for the two webhook settings: a key and a session both do.
func TestWebhookSettingsTakeBothCredentials(t *testing.T) {
	spec.Shows(t, "endpoint.webhook-url.credential", "endpoint.webhook-secret.credential", "endpoint.webhook-secret.existing")
	w := setup(t)
	m := w.onboard()
	var secrets []string
	for i, h := range []header{m.withKey(), m.withSession()} {
		url := fmt.Sprintf("https://example.com/%d", i)
		w.do("POST", "/auth/webhook-url", `{"url":"`+url+`"}`, h...).ok(200, nil).has(`{"webhookUrl":"` + url + `"}`)
		secrets = append(secrets, w.do("POST", "/auth/webhook-secret", "", h...).ok(200, nil).Body)
	}
	require.Regexp(t, `^\{"webhookSecret":"[0-9a-f]{64}"\}$`, secrets[0])
	require.Equal(t, secrets[0], secrets[1], "the one that exists")
}

// Spaces around URLs and references are cut, as the document says, wherever a body has one. A new
// reference must have none: the account would not have the one that its tenant knows it by.
func TestSpacesAroundURLsAndReferences(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":" https://example.com/1\n"}`, 201, key).
		has(t, fields{"AccountRef": "shop-1", "CallbackURL": "https://example.com/1"})
	for _, ref := range []string{" shop-1", "shop-1 ", " shop-1 ", "\u00a0shop-1", "shop-1\u2003"} {
		for path, h := range map[string]header{"/v1/accounts": key, "/auth/accounts": m.withSession()} {
			w.do("POST", path, fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), h...).refused(400, "externalRef must not begin or end with a space")
		}
	}
	w.do("POST", "/v1/accounts", `{"externalRef":" \n","name":"Ada Obi"}`, key...).refused(400, "externalRef is required")
	w.ask("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi","callbackUrl":" "}`, 201, key).has(t, fields{"CallbackURL": nil})
	w.ask("PATCH", "/v1/accounts/shop-1", `{"callbackUrl":" https://example.com/2 "}`, 200, key).has(t, fields{"CallbackURL": "https://example.com/2"})
	w.ask("PATCH", "/v1/accounts/shop-1", `{"callbackUrl":" "}`, 200, key).has(t, fields{"CallbackURL": nil})
	w.ask("PATCH", "/v1/accounts/shop-1", `{"split":{"shares":[{"accountRef":" shop-2 ","percent":"1"}]}}`, 200, key)
	made := w.ask("POST", "/auth/webhook-endpoints", `{"url":"https://example.com/3","accountRefs":["shop-2"," shop-1 ","shop-1"]}`, 201, key)
	fields(made["endpoint"].(map[string]any)).has(t, fields{"accountRefs": []any{"shop-1", "shop-2"}})
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"1.00","hook":" https://example.com/4 "}`), 200, m.withSession()).
		has(t, fields{"hook": "https://example.com/4"})
}

// Nor do spaces around names and e-mails count for their length, wherever one is given.
func TestSpacesAroundNamesAndEmails(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	padded := func(s string) string { return strings.Repeat(" ", 300) + s + strings.Repeat(" ", 300) }
	w.do("POST", "/register", fmt.Sprintf(`{"name":%q,"email":%q,"password":%q}`, padded("Ada Obi"), padded("ada@example.com"), password)).ok(201, nil)
	w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, padded(m.email), password)).ok(200, nil)
	w.do("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, padded(m.email))).ok(200, nil)
	w.ask("POST", "/auth/members", fmt.Sprintf(`{"email":%q,"role":"viewer"}`, padded("bola@example.com")), 201, m.withSession()).
		has(t, fields{"email": "bola@example.com"})
	var account struct{ CustomerID string }
	w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":"shop-1","name":%q}`, padded("Ada Obi")), key...).ok(201, &account)
	w.ask("PATCH", "/v1/accounts/shop-1", fmt.Sprintf(`{"name":%q}`, padded("Ada N. Obi")), 200, key)
	w.ask("PATCH", "/v1/customers/"+account.CustomerID, fmt.Sprintf(`{"name":%q}`, padded("Ada N. Obi")), 200, key).has(t, fields{"Name": "Ada N. Obi"})

	const long = "name must be at most 200 characters"
	name := padded(strings.Repeat("x", 201))
	w.do("POST", "/register", fmt.Sprintf(`{"name":%q,"email":"x@example.com","password":%q}`, name, password)).refused(400, long)
	w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":"shop-2","name":%q}`, name), key...).refused(400, long)
	w.do("PATCH", "/v1/accounts/shop-1", fmt.Sprintf(`{"name":%q}`, name), key...).refused(400, long)
}

// In development an address that production refuses is accepted with a warning; in production there
// is nothing to warn of.
func TestAnAddressThatProductionRefusesIsAcceptedWithAWarning(t *testing.T) {
	w := setup(t)
	key := w.onboard().withKey()
	for url, why := range map[string]string{
		"http://127.0.0.1:9000/hook": "must begin with https://", "https://10.0.0.7/": "must not point to a private address",
		"https://localhost/": "must not point to a private address", "https://example.com/": "",
	} {
		warning := func(field string) string {
			if why == "" {
				return ""
			}
			return "production refuses this address: " + field + " " + why
		}
		r := w.do("POST", "/auth/webhook-url", fmt.Sprintf(`{"url":%q}`, url), key...).ok(200, nil)
		require.Equal(t, warning("url"), r.Header.Get("X-Ajo-Warning"), url)
		ref := uuid.NewString()
		r = w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi","callbackUrl":%q}`, ref, url), key...).ok(201, nil)
		require.Equal(t, warning("callbackUrl"), r.Header.Get("X-Ajo-Warning"), url)
		r = w.do("PATCH", "/v1/accounts/"+ref, fmt.Sprintf(`{"callbackUrl":%q}`, url), key...).ok(200, nil)
		require.Equal(t, warning("callbackUrl"), r.Header.Get("X-Ajo-Warning"), url)
		require.Empty(t, w.do("PATCH", "/v1/accounts/"+ref, `{"callbackUrl":""}`, key...).ok(200, nil).Header.Get("X-Ajo-Warning"))
	}
	require.Empty(t, w.do("POST", "/auth/webhook-url", `{"url":"ftp://example.com"}`, key...).refused(400, "url must begin with https:// or http://").Header.Get("X-Ajo-Warning"))
}

// An address for events, the tenant's or an account's own, comes with the secret that signs them.
func TestAnAddressForEventsComesWithASecret(t *testing.T) {
	spec.Shows(t, "event.out.unsigned")
	w := setup(t)
	for name, set := range map[string]func(m member){
		"the tenant's": func(m member) {
			w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/"}`, m.withKey()...).ok(200, nil)
		},
		"a new account's": func(m member) {
			w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":"https://example.com/"}`, m.withKey()...).ok(201, nil)
		},
		"a changed account's": func(m member) {
			w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
			w.do("PATCH", "/v1/accounts/shop-1", `{"callbackUrl":""}`, m.withKey()...).ok(200, nil)
			require.False(t, w.signs(m), "no address, no secret")
			w.do("PATCH", "/v1/accounts/shop-1", `{"callbackUrl":"https://example.com/"}`, m.withKey()...).ok(200, nil)
		},
	} {
		m := w.onboard()
		require.False(t, w.signs(m))
		set(m)
		require.True(t, w.signs(m), name)
	}
}

// signs reports whether the tenant has a signing secret.
func (w *world) signs(m member) bool {
	w.T.Helper()
	return testenv.Value[bool](w.Env, `SELECT webhook_secret IS NOT NULL FROM tenants WHERE id = $1`, m.id)
}

// Misdirected events belong to no tenant: every one sees the same.
func TestMisdirectedEventsAreTheSystems(t *testing.T) {
	spec.Shows(t, "endpoint.misdirected.system-wide")
	w := setup(t)
	a, b := w.onboard(), w.onboard()
	w.pay(event{"r-1", "t-1", "nobody", "1", "0"})
	seen := w.do("GET", "/auth/misdirected", "", a.withSession()...).ok(200, nil).Body
	require.Contains(t, seen, `"ProviderTxnRef":"t-1"`)
	require.Equal(t, seen, w.do("GET", "/auth/misdirected", "", b.withSession()...).ok(200, nil).Body)
}

// Every list goes on where the cursor of the answer before says, to its end.
func TestPagesOfEveryList(t *testing.T) {
	spec.Shows(t, "endpoint.accounts.list.after", "endpoint.customers.list.after", "endpoint.statement.after", "endpoint.statement.order",
		"endpoint.statement.aggregates", "endpoint.dead-letters.pages", "endpoint.page.cursor", "endpoint.page.limit", "endpoint.page.next",
		"endpoint.page.more", "endpoint.page.size")
	w := setup(t)
	m := w.onboard()
	for i := range 3 {
		ref := fmt.Sprintf("shop-%d", i)
		w.do("POST", "/v1/accounts", fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, ref), m.withKey()...).ok(201, nil)
		w.pay(event{"r-" + ref, "t-" + ref, "shop-0", fmt.Sprintf("%d.00", i+1), "0"})
		w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
			VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com/cb', '{}', 'dead_letter', 6, 'HTTP 500', $4)`,
			uuid.Must(uuid.NewV7()), m.id, w.accountID(m, ref), w.Clock.Now())
	}
	for path, list := range map[string]string{
		"/v1/accounts": "accounts", "/v1/customers": "customers", "/v1/accounts/shop-0/statement": "lines", "/v1/webhooks/dead-letters": "deadLetters",
	} {
		var whole map[string]json.RawMessage
		w.do("GET", path, "", m.withKey()...).ok(200, &whole)
		var want, got []any
		require.NoError(t, json.Unmarshal(whole[list], &want))
		require.Len(t, want, 3, path)
		after := ""
		for _, left := range []int{2, 1} {
			page := w.ask("GET", path+"?limit=2"+after, "", 200, m.withKey())
			require.Len(t, page[list], left, path)
			got = append(got, page[list].([]any)...)
			p := page["pagination"].(map[string]any)
			require.Equal(t, json.Number("2"), p["limit"], path)
			require.Equal(t, left == 2, p["hasMore"], path)
			if left == 1 {
				require.Contains(t, p, "nextCursor")
				require.Nil(t, p["nextCursor"], path)
			} else {
				after = "&after=" + p["nextCursor"].(string)
			}
			if list == "lines" {
				fields(page).has(t, fields{"openingBalance": "0.00", "totalCredits": "6.00", "totalDebits": "0.00", "closingBalance": "6.00"})
			}
		}
		a, err := json.Marshal(want)
		require.NoError(t, err)
		b, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, string(a), string(b), path)
	}
	var amounts []any
	for _, l := range w.read(m.withKey(), "/v1/accounts/shop-0/statement").list("lines") {
		amounts = append(amounts, l["entry"].(map[string]any)["Amount"])
	}
	require.Equal(t, []any{"1.00", "2.00", "3.00"}, amounts, "oldest first")
}

// Each field of a PATCH stands alone and changes nothing else; a new name is ours, not the bank's.
func TestPatchOneFieldAtATime(t *testing.T) {
	spec.Shows(t, "endpoint.accounts.patch.callback-url", "endpoint.accounts.patch.expected-amount", "endpoint.accounts.patch.name",
		"endpoint.accounts.patch.not-at-provider")
	w := setup(t)
	m := w.onboard()
	want := w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, 201, m.withKey())
	before, ok := w.bank.Account(want["ID"].(string))
	require.True(t, ok)
	for _, c := range []struct {
		body, field string
		value       any
	}{
		{`{"callbackUrl":"https://example.com/cb"}`, "CallbackURL", "https://example.com/cb"},
		{`{"expectedAmount":12.5}`, "ExpectedAmount", json.Number("12.50")},
		{`{"name":"Ada N. Obi"}`, "BankAccountName", "Ada N. Obi"},
	} {
		got := w.ask("PATCH", "/v1/accounts/shop-1", c.body, 200, m.withKey())
		want[c.field], want["UpdatedAt"] = c.value, got["UpdatedAt"]
		require.Equal(t, want, got)
		require.Equal(t, want, w.read(m.withKey(), "/v1/accounts/shop-1"))
	}
	after, _ := w.bank.Account(want["ID"].(string))
	require.Equal(t, before.Name, after.Name)
}

// A dedicated account takes payments for ever, also those of exactly its expected amount.
func TestDedicatedAccountStaysOpen(t *testing.T) {
	spec.Shows(t, "endpoint.provision.dedicated.open", "endpoint.provision.dedicated.reused", "endpoint.provision.mode.default")
	w := setup(t)
	m := w.onboard()
	const body = `{"externalRef":"shop-1","name":"Ada Obi","expectedAmount":100}`
	made := w.ask("POST", "/v1/accounts", body, 201, m.withKey())
	for _, txn := range []string{"t-1", "t-2", "t-3"} {
		w.pay(event{"r-" + txn, txn, "shop-1", "100.00", "0"})
	}
	w.do("GET", "/v1/accounts/shop-1/balance", "", m.withKey()...).ok(200, nil).has(`{"accountRef":"shop-1","balance":"300.00","available":"0.00","provisional":"300.00","held":"0.00","currency":"NGN"}`)
	w.do("GET", "/v1/balance", "", m.withKey()...).ok(200, nil).has(`{"balance":"300.00","available":"0.00","provisional":"300.00","held":"0.00","currency":"NGN"}`)
	got := w.ask("POST", "/v1/accounts", body, 201, m.withKey())
	require.Equal(t, made, got, "the same account, not another")
	got.has(t, fields{"Type": "dedicated", "Status": "active", "ExpiresAt": nil})
}

// What an expired account took stays in its statement, and what is paid to it afterwards is not its
// own.
func TestExpiredAccountKeepsItsEntries(t *testing.T) {
	spec.Shows(t, "state.account.expired.entries", "state.account.expired.payments")
	w := setup(t)
	m, key := w.funded("5000.00")
	w.do("POST", "/v1/accounts/shop-1/expire", "", key...).ok(200, nil)
	before := w.read(key, "/v1/accounts/shop-1/statement")
	require.Len(t, before["lines"], 1)
	before.has(t, fields{"closingBalance": "5000.00"})
	w.Clock.Advance(1e9 * 60)
	w.pay(event{"late", "t-late", "shop-1", "7.00", "0"})
	require.Equal(t, before, w.read(key, "/v1/accounts/shop-1/statement"))
	require.Contains(t, w.do("GET", "/auth/misdirected", "", m.withSession()...).ok(200, nil).Body, `"ProviderTxnRef":"t-late"`)
}

// No account lacks its first entry; were there none, the list is null.
func TestHistoryOfNothing(t *testing.T) {
	spec.Shows(t, "endpoint.accounts.history.null")
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, nil)
	w.Exec(`ALTER TABLE account_history DISABLE TRIGGER account_history_append_only`)
	w.Exec(`DELETE FROM account_history`)
	w.do("GET", "/v1/accounts/shop-1/history", "", m.withKey()...).ok(200, nil).has(`{"history":null}`)
}

// The statuses that the document lists, to which every answer of these tests is held, are the
// specification's.
func TestStatusesAreTheSpecifiedOnes(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.account.values", "state.transfer.values", "state.transfer.naming", "state.customer-kyc.values", "state.tenant-kyc.values",
		"endpoint.statement.no-filter")
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Enum []string }
		}
	}
	require.NoError(t, json.Unmarshal(document().plain.body, &doc))
	for name, want := range map[string][]string{
		"AccountStatus":   {"active", "expired"},
		"TransferStatus":  {"pending", "processing", "success", "failed", "refunded"},
		"KYCStatus":       {"none", "pending_review", "approved", "rejected"},
		"TenantKYCStatus": {"unverified", "pending_review", "verified"},
	} {
		require.Equal(t, want, doc.Components.Schemas[name].Enum, name)
	}
	for _, o := range description().Operations {
		if o.ID == "getStatement" {
			var query []string
			for _, p := range o.Parameters {
				if p.In == "query" {
					query = append(query, p.Name)
				}
			}
			require.ElementsMatch(t, []string{"after", "limit"}, query, "and no status")
			return
		}
	}
	t.Fatal("the document has no statement")
}
