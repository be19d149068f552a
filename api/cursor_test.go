package api

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
)

// Each list refuses the cursors of the others, and a statement those of other accounts, in place of
// beginning somewhere.
func TestCursorOfAnotherList(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	var a struct{ ID, CustomerID uuid.UUID }
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, m.withKey()...).ok(201, &a)
	var b struct{ ID uuid.UUID }
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Bola Ade"}`, m.withKey()...).ok(201, &b)
	any := uuid.New()
	cursors := map[string]string{
		"accounts": page.ID(page.Accounts, a.ID), "customers": page.ID(page.Customers, a.CustomerID), "transfers": page.ID(page.Transfers, any),
		"deliveries": page.ID(page.Deliveries, any), "dead letters": page.ID(page.DeadLetters, any), "misdirected": page.ID(page.Misdirected, any),
		"statement": page.Seq(page.Statement, a.ID, 0), "another statement": page.Seq(page.Statement, b.ID, 0),
		"operators": page.ID(page.TransferRecords, any), "audit": page.ID(page.Audit, any), "feed": page.Seq(page.Feed, m.id, 0),
		"holds": page.ID(page.Holds, any), "recalls": page.ID(page.Recalls, any),
		"events":   page.ID(page.EventLog, any),
		"payments": page.Due(page.Payments, w.Clock.Now(), any, 0), "work": page.Due(page.Work, w.Clock.Now(), any, 0), "payments of shop-1": page.Seq(page.Payments, a.ID, 0),
	}
	for path, own := range map[string]string{
		"/v1/accounts": "accounts", "/auth/accounts": "accounts", "/v1/customers": "customers", "/auth/customers": "customers",
		"/v1/transfers": "transfers", "/auth/transfers": "transfers", "/auth/deliveries": "deliveries", "/v1/webhooks/dead-letters": "dead letters",
		"/auth/misdirected": "misdirected", "/v1/accounts/shop-1/statement": "statement", "/auth/accounts/shop-1/statement": "statement",
		"/v1/accounts/shop-1/holds": "holds", "/auth/accounts/shop-1/holds": "holds", "/auth/accounts/shop-1/recalls": "recalls",
		"/v1/payments": "payments", "/v1/events": "events", "/auth/payments": "payments", "/auth/payments?accountRef=shop-1&": "payments of shop-1",
	} {
		credential := m.withKey()
		if path[:5] == "/auth" {
			credential = m.withSession()
		}
		for of, cursor := range cursors {
			r := w.do("GET", strings.Replace(path+"?after=", "&?", "&", 1)+cursor, "", credential...)
			if of == own {
				require.Equal(t, 200, r.Status, "%s with its own", path)
			} else {
				r.refused(400, "invalid cursor")
			}
		}
	}
}

// What is under /v1 and no endpoint asks for the key, /v1 itself too.
func TestUnknownPathsOfV1AskForTheKey(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	for _, path := range []string{"/v1", "/v1/", "/v1/nothing", "/v1?x=1"} {
		r := w.do("GET", path, "").refused(401, "unauthorized")
		require.NotEmpty(t, r.Header.Get("RateLimit-Limit"), path)
		r = w.do("GET", path, "", m.withKey()...).refused(404, "not found")
		require.NotEmpty(t, r.Header.Get("RateLimit-Limit"), path)
	}
	for _, path := range []string{"/v1x", "/v2", "/V1"} {
		w.do("GET", path, "").refused(404, "not found")
	}
}
