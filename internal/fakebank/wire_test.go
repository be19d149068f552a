package fakebank_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

func newServer(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestTokenWire(t *testing.T) {
	b := setup(t, fakebank.Options{})
	const good = `{"grant_type":"client_credentials","client_id":"dev-client","client_secret":"dev-client-secret"}`
	issue := func(body string, headers ...string) reply {
		return b.call("POST", "/v1/auth/token/issue", body, headers...)
	}
	a := issue(good, "accountId", fakebank.DefaultAccountID)
	require.Equal(t, "00", a.get("code"))
	require.Equal(t, false, a.get("status"), "the wire's status is false in good answers too")
	require.Equal(t, "2026-03-02T10:00:00Z", a.get("data", "expiresAt"))
	require.NotEmpty(t, a.get("data", "refresh_token"))

	require.Equal(t, 400, issue(good, "accountId", fakebank.DefaultAccountID, "Authorization", "Bearer x").status)
	require.Equal(t, 400, issue(good).status)
	require.Equal(t, 401, issue(strings.Replace(good, "secret\"}", "other\"}", 1), "accountId", fakebank.DefaultAccountID).status)
	require.Equal(t, 401, issue(good, "accountId", "another").status)

	const path = "/v1/transfers/banks"
	require.Equal(t, 200, b.do("GET", path, "").status)
	require.Equal(t, 401, b.call("GET", path, "", "accountId", fakebank.DefaultAccountID).status)
	require.Equal(t, 401, b.call("GET", path, "", "accountId", fakebank.DefaultAccountID, "Authorization", "Bearer nonsense").status)
	require.Equal(t, 400, b.call("GET", path, "", "Authorization", "Bearer "+b.token).status)
	require.Equal(t, 403, b.call("GET", path, "", "Authorization", "Bearer "+b.token, "accountId", "another").status)

	b.clock.Advance(30 * time.Minute)
	require.Equal(t, 401, b.do("GET", path, "").status, "a token ends")
	b.login()
	require.Equal(t, 200, b.do("GET", path, "").status)
	b.RevokeTokens()
	require.Equal(t, 401, b.do("GET", path, "").status)
}

func TestVirtualAccountWire(t *testing.T) {
	b := setup(t, fakebank.Options{Seed: 7})
	const path = "/v1/accounts/virtual"
	a := b.do("POST", path, `{"accountRef":"`+ref+`","accountName":"Halima Stores","expectedAmount":5000.5,"expiryDate":"2026-03-02 12:15:00"}`)
	number, _ := a.get("data", "bankAccountNumber").(string)
	require.True(t, fakebank.ValidNUBAN(fakebank.BankCode, number), number)
	require.JSONEq(t, `{"code":"00","description":"Success","status":false,"data":{
		"createdAt":"2026-03-02T09:30:00Z","accountHolderId":"dev-account-0001","accountRef":"`+ref+`","accountName":"Halima Stores",
		"currency":"NGN","bankName":"Nombank MFB","bankAccountNumber":"`+number+`","bankAccountName":"Nomba/Halima Stores",
		"expectedAmount":5000.5,"expiryDate":"2026-03-02 12:15:00","expired":false}}`, a.text)
	require.JSONEq(t, a.text, b.do("GET", path+"/"+ref, "").text)

	for name, body := range map[string]string{
		"name too short":      `{"accountRef":"0123456789abcdef","accountName":"Halima"}`,
		"name with a digit":   `{"accountRef":"0123456789abcdef","accountName":"Halima Stores 2"}`,
		"name with a hyphen":  `{"accountRef":"0123456789abcdef","accountName":"Halima-Stores"}`,
		"name over 64":        `{"accountRef":"0123456789abcdef","accountName":"` + strings.Repeat("a", 65) + `"}`,
		"reference too short": `{"accountRef":"0123456789abcde","accountName":"Halima Stores"}`,
		"reference too long":  `{"accountRef":"` + strings.Repeat("a", 65) + `","accountName":"Halima Stores"}`,
		"reference taken":     `{"accountRef":"` + ref + `","accountName":"Halima Stores"}`,
		"expiry gone":         `{"accountRef":"0123456789abcdef","accountName":"Halima Stores","expiryDate":"2026-03-02 09:00:00"}`,
		"amount as text":      `{"accountRef":"0123456789abcdef","accountName":"Halima Stores","expectedAmount":"5"}`,
	} {
		a := b.do("POST", path, body)
		require.Equal(t, 200, a.status, name)
		require.NotEqual(t, "00", a.get("code"), name)
		require.Nil(t, a.get("data"), name)
		if strings.HasPrefix(name, "name") {
			require.Equal(t, "400", a.get("code"), name)
		}
	}
	require.Len(t, b.Accounts(), 1)

	require.Equal(t, 404, b.do("GET", path+"/nobody", "").status)
	require.Equal(t, 404, b.do("DELETE", path+"/nobody", "").status)

	for range 2 {
		a = b.do("DELETE", path+"/"+ref, "")
		require.Equal(t, true, a.get("data", "expired"))
	}
	require.Equal(t, true, b.do("GET", path+"/"+ref, "").get("data", "expired"))
	require.Equal(t, 9+1, b.Calls("POST /v1/accounts/virtual"))
	require.Equal(t, 3, b.Calls("DELETE /v1/accounts/virtual/{accountRef}"))
}

func TestPayingIn(t *testing.T) {
	b := setup(t, fakebank.Options{})
	number := b.open()
	for amount, fee := range map[string]string{
		"4999.99": "10.00", "5000.00": "25.00", "50000.00": "25.00", "50000.01": "50.00", "4.00": "4.00",
	} {
		require.Equal(t, fee, b.Fee(money.Must(amount)).String(), amount)
	}
	tx := b.pay("5000.00")
	require.Equal(t, number, tx.NUBAN)
	require.Equal(t, "4975.00", b.Wallet().String())
	_, err := b.Pay(t.Context(), fakebank.Payment{NUBAN: number, Amount: money.Must("100.00"), Fee: new(money.Must("0.60"))})
	require.NoError(t, err)
	require.Equal(t, "5074.40", b.Wallet().String())

	_, err = b.Pay(t.Context(), fakebank.Payment{NUBAN: "0000000000", Amount: money.Must("1")})
	require.ErrorIs(t, err, fakebank.ErrNoAccount)
	_, err = b.Pay(t.Context(), fakebank.Payment{NUBAN: number})
	require.ErrorIs(t, err, fakebank.ErrAmount)
	b.do("DELETE", "/v1/accounts/virtual/"+ref, "")
	_, err = b.Pay(t.Context(), fakebank.Payment{NUBAN: number, Amount: money.Must("1")})
	require.ErrorIs(t, err, fakebank.ErrClosed)
	_, err = b.Pay(t.Context(), fakebank.Payment{NUBAN: number, Amount: money.Must("100"), Force: true})
	require.NoError(t, err)
	require.Len(t, b.Transactions(), 3)
	require.Equal(t, "5164.40", b.Wallet().String())

	_, err = b.Reverse(t.Context(), tx.ID)
	require.NoError(t, err)
	require.Equal(t, "189.40", b.Wallet().String())
	_, err = b.Reverse(t.Context(), tx.ID)
	require.ErrorIs(t, err, fakebank.ErrState)
	require.Equal(t, "REFUND", b.do("GET", "/v1/transactions/accounts/single?transactionRef="+tx.ID, "").get("data", "status"))
}

func TestExpiryClosesByTheClock(t *testing.T) {
	b := setup(t, fakebank.Options{})
	b.do("POST", "/v1/accounts/virtual", `{"accountRef":"`+ref+`","accountName":"Halima Stores","expiryDate":"2026-03-02 09:31:00"}`)
	b.clock.Advance(time.Minute)
	b.pay("100.00") // at the expiry is not after it
	b.clock.Advance(time.Second)
	_, err := b.Pay(t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("100")})
	require.ErrorIs(t, err, fakebank.ErrClosed)
	require.Equal(t, true, b.do("GET", "/v1/accounts/virtual/"+ref, "").get("data", "expired"))
}

func TestSingleTransactionWire(t *testing.T) {
	b := setup(t, fakebank.Options{})
	number := b.open()
	tx := b.pay("5000.00")
	const path = "/v1/transactions/accounts/single"
	a := b.do("GET", path+"?transactionRef="+tx.ID, "")
	require.JSONEq(t, `{"code":"00","description":"Success","status":false,"data":{
		"id":"`+tx.ID+`","status":"SUCCESS","amount":"5000.0","fixedCharge":"25.0","currency":"NGN","type":"vact_transfer",
		"entryType":"CREDIT","source":"api","virtualAccount":"`+number+`","aliasAccountReference":"`+ref+`",
		"sessionId":"`+tx.SessionID+`","senderName":"MUSA SALAMI","accountNumber":"0123456789","bankName":"Wema Bank","bankCode":"035",
		"narration":"Transfer from MUSA SALAMI to Halima Stores","timeCreated":"2026-03-02T09:30:00Z","timeUpdated":"2026-03-02T09:30:00Z"}}`, a.text)

	a = b.do("GET", path+"?transactionRef=unknown", "")
	require.Equal(t, 404, a.status)
	require.Equal(t, "404", a.get("code"))
	require.Equal(t, 404, b.do("GET", path+"?merchantTxRef="+tx.ID, "").status)
	require.Equal(t, 400, b.do("GET", path, "").status)

	b.SetTransaction(tx.ID, func(t *fakebank.Transaction) { t.Status, t.Amount = fakebank.StatusFailed, money.Must("4999.99") })
	a = b.do("GET", path+"?transactionRef="+tx.ID, "")
	require.Equal(t, "PAYMENT_FAILED", a.get("data", "status"))
	require.Equal(t, "4999.99", a.get("data", "amount"))

	b.SetTransaction(tx.ID, func(t *fakebank.Transaction) { t.Wrong = true })
	a = b.do("GET", path+"?transactionRef="+tx.ID, "")
	require.Equal(t, "00", a.get("code"))
	require.NotEqual(t, tx.ID, a.get("data", "id"))

	b.SetTransaction(tx.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	require.Equal(t, 404, b.do("GET", path+"?transactionRef="+tx.ID, "").status)
}

func TestTransactionLists(t *testing.T) {
	b := setup(t, fakebank.Options{})
	number := b.open()
	var ids []string
	for range 7 {
		ids = append(ids, b.pay("100.00").ID)
		b.clock.Advance(time.Minute)
	}
	list := func(a reply) (found []string, cursor string) {
		require.Equal(t, 200, a.status, a.text)
		for _, r := range a.get("data", "results").([]any) {
			found = append(found, r.(map[string]any)["id"].(string))
		}
		return found, a.get("data", "cursor").(string)
	}
	const path = "/v1/transactions/accounts"
	var all []string
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		var found []string
		found, cursor = list(b.do("POST", path+"?limit=3&cursor="+cursor, ""))
		all = append(all, found...)
		if pages == 0 { // what arrives meanwhile comes at the end, and nothing twice
			ids = append(ids, b.pay("100.00").ID)
		}
	}
	require.Equal(t, ids, all)

	require.Equal(t, 200, b.submit("payout-1", "50").status)
	a := b.do("POST", path+"?limit=50", "")
	found, cursor := list(a)
	require.Len(t, found, 9, "payouts are in the list of the wallet")
	require.Empty(t, cursor)
	first := a.get("data", "results").([]any)[0].(map[string]any)
	require.Equal(t, number, first["recipientAccountNumber"])
	require.Contains(t, a.text, `"amount":100.0,"fixedCharge":10.0`, "numbers in lists, text on the single record")

	found, _ = list(b.do("POST", path+"?dateFrom=2026-03-02T09:31:00&dateTo=2026-03-02T09:33:00", ""))
	require.Equal(t, ids[1:4], found, "both ends are inclusive")
	found, _ = list(b.do("POST", path+"?dateFrom=2026-03-03T00:00:00", ""))
	require.Empty(t, found)
	require.Equal(t, 400, b.do("POST", path+"?limit=51", "").status)
	require.Equal(t, 400, b.do("POST", path+"?cursor=!", "").status)
	require.Equal(t, 400, b.do("POST", path+"?dateFrom=yesterday", "").status)

	late, err := b.Pay(t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("100"), Time: start.Add(90 * time.Second)})
	require.NoError(t, err)
	found, _ = list(b.do("POST", path+"?dateTo=2026-03-02T09:32:00", ""))
	require.Equal(t, []string{ids[0], ids[1], late.ID, ids[2]}, found, "the list goes by the record's time")
}

func TestBanksAndLookup(t *testing.T) {
	b := setup(t, fakebank.Options{})
	a := b.do("GET", "/v1/transfers/banks", "")
	require.GreaterOrEqual(t, len(a.get("data").([]any)), 20)
	seen := map[string]bool{}
	for _, bank := range fakebank.Banks {
		require.Regexp(t, `^[0-9]{3,6}$`, bank.Code)
		require.False(t, seen[bank.Code], bank.Code)
		seen[bank.Code] = true
	}
	b.Faults.Set(fakebank.Rule{On: fakebank.OnBanks, Do: fakebank.Results})
	require.NotEmpty(t, b.do("GET", "/v1/transfers/banks", "").get("data", "results"))

	look := func(bank, number string) reply {
		return b.do("POST", "/v1/transfers/bank/lookup", `{"accountNumber":"`+number+`","bankCode":"`+bank+`"}`)
	}
	a = look("058", "0123456789")
	require.JSONEq(t, `{"accountNumber":"0123456789","accountName":"AMINA BELLO"}`, string(mustJSON(t, a.get("data"))))
	name := look("058", "9876543210").get("data", "accountName")
	require.NotEmpty(t, name)
	require.Equal(t, name, look("058", "9876543210").get("data", "accountName"))
	require.Equal(t, 404, look("058", "0001234567").status)
	require.Equal(t, "02", look("999", "0123456789").get("code"))
	require.Equal(t, "02", look("058", "12345").get("code"))
	require.Equal(t, "Nomba/Halima Stores", look(fakebank.BankCode, b.open()).get("data", "accountName"))
}

func TestNINService(t *testing.T) {
	b := setup(t, fakebank.Options{IdentityAppID: "app", IdentityKey: "key"})
	ask := func(nin, app, key string) reply {
		return b.call("GET", "/api/v1/kyc/nin?nin="+nin, "", "AppId", app, "Authorization", key)
	}
	a := ask(fakebank.SandboxNIN, "app", "key")
	require.JSONEq(t, `{"entity":{"nin":"70123456789","first_name":"AMINA","last_name":"BELLO","date_of_birth":"1990-05-14"}}`, a.text)
	require.Contains(t, ask(fakebank.OtherFormNIN, "app", "key").text, `"surname":"OKEKE"`)
	require.Equal(t, 404, ask("70000000000", "app", "key").status)
	b.AddPerson("70000000000", fakebank.Person{FirstName: "EFE", LastName: "UMAR"})
	require.Equal(t, 200, ask("70000000000", "app", "key").status)
	require.Equal(t, 400, ask("123", "app", "key").status)
	require.Equal(t, 401, ask(fakebank.SandboxNIN, "app", "Bearer key").status)
	require.Equal(t, 401, ask(fakebank.SandboxNIN, "other", "key").status)

	b.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: fakebank.Fail, Status: 503})
	a = ask(fakebank.SandboxNIN, "app", "key")
	require.Equal(t, 503, a.status)
	require.NotEmpty(t, a.get("error"))
}
