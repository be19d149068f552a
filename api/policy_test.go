package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An account's split is set, shown and removed.
func TestSplitOfAnAccount(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, 201, m.withKey())
	other := w.ask("POST", "/v1/accounts", `{"externalRef":"platform","name":"Ada Obi"}`, 201, m.withKey())
	got := w.ask("PATCH", "/v1/accounts/shop-1", `{"split":{"shares":[{"accountRef":"platform","percent":"2.50"}]}}`, 200, m.withKey())
	require.Equal(t, map[string]any{"shares": []any{map[string]any{"accountId": other["ID"], "accountRef": "platform", "percent": "2.5"}}}, got["Split"])
	require.Equal(t, got, w.read(m.withKey(), "/v1/accounts/shop-1"))
	require.NotContains(t, w.ask("PATCH", "/v1/accounts/shop-1", `{"split":{"shares":[]}}`, 200, m.withKey()), "Split")
	for body, want := range map[string]string{
		`{"split":[]}`:                         "split must be an object, with each field once",
		`{"split":{"shares":{}}}`:              "split.shares must be an array of objects",
		`{"split":{"shares":[1]}}`:             "split.shares must be an array of objects, with each field once",
		`{"split":{"shares":[{"percent":1}]}}`: "split.shares[0].percent must be a string",
		// none of them is read: a body has room for 128,000, which would take 300 MiB
		`{"split":{"shares":[1` + strings.Repeat(",1", 20) + `]}}`: "split.shares must have at most 20 shares",
	} {
		w.do("PATCH", "/v1/accounts/shop-1", body, m.withKey()...).refused(400, want)
	}
	w.do("PATCH", "/v1/accounts/shop-1", `{"split":{"shares":[{"accountRef":"nobody","percent":"1"}]}}`, m.withKey()...).refused(400, "split.shares[0].accountRef is no account of yours")
}

// An account's policy is set, shown, replaced and removed; an account without one looks as ever.
func TestPolicyOfAnAccount(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	made := w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","expectedAmount":100,"policy":{"under":"hold","late":"refund","over":""}}`, 201, m.withKey())
	require.Equal(t, map[string]any{"under": "hold", "late": "refund"}, made["Policy"])
	w.pay(event{"r-1", "t-1", "shop-1", "99.00", "0"})
	w.pay(event{"r-2", "t-2", "shop-1", "101.00", "0"})
	w.do("GET", "/v1/accounts/shop-1/balance", "", m.withKey()...).ok(200, nil).has(`{"accountRef":"shop-1","balance":"200.00","available":"0.00","provisional":"200.00","held":"99.00","currency":"NGN"}`)
	for _, p := range w.read(m.withKey(), "/v1/payments").list("payments") {
		held := w.read(m.withKey(), "/v1/payments/"+p["id"].(string))["held"]
		if p["providerTxnRef"] == "t-2" {
			require.Nil(t, held)
			continue
		}
		fields(held.(map[string]any)).has(t, fields{"source": "policy", "amount": "99.00", "entryId": p["id"], "status": "open"})
	}

	patched := w.ask("PATCH", "/v1/accounts/shop-1", `{"policy":{"exact":"accept"}}`, 200, m.withKey())
	require.Equal(t, map[string]any{"exact": "accept"}, patched["Policy"])
	require.Equal(t, patched, w.read(m.withKey(), "/v1/accounts/shop-1"))
	patched = w.ask("PATCH", "/v1/accounts/shop-1", `{"name":"Ada Obi","policy":null}`, 200, m.withKey())
	require.Contains(t, patched, "Policy", "null changes nothing")
	patched = w.ask("PATCH", "/v1/accounts/shop-1", `{"policy":{}}`, 200, m.withKey())
	require.NotContains(t, patched, "Policy")
	require.NotContains(t, w.ask("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi","policy":{}}`, 201, m.withKey()), "Policy")

	for body, want := range map[string]string{
		`{"policy":"hold"}`:                          "policy must be an object, with each field once",
		`{"policy":{"under":"hold","under":"hold"}}`: "policy must be an object, with each field once",
		`{"policy":{"under":"hold","Under":"hold"}}`: `duplicate field "policy.Under"`,
		`{"policy":{"under":1}}`:                     "policy.under must be a string",
		`{"policy":{"late":"return"}}`:               "policy.late must be accept, hold or refund",
		`{"policy":{"exact":"HOLD"}}`:                "policy.exact must be accept, hold or refund",
	} {
		w.do("PATCH", "/v1/accounts/shop-1", body, m.withKey()...).refused(400, want)
	}
}
