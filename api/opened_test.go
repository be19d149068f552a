package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// A member opens an account, once under its key, and submits its holder's NIN: as an API key does,
// with a line in the audit log, which has no number of a person.
func TestAccountOpenedByAMember(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	finance, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	const body = `{"externalRef":"shop-1","name":"Ada Obi","bvn":"22233344455"}`
	at := append(finance.withSession(), "Idempotency-Key", "open-1")
	w.do("POST", "/auth/accounts", body, dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	a := w.ask("POST", "/auth/accounts", body, 201, at)
	require.Equal(t, a, w.ask("POST", "/auth/accounts", body, 201, at))
	require.Equal(t, a["ID"], w.read(owner.withKey(), "/v1/accounts/shop-1")["ID"])
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi"}`, owner.withKey()...).ok(201, nil)

	path := "/auth/customers/" + a["CustomerID"].(string) + "/kyc"
	w.do("POST", path, `{"nin":"`+ninUnclear+`"}`, dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	w.do("POST", path, `{"nin":"1234"}`, finance.withSession()...).refused(400, "nin must be exactly 11 digits")
	w.ask("POST", path, `{"nin":"`+ninUnclear+`"}`, 200, finance.withSession()).has(t, fields{"KYCStatus": "pending_review"})
	for action, target := range map[string]string{"account.open": "account:" + a["ID"].(string), "kyc.submit": "customer:" + a["CustomerID"].(string)} {
		r := w.do("GET", "/auth/audit?action="+action, "", owner.withSession()...).ok(200, nil)
		require.NotContains(t, r.Body, ninUnclear)
		require.NotContains(t, r.Body, "22233344455")
		lines := w.read(owner.withSession(), "/auth/audit?action="+action).list("entries")
		require.Len(t, lines, 1, action)
		lines[0].has(t, fields{"actor": "session:" + finance.email, "target": target})
	}
}

// A member who finishes what an API key has begun has opened the account: its name, its policy and
// its URL are the member's, and the audit log says so.
func TestAccountFinishedByAMember(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	finance := w.joins(owner, tenant.Finance)
	const refused = "provider error: failed to provision virtual account"
	w.bank.Faults.SetDown(fakebank.DownAnswer)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada"}`, owner.withKey()...).refused(502, refused)
	w.bank.Faults.SetDown(fakebank.Up)
	a := w.ask("POST", "/auth/accounts", `{"externalRef":"shop-1","name":"Ada Obi","policy":{"under":"refund"}}`, 201, finance.withSession())
	a.has(t, fields{"BankAccountName": "Ada Obi"})
	require.Equal(t, a, w.ask("POST", "/auth/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, 201, finance.withSession()), "it was open already")
	lines := w.read(owner.withSession(), "/auth/audit?action=account.open").list("entries")
	require.Len(t, lines, 1)
	lines[0].has(t, fields{"actor": "session:" + finance.email, "target": "account:" + a["ID"].(string)})
}

// An account is not opened for who is gone when the bank has answered: the next request takes the
// row up, with what it asks for.
func TestAnAccountOfWhoIsGoneMeanwhile(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	key := w.newKey(owner, "Accounts", []tenant.Scope{tenant.AccountsWrite})
	removed := w.joins(owner, tenant.Finance)
	member := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, removed.email)
	for path, c := range map[string]struct {
		as  header
		end string
	}{
		"/v1/accounts":   {header{"X-API-Key", key.APIKey}, "/auth/keys/" + key.Key.ID.String() + "/revoke"},
		"/auth/accounts": {removed.withSession(), "/auth/members/" + member.String() + "/remove"},
	} {
		ref := strings.ReplaceAll(path[1:], "/", "-")
		held := make(chan struct{})
		w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Slow, Delay: time.Minute, Until: held})
		got := w.asked("POST", path, `{"externalRef":"`+ref+`","name":"Ada Obi","callbackUrl":"https://elsewhere.example/hook"}`, c.as...)
		testenv.Eventually(t, 10*time.Second, "the bank is asked", func() bool { return w.bank.Faults.Rules()[0].Struck > 0 })
		w.do("POST", c.end, "", owner.withSession()...).ok(200, nil)
		close(held)
		r := <-got
		r.refused(401, "unauthorized")
		w.bank.Faults.Set()
		require.Equal(t, "provisioning", testenv.Value[string](w.Env, `SELECT status FROM accounts WHERE account_ref = $1`, ref))
		w.ask("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, 201, owner.withKey()).has(t, fields{"CallbackURL": nil})
	}
}

// Whoever has a key that writes accounts can send their events elsewhere, and share their payments
// out otherwise. The owner sees in the audit log that it was done, and by which key.
func TestAuditOfAnAccountThatAKeyChanges(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	key := w.newKey(owner, "Accounts", []tenant.Scope{tenant.AccountsWrite, tenant.AccountsTransfer})
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, owner.withKey()...).ok(201, nil)
	}
	for _, body := range []string{
		`{"callbackUrl":"https://elsewhere.example/hook?token=one"}`,
		`{"callbackUrl":"https://elsewhere.example/hook?token=one"}`, // again
		`{"name":"Ada Eze"}`,
		`{"callbackUrl":"https://elsewhere.example/hook?token=two"}`, // which differs in what is not shown
		`{"expectedAmount":5000}`,                                    // by which nothing is decided yet
		`{"policy":{"under":"hold"}}`,
		`{"expectedAmount":5000.00}`, // again
		`{"expectedAmount":1}`,
		`{"split":{"shares":[{"accountRef":"shop-2","percent":"30"}]}}`,
		`{"callbackUrl":"ftp://elsewhere.example"}`, // refused
	} {
		w.do("PATCH", "/v1/accounts/shop-1", body, "X-API-Key", key.APIKey)
	}
	require.NotContains(t, w.do("GET", "/auth/audit?action=account.change", "", owner.withSession()...).ok(200, nil).Body, "token")
	lines := w.read(owner.withSession(), "/auth/audit?action=account.change").list("entries")
	require.Len(t, lines, 5)
	id := w.read(owner.withKey(), "/v1/accounts/shop-1")["ID"].(string)
	for _, l := range lines {
		l.has(t, fields{"actor": "key:" + key.Key.ID.String(), "target": "account:" + id, "address": "127.0.0.1"})
	}
	const url = "https://elsewhere.example/hook?…"
	of := func(url string, expected, policy any) map[string]any {
		return map[string]any{"callbackUrl": url, "expectedAmount": expected, "policy": policy, "split": nil}
	}
	hold := map[string]any{"under": "hold"}
	lines[4].has(t, fields{"before": of("", nil, nil), "after": of(url, nil, nil)})
	lines[2].has(t, fields{"before": of(url, "5000.00", nil), "after": of(url, "5000.00", hold)})
	lines[1].has(t, fields{"before": of(url, "5000.00", hold), "after": of(url, "1.00", hold)})
	require.Contains(t, fmt.Sprint(lines[0]["after"]), "percent:30")
}
