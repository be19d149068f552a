package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/freeze"
	"ajo/internal/tenant"
)

// A payout above the policy, from the settle to both approvals, over HTTP: who may do what, what is
// shown, and what the audit log keeps.
func TestApprovalsOverHTTP(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	owner := m
	none := w.read(owner.withSession(), "/auth/payout-policy")
	none.has(t, fields{"approvals": json.Number("0"), "threshold": nil, "dayThreshold": nil, "hook": nil, "beneficiaryWaitHours": json.Number("0"), "approvers": json.Number("1"), "warning": nil})
	require.NotContains(t, w.ask("POST", "/v1/accounts/shop-1/settle", orderOf1000, 202, append(header(key), "Idempotency-Key", "before")), "awaiting")

	few := "payouts that need approval will fail: approvals is 2, and members who may approve"
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":2,"threshold":"1.00"}`), 200, owner.withSession()).has(t, fields{"approvals": json.Number("2"), "warning": few + ": 1"})
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":2,"threshold":"1.00","hook":"https://shop.example/ask"}`), 200, owner.withSession()).has(t, fields{"warning": nil})
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":3,"threshold":"1.00","hook":"https://shop.example/ask"}`), 200, owner.withSession()).
		has(t, fields{"warning": "payouts that need approval will fail: approvals is 3, and members who may approve, beside the hook: 1"})
	w.joins(owner, tenant.Viewer)
	w.read(owner.withSession(), "/auth/payout-policy").has(t, fields{"approvers": json.Number("1")})
	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":0}`), 200, owner.withSession()).has(t, fields{"warning": nil})
	finance, other, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	policy := `{"approvals":2,"threshold":"999.99"}`
	w.do("POST", "/auth/payout-policy", policy, finance.withSession()...).refused(403, "this needs the role owner; yours is finance")
	for body, why := range map[string]string{
		`{"approvals":11,"threshold":"1.00"}`: "approvals must be a whole number from 0 to 10",
		`{}`:                                  "approvals must be a whole number from 0 to 10",
		`{"approvals":-1}`:                    "approvals must be a whole number from 0 to 10",
		proven(`{"approvals":1,"threshold":"1.00","hook":"ftp://x.example"}`): "hook must begin with https:// or http://",
		`{"approvals":0,"hook":"https://x.example"}`:                          "approvals must be 1 or more with hook",
		`{"approvals":1}`:                        "threshold or dayThreshold is required with approvals",
		`{"approvals":0,"dayThreshold":"1.00"}`:  "approvals must be 1 or more with threshold or dayThreshold",
		`{"approvals":1,"threshold":"-1.00"}`:    "threshold and dayThreshold must be amounts in naira, zero or more",
		`{"approvals":1,"dayThreshold":"a lot"}`: "threshold and dayThreshold must be amounts in naira, zero or more",
		`{"approvals":1,"threshold":1000}`:       "threshold must be a string",
		`{"approvals":1,"threshold":"1","x":1,`:  "invalid JSON body",
	} {
		w.do("POST", "/auth/payout-policy", body, owner.withSession()...).refused(400, why)
	}
	w.ask("POST", "/auth/payout-policy", proven(policy), 200, owner.withSession()).has(t, fields{"approvers": json.Number("3"), "warning": nil, "approvals": json.Number("2"), "threshold": "999.99", "dayThreshold": nil, "hook": nil, "beneficiaryWaitHours": json.Number("0")})
	line := w.read(owner.withSession(), "/auth/audit?action=tenant.policy").list("entries")[0]
	line.has(t, fields{"actor": "session:" + owner.email})
	require.Equal(t, map[string]any{"approvals": json.Number("0"), "threshold": nil, "dayThreshold": nil, "hook": nil, "beneficiaryWaitHours": json.Number("0")}, line["before"])
	require.Equal(t, map[string]any{"approvals": json.Number("2"), "threshold": "999.99", "dayThreshold": nil, "hook": nil, "beneficiaryWaitHours": json.Number("0")}, line["after"])

	order := append(header(key), "Idempotency-Key", "large")
	a := w.ask("POST", "/v1/accounts/shop-1/settle", orderOf1000, 202, order)
	a.has(t, fields{"status": "pending", "awaiting": "approval"})
	require.Equal(t, a, w.ask("POST", "/v1/accounts/shop-1/settle", orderOf1000, 202, order))
	ref := a["merchantTxRef"].(string)
	at := "/auth/transfers/" + ref
	w.read(finance.withSession(), at).has(t, fields{"awaiting": "approval", "status": "pending"})
	require.Len(t, w.read(finance.withSession(), "/auth/transfers?awaiting=approval").list("transfers"), 1)
	require.Len(t, w.read(key, "/v1/transfers?awaiting=approval").list("transfers"), 1)
	awaiting := func(count, amount string) {
		t.Helper()
		require.Equal(t, map[string]any{"count": json.Number(count), "amount": amount}, w.read(dev.withSession(), "/auth/overview")["awaitingApproval"])
	}
	awaiting("1", "1000.00")

	w.do("POST", at+"/approve", "", dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	w.ask("POST", at+"/approve", "", 200, finance.withSession()).has(t, fields{"awaiting": "approval", "approvedAt": nil})
	w.do("POST", at+"/reject", "", finance.withSession()...).refused(422, "you have already made the other decision")
	w.Clock.Advance(time.Hour)
	w.ask("POST", at+"/approve", "", 200, other.withSession()).has(t, fields{"awaiting": nil, "expiresAt": nil})
	w.do("POST", at+"/reject", "", owner.withSession()...).refused(422, "the transfer does not await approval")
	said := w.read(dev.withSession(), at+"/approval")
	list := said.list("decisions")
	require.Len(t, list, 2)
	list[0].has(t, fields{"email": finance.email, "decision": "approve"})
	list[1].has(t, fields{"email": other.email, "decision": "approve"})
	require.Empty(t, w.read(finance.withSession(), "/auth/transfers?awaiting=approval").list("transfers"))
	awaiting("0", "0.00")

	rejected := w.ask("POST", "/v1/accounts/shop-1/settle", orderOf1000, 202, append(header(key), "Idempotency-Key", "third"))["merchantTxRef"].(string)
	w.ask("POST", "/auth/transfers/"+rejected+"/reject", "", 200, owner.withSession()).has(t, fields{"status": "failed", "awaiting": nil})
	w.read(owner.withSession(), "/auth/transfers/"+rejected).has(t, fields{"status": "failed", "failureReason": "the transfer was rejected by a member"})
	require.Len(t, w.read(owner.withSession(), "/auth/audit?action=transfer.approve").list("entries"), 2)
	require.Len(t, w.read(owner.withSession(), "/auth/audit?action=transfer.reject").list("entries"), 1)
}

// A change of what payouts are accepted by stands, and its answer says so, if a payout under way
// does not end.
func TestChangesWhilePayoutsDoNotEnd(t *testing.T) {
	w := setup(t)
	owner, key := w.funded("5000.00")
	var at []string
	for _, number := range []string{"0123456789", "1234567890", "2345678901"} {
		saved := w.ask("POST", "/v1/beneficiaries", `{"bankCode":"058","accountNumber":"`+number+`"}`, 201, key)
		at = append(at, "/beneficiaries/"+saved["id"].(string))
		w.ask("POST", "/auth"+at[len(at)-1]+"/exempt", proven(`{"exempt":true}`), 200, owner.withSession())
	}
	tx, err := w.Pool.Begin(context.Background())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(context.Background(), `LOCK TABLE transfers IN ROW EXCLUSIVE MODE`)
	require.NoError(t, err)
	var got []<-chan reply
	for _, r := range []struct {
		method, path, body string
		by                 header
	}{
		{"POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"50.00"}`), owner.withSession()},
		{"POST", "/auth" + at[0] + "/exempt", `{"exempt":false}`, owner.withSession()},
		{"DELETE", "/auth" + at[1], "", owner.withSession()},
		{"DELETE", "/v1" + at[2], "", key},
	} {
		got = append(got, w.asked(r.method, r.path, r.body, r.by...))
	}
	w.ask("POST", "/v1/accounts/shop-1/settle", `{"amount":"1.00","bankCode":"058","accountNumber":"0123456789"}`, 202, append(header(key), "Idempotency-Key", "beside"))
	w.ask("POST", "/auth"+at[0]+"/exempt", proven(`{"exempt":true}`), 200, owner.withSession()) // nobody is waited for
	for _, r := range got {
		(<-r).refused(409, freeze.ErrAccepting.Error())
	}
	w.read(owner.withSession(), "/auth/payout-policy").has(t, fields{"approvals": json.Number("1"), "threshold": "50.00"})
	require.Len(t, w.read(key, "/v1/beneficiaries").list("beneficiaries"), 1)
	require.NoError(t, tx.Rollback(context.Background()))
	w.ask("POST", "/auth"+at[0]+"/exempt", `{"exempt":false}`, 200, owner.withSession())
}
