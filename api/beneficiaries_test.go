package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// A beneficiary over HTTP, from its saving by a key to its removal by a session: who may do what,
// what is shown, and what the audit log says.
func TestBeneficiariesOverHTTP(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	owner := m
	finance, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	const landlord = `{"bankCode":"058","accountNumber":"0123456789","label":"Landlord"}`

	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Fail})
	w.do("POST", "/v1/beneficiaries", landlord, key...).refused(502, "provider error: the bank did not answer")
	w.bank.Faults.Clear()
	for body, c := range map[string]struct {
		status int
		why    string
	}{
		`{"bankCode":"5","accountNumber":"0123456789"}`:                  {400, "bankCode must be 3 to 6 digits"},
		`{"bankCode":"058","accountNumber":"12"}`:                        {400, "accountNumber must be exactly 10 digits"},
		`{"bankCode":"058","accountNumber":"0123456789","label":7}`:      {400, "label must be a string"},
		`{"bankCode":"058","accountNumber":"0123456789","label":"a\nb"}`: {400, "label must have at most 100 characters, without control characters"},
		`{"bankCode":"999999","accountNumber":"0123456789"}`:             {404, "bank not found"},
		`{"bankCode":"058","accountNumber":"0001234567"}`:                {404, "destination account not found"},
	} {
		w.do("POST", "/v1/beneficiaries", body, key...).refused(c.status, c.why)
	}
	require.Empty(t, w.read(key, "/v1/beneficiaries").list("beneficiaries"))

	saved := w.ask("POST", "/v1/beneficiaries", landlord, 201, key)
	saved.has(t, fields{"label": "Landlord", "bankCode": "058", "bankName": "Guaranty Trust Bank", "accountNumber": "0123456789", "accountName": "AMINA BELLO"})
	require.Regexp(t, "^key:", saved["savedBy"])
	require.Equal(t, saved, w.ask("POST", "/auth/beneficiaries", landlord, 200, finance.withSession()), "the same again")
	at := "/beneficiaries/" + saved["id"].(string)
	require.Equal(t, saved, w.read(key, "/v1"+at))
	w.do("PATCH", "/v1"+at, `{}`, key...).refused(400, "label is required")
	w.do("PATCH", "/auth"+at, `{"label":"Rent"}`, dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	w.ask("PATCH", "/auth"+at, `{"label":"Rent"}`, 200, finance.withSession()).has(t, fields{"label": "Rent"})
	w.read(dev.withSession(), "/auth/beneficiaries").list("beneficiaries")[0].has(t, fields{"label": "Rent"})

	w.do("POST", "/auth"+at+"/exempt", `{"exempt":true}`, finance.withSession()...).refused(403, "this needs the role owner; yours is finance")
	w.do("POST", "/auth"+at+"/exempt", `{}`, owner.withSession()...).refused(400, "exempt must be true or false")
	w.ask("POST", "/auth"+at+"/exempt", proven(`{"exempt":true}`), 200, owner.withSession()).has(t, fields{"exempt": true})
	w.ask("POST", "/auth"+at+"/exempt", proven(`{"exempt":true}`), 200, owner.withSession())
	w.ask("POST", "/auth"+at+"/exempt", `{"exempt":false}`, 200, owner.withSession())
	w.ask("POST", "/auth"+at+"/exempt", proven(`{"exempt":true}`), 200, owner.withSession())
	var texts []string
	testenv.Eventually(t, 10*time.Second, "two e-mails", func() bool {
		texts = w.mails.about(owner.email, "Payouts to an account need no approval now")
		return len(texts) >= 2
	})
	require.Len(t, texts, 2, "one for each time that it was not exempt before: %v", texts)
	require.Contains(t, texts[0], "to account 0123456789 at ")
	require.Contains(t, texts[0], "from the address ")
	line := w.read(owner.withSession(), "/auth/audit?action=beneficiary.exempt").list("entries")[3]
	require.NotContains(t, line["before"], "exempt")
	require.Equal(t, true, line["after"].(map[string]any)["exempt"])

	order := `{"amount":"100.00","beneficiary":"` + saved["id"].(string) + `"}`
	ref := w.ask("POST", "/v1/accounts/shop-1/settle", order, 202, key)["merchantTxRef"].(string)
	w.read(key, "/v1/transfers/"+ref).has(t, fields{"bankCode": "058", "accountNumber": "0123456789", "amount": "100.00"})
	w.do("POST", "/v1/accounts/shop-1/settle", `{"amount":"1.00","beneficiary":"x","bankCode":"058","accountNumber":"0123456789"}`, key...).
		refused(400, "give either beneficiary, or bankCode and accountNumber")

	for body, why := range map[string]string{
		`{"approvals":1,"threshold":"999.99","beneficiaryWaitHours":721}`:  "beneficiaryWaitHours must be a whole number from 0 to 720",
		`{"approvals":1,"dayThreshold":"999.99","beneficiaryWaitHours":1}`: "threshold is required with beneficiaryWaitHours",
	} {
		w.do("POST", "/auth/payout-policy", body, owner.withSession()...).refused(400, why)
	}
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"50.00","beneficiaryWaitHours":720}`), 200, owner.withSession()).has(t, fields{"beneficiaryWaitHours": json.Number("720")})
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"50.00","beneficiaryWaitHours":24}`), 200, owner.withSession()).has(t, fields{"beneficiaryWaitHours": json.Number("24")})
	w.do("POST", "/v1/accounts/shop-1/settle", order, key...).refused(422, "amount is above NGN 50.00: the beneficiary is new, and such a payout to it is accepted from 2026-03-03T09:00:00Z")
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, append(header(key), "Idempotency-Key", "new")...).refused(422, "amount is above NGN 50.00: the beneficiary is new, and such a payout to it is accepted from 2026-03-03T09:00:00Z")
	w.do("POST", "/v1/accounts/shop-1/settle", `{"amount":"60.00","bankCode":"058","accountNumber":"1234567890"}`, key...).
		refused(422, "amount is above NGN 50.00: such a payout may go only to a beneficiary that was saved at least 24 hours ago")
	w.Clock.Advance(24 * time.Hour)
	require.NotContains(t, w.ask("POST", "/v1/accounts/shop-1/settle", order, 202, key), "awaiting", "it is exempt")

	w.ask("DELETE", "/auth"+at, "", 200, finance.withSession()).has(t, fields{"label": "Rent"})
	w.do("DELETE", "/v1"+at, "", key...).refused(404, "beneficiary not found")
	w.do("POST", "/v1/accounts/shop-1/settle", order, key...).refused(404, "beneficiary not found")
	for action, actor := range map[string]any{"beneficiary.save": saved["savedBy"], "beneficiary.rename": "session:" + finance.email, "beneficiary.remove": "session:" + finance.email} {
		lines := w.read(owner.withSession(), "/auth/audit?action="+action).list("entries")
		require.Len(t, lines, 1, action)
		require.Equal(t, actor, lines[0]["actor"], action)
	}
}
