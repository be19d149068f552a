package fakebank_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
)

// form posts a form of the control page and returns where it leads.
func (b *bundle) form(path string, fields ...string) string {
	b.t.Helper()
	v := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	a := b.call("POST", path, v.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(b.t, 303, a.status, a.text)
	return a.text
}

func (b *bundle) post(path, body string) reply {
	b.t.Helper()
	return b.call("POST", path, body, "Content-Type", "application/json")
}

func TestControlPayAsJSON(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	number := b.open()
	a := b.post("/control/pay", `{"nuban":"`+number+`","amount":5000.5,"sender":"DAYO EZE","narration":"fees","wait":true}`)
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "5000.50", a.get("amount"))
	require.Equal(t, "25.00", a.get("fee"))
	require.Len(t, hooks.all(), 1)
	require.Contains(t, string(hooks.all()[0].body), `"transactionAmount":5000.5`)

	require.Equal(t, 404, b.post("/control/pay", `{"nuban":"0000000000","amount":"1"}`).status)
	require.Equal(t, 400, b.post("/control/pay", `{"nuban":"`+number+`","amount":"1.001"}`).status)
	require.Equal(t, 400, b.post("/control/pay", `{"nuban":"`+number+`"}`).status)
	require.Equal(t, 400, b.post("/control/pay", `[]`).status)
	b.do("DELETE", "/v1/accounts/virtual/"+ref, "")
	require.Equal(t, 422, b.post("/control/pay", `{"nuban":"`+number+`","amount":"1"}`).status)

	id := a.get("id").(string)
	require.Equal(t, "4.00", b.post("/control/transaction", `{"id":"`+id+`","amount":4,"hidden":true}`).get("amount"))
	require.Equal(t, 404, b.do("GET", "/v1/transactions/accounts/single?transactionRef="+id, "").status)
	require.Equal(t, 404, b.post("/control/transaction", `{"id":"nobody"}`).status)
	require.Equal(t, "REFUND", b.post("/control/reverse", `{"id":"`+id+`"}`).get("status"))
	require.Equal(t, 422, b.post("/control/reverse", `{"id":"`+id+`"}`).status)
	b.submit("one", "5")
	require.Equal(t, "REFUND", b.post("/control/payout", `{"ref":"one","status":"REFUND"}`).get("status"))
	require.Equal(t, 200, b.post("/control/resend", `{"ref":"one"}`).status)
	require.Equal(t, 200, b.post("/control/nin", `{"nin":"70000000000","firstName":"EFE","lastName":"UMAR"}`).status)
	require.Equal(t, "5s", b.post("/control/settings", `{"payoutDelay":"5s"}`).get("payoutDelay"))
	b.flush()
	sent := hooks.all()
	require.True(t, sent[len(sent)-1].signatureHolds(t, fakebank.DefaultWebhookSecret))

	s := b.call("GET", "/control/state?limit=1", "")
	require.Len(t, s.get("accounts"), 1)
	require.Len(t, s.get("webhooks"), 1)
	require.NotEmpty(t, s.get("calls"))
	require.NotContains(t, s.text, fakebank.DefaultWebhookSecret)
	require.NotContains(t, s.text, fakebank.DefaultClientSecret)
	require.Equal(t, 200, b.post("/control/tokens/revoke", "").status)
	require.Equal(t, 401, b.do("GET", "/v1/transfers/banks", "").status)
}

func TestControlFaults(t *testing.T) {
	b := setup(t, fakebank.Options{})
	a := b.post("/control/faults", `{"down":"503","rules":[{"on":"payouts","do":"processing","next":1,"delay":"2s"}]}`)
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "503", a.get("down"))
	require.Equal(t, fakebank.DownAnswer, b.Faults.Down())
	b.post("/control/faults", `{"add":[{"on":"banks","do":"results"}],"down":""}`)
	require.Equal(t, fakebank.Up, b.Faults.Down())
	require.Len(t, b.Faults.Rules(), 2)
	b.post("/control/faults", `{"on":"all","do":"slow","delay":"1ms"}`)
	require.Len(t, b.Faults.Rules(), 3)
	b.post("/control/faults", `{"remove":[1,2]}`)
	require.Len(t, b.Faults.Rules(), 1)
	require.Contains(t, b.call("GET", "/control/faults", "").text, `"do":"slow"`)
	for _, bad := range []string{
		`{"add":[{"on":"payouts","do":"explode"}]}`, `{"rules":7}`, `{"down":"sideways"}`, `{"on":"payouts"}`, `{"on":"all","do":"slow","delay":"x"}`,
	} {
		require.Equal(t, 400, b.post("/control/faults", bad).status, bad)
	}
	require.Len(t, b.Faults.Rules(), 1, "a refused change changes nothing")
	b.post("/control/faults", `{"clear":true}`)
	require.Empty(t, b.Faults.Rules())
}

func TestControlPageForPeople(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	page := func(query string) string {
		a := b.call("GET", "/"+query, "")
		require.Equal(t, 200, a.status)
		return a.text
	}
	require.Contains(t, page(""), "No virtual account yet")
	number := b.open()
	require.Contains(t, page(""), number)
	require.NotContains(t, page("?q=nothing-like-it"), number)

	to := b.form("/control/pay", "nuban", number, "amount", "1,234,567.50", "sender", `<script>alert("x")</script>`, "narration", "school & fees", "wait", "true")
	require.True(t, strings.HasPrefix(to, "/?done=Paid"), to)
	html := page("?done=" + url.QueryEscape(`<b>done</b>`))
	require.Contains(t, html, "1,234,567.50")
	require.Contains(t, html, "&lt;script&gt;")
	require.NotContains(t, html, "<script")
	require.NotContains(t, html, "<b>done</b>")
	require.Contains(t, html, "delivered")
	require.NotRegexp(t, `(src|href|action)="(https?:)?//`, html, "nothing from another host")

	require.Contains(t, b.form("/control/pay", "nuban", number, "amount", "lots"), "error=")
	b.form("/control/faults", "on", "payouts", "do", "pending", "delay", "10s", "next", "1")
	b.submit("one", "10")
	html = page("")
	require.Contains(t, html, "PENDING_BILLING")
	require.Contains(t, html, "Pay now")
	b.form("/control/payout", "ref", "one", "status", "SUCCESS")
	require.Len(t, b.Paid(), 1)
	b.form("/control/faults", "remove", "[1]")
	require.Empty(t, b.Faults.Rules())
	b.form("/control/faults", "down", "close")
	require.Contains(t, page(""), "Bring the bank up")
	b.form("/control/faults", "down", "")
	require.Equal(t, fakebank.Up, b.Faults.Down())

	a := b.call("POST", "/control/pay", "nuban="+number+"&amount=1", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, a.status)
	require.Equal(t, 200, b.call("GET", "/control/style.css", "").status)
	require.Equal(t, 404, b.call("GET", "/elsewhere", "").status)
}
