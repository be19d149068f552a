package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/freeze"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

const payOut = "/auth/accounts/shop-1/settle"

// withProof is an order that somebody gives the password for, or a code.
func withProof(order, field, value string) string {
	return strings.TrimSuffix(order, "}") + fmt.Sprintf(`,%q:%q}`, field, value)
}

var provenOrder = proven(orderOf1000)

// proven is a body with the password.
func proven(body string) string { return withProof(body, "password", password) }

// moved is what a payout changes of a tenant, whoever asks for it.
func (w *world) moved(m member) string {
	w.T.Helper()
	return testenv.Value[string](w.Env, `SELECT (SELECT count(*) FROM transfers WHERE tenant_id = $1) || ' transfers, ' || (SELECT sum(balance) FROM ledger_balances WHERE tenant_id = $1)
		|| ' left, ' || (SELECT count(*) FROM idempotency_keys WHERE tenant_id = $1) || ' keys, '
		|| (SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'transfer.settle') || ' lines'`, m.id)
}

// A member pays out: the proof is asked for first, the rest is the settle of the API, and the audit
// log has who it was.
func TestPayOutOverHTTP(t *testing.T) {
	w := setup(t)
	owner, _ := w.funded("5000.00")
	finance := w.joins(owner, tenant.Finance)
	at := append(finance.withSession(), "Idempotency-Key", "rent-1")
	before := w.moved(owner)
	for _, role := range []tenant.Role{tenant.Developer, tenant.Viewer} {
		w.do("POST", payOut, provenOrder, w.joins(owner, role).withSession()...).refused(403, fmt.Sprintf("this needs the role finance; yours is %s", role))
	}
	w.do("POST", payOut, orderOf1000, at...).refused(400, "password is required")
	w.do("POST", payOut, `{"amount":1}`, at...).refused(400, "password is required")
	for _, order := range []string{orderOf1000, `{"amount":1}`} { // whatever else is wrong with it
		w.do("POST", payOut, withProof(order, "password", "wrong horse"), at...).refused(400, "password is wrong")
	}
	w.do("POST", payOut, withProof(orderOf1000, "code", "123456"), at...).refused(400, "password is required")
	w.do("POST", payOut, withProof(`{"amount":1}`, "password", password), at...).refused(422, "amount must be a decimal string, not a number")
	require.Equal(t, before, w.moved(owner), "nothing has changed")
	testenv.Eventually(t, 10*time.Second, "the refusals in the audit log", func() bool {
		return len(w.read(owner.withSession(), "/auth/audit?action=session.refused").list("entries")) == 2
	})

	first := w.do("POST", payOut, provenOrder, at...)
	var s struct{ MerchantTxRef, Status, AccountRef string }
	first.ok(202, &s)
	require.Equal(t, "pending shop-1", s.Status+" "+s.AccountRef)
	again := w.do("POST", payOut, provenOrder, at...).ok(202, nil)
	require.Equal(t, first.Body, again.Body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, "1 transfers, 4000.00 left, 1 keys, 1 lines", w.moved(owner))
	line := w.read(owner.withSession(), "/auth/audit?action=transfer.settle").list("entries")[0]
	line.has(t, fields{"actor": "session:" + finance.email, "target": "transfer:" + s.MerchantTxRef, "before": nil})
	require.Equal(t, map[string]any{"accountRef": "shop-1", "amount": "1000.00", "bankCode": "058", "accountNumber": "0123456789"}, line["after"])
	w.advance(s.MerchantTxRef)
	w.read(finance.withSession(), "/auth/transfers/"+s.MerchantTxRef).has(t, fields{"status": "success", "narration": "rent & <more>"})
	require.Len(t, w.bank.Paid(), 1)
}

// A kept answer is given to who proves to be there, and to nobody else; with another password, too,
// as that is no part of what was asked for.
func TestPayOutRepeated(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	at := append(m.withSession(), "Idempotency-Key", "rent-1")
	first := w.do("POST", payOut, provenOrder, at...).ok(202, nil)
	w.do("POST", payOut, withProof(orderOf1000, "password", "wrong horse"), at...).refused(400, "password is wrong")
	w.do("POST", payOut, strings.Replace(provenOrder, "1000.00", "1000.01", 1), at...).refused(422, "Idempotency-Key was already used with a different request")
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, append(key, "Idempotency-Key", "rent-1")...).refused(422, "Idempotency-Key was already used with a different request")
	w.do("POST", "/auth/password", fmt.Sprintf(`{"oldPassword":%q,"newPassword":"another horse"}`, password), m.withSession()...).ok(200, nil)
	again := w.do("POST", payOut, withProof(orderOf1000, "password", "another horse"), at...).ok(202, nil)
	require.Equal(t, first.Body, again.Body)
	require.Equal(t, "1 transfers, 4000.00 left, 1 keys, 1 lines", w.moved(m))
}

// The same click eight times at once is one payout.
func TestPayOutAtOnce(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	at := append(m.withSession(), "Idempotency-Key", "rent-1")
	replies := make([]reply, 8)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = w.do("POST", payOut, provenOrder, at...) })
	}
	wg.Wait()
	answer := w.do("POST", payOut, provenOrder, at...).ok(202, nil)
	for _, r := range replies {
		if r.Status != 202 {
			r.refused(409, "a request with this Idempotency-Key is still running")
			continue
		}
		require.Equal(t, answer.Body, r.Body)
	}
	require.Equal(t, "1 transfers, 4000.00 left, 1 keys, 1 lines", w.moved(m))
}

// Guesses of a password or code are as few as at the login; the right one is no exception then.
func TestPayOutGuesses(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	before := w.moved(m)
	for range 9 {
		w.do("POST", payOut, withProof(orderOf1000, "password", "wrong horse"), m.withSession()...).refused(400, "password is wrong")
	}
	w.do("POST", "/auth/password", `{"oldPassword":"wrong horse","newPassword":"another horse"}`, m.withSession()...).refused(400, "oldPassword is wrong")
	requireLimited(t, w.do("POST", payOut, provenOrder, m.withSession()...))
	require.Equal(t, before, w.moved(m))
}

// A member with a second factor gives a code, which works once. A repeat takes the next one.
func TestPayOutTakesACode(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	shared, codes := w.factor(m)
	at := append(m.withSession(), "Idempotency-Key", "rent-1")
	pay := func(field, value string) reply {
		return w.do("POST", payOut, withProof(orderOf1000, field, value), at...)
	}
	before := w.moved(m)
	pay("password", password).refused(400, "code is required")
	pay("code", "abc").refused(400, "code is wrong")
	require.Equal(t, before, w.moved(m))
	code := w.totp(shared)
	first := pay("code", code).ok(202, nil)
	pay("code", code).refused(400, "code is wrong")
	w.Clock.Advance(time.Minute)
	require.Equal(t, first.Body, pay("code", w.totp(shared)).ok(202, nil).Body)
	require.Equal(t, first.Body, pay("code", codes[0]).ok(202, nil).Body)
	pay("code", codes[0]).refused(400, "code is wrong")
	require.Equal(t, "1 transfers, 4000.00 left, 1 keys, 1 lines", w.moved(m))
}

// What became of the account, the session or the policy since the page was drawn decides.
func TestPayOutMeanwhile(t *testing.T) {
	w := setup(t)
	owner, key := w.funded("5000.00")
	finance, other := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance)
	before := w.moved(owner)

	w.do("POST", "/v1/accounts/shop-1/holds", `{"amount":"4500.00","reason":"a dispute"}`, key...).ok(201, nil)
	w.do("POST", payOut, provenOrder, finance.withSession()...).refused(400, "insufficient funds")
	hold := w.read(key, "/v1/accounts/shop-1/holds").list("holds")[0]["id"].(string)
	w.do("POST", "/v1/holds/"+hold+"/release", "", key...).ok(200, nil)

	freezes := freeze.Service{Pool: w.Pool, Clock: w.Clock}
	by := audit.By{Actor: "cli:test", Reason: "a ticket"}
	f, err := freezes.Begin(t.Context(), freeze.New{Scope: freeze.Account, Subject: uuid.MustParse(w.accountID(owner, "shop-1")), Requests: true}, by)
	require.NoError(t, err)
	w.do("POST", payOut, provenOrder, finance.withSession()...).refused(409, "account is frozen")
	_, err = freezes.Lift(t.Context(), f.ID, by)
	require.NoError(t, err)
	require.Equal(t, before, w.moved(owner))

	w.ask("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"999.99"}`), 200, owner.withSession())
	a := w.ask("POST", payOut, provenOrder, 202, finance.withSession())
	a.has(t, fields{"status": "pending", "awaiting": "approval"})
	path := "/auth/transfers/" + a["merchantTxRef"].(string)
	w.do("POST", path+"/approve", "", finance.withSession()...).refused(403, "you asked for this transfer: another member must approve it")
	w.read(finance.withSession(), path+"/approval").has(t, fields{"awaiting": "approval", "madeBy": w.read(finance.withSession(), "/auth/member")["id"], "madeByEmail": w.read(finance.withSession(), "/auth/member")["email"]})
	w.ask("POST", path+"/approve", "", 200, other.withSession()).has(t, fields{"awaiting": nil})

	paid := w.moved(owner)
	w.do("POST", "/auth/logout", "", finance.withSession()...).ok(200, nil)
	w.do("POST", payOut, provenOrder, finance.withSession()...).refused(401, "unauthorized")
	w.do("POST", payOut, provenOrder, append(other.withSession(), "Sec-Fetch-Site", "cross-site")...).refused(403, "cross-site request refused")
	require.Equal(t, paid, w.moved(owner))
}
