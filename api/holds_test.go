package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
	"ajo/ledger"
)

// A hold from its placing to its release: what it keeps shows in the balance, no settlement takes
// it, and a settlement that waits goes when it is released.
func TestHoldsOfAnAccount(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	id := w.accountID(m, "shop-1")
	funds := func(available, held string) {
		t.Helper()
		w.ask("GET", "/v1/accounts/shop-1/balance", "", 200, key).has(t, fields{"balance": "5000.00", "available": available, "held": held})
		w.ask("GET", "/v1/balance", "", 200, key).has(t, fields{"balance": "5000.00", "available": available, "held": held})
	}
	until := w.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	order := append(header(key), "Idempotency-Key", "dispute-1")
	body := `{"amount":"4500.00","reason":"Order 1001 is disputed","until":"` + until + `"}`
	h := w.ask("POST", "/v1/accounts/shop-1/holds", body, 201, order)
	h.has(t, fields{
		"accountRef": "shop-1", "accountId": id, "amount": "4500.00", "currency": "NGN", "reason": "Order 1001 is disputed", "status": "open",
		"until": until, "createdAt": w.now(), "endedAt": nil,
	})
	w.Clock.Advance(2 * time.Hour) // by now its until has passed
	require.Equal(t, "true", w.do("POST", "/v1/accounts/shop-1/holds", body, order...).ok(201, nil).Header.Get("Idempotent-Replayed"))
	funds("5000.00", "0.00")
	w.ask("GET", "/v1/holds/"+h["id"].(string), "", 200, key).has(t, fields{"status": "expired", "endedAt": until})
	w.do("POST", "/v1/holds/"+h["id"].(string)+"/release", "", key...).refused(422, "hold is not open")

	h = w.ask("POST", "/v1/accounts/shop-1/holds", `{"amount":"4500.00","reason":"a deposit","until":null}`, 201, key)
	funds("500.00", "4500.00")
	w.do("POST", "/v1/accounts/shop-1/holds", `{"amount":"500.01","reason":"more"}`, key...).refused(400, "insufficient funds")
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, key...).refused(400, "insufficient funds")
	release := append(header(key), "Idempotency-Key", "release-1")
	path := "/v1/holds/" + h["id"].(string)
	w.ask("POST", path+"/release", "", 200, release).has(t, fields{"status": "released", "until": nil, "endedAt": w.now()})
	require.Equal(t, "true", w.do("POST", path+"/release", "", release...).ok(200, nil).Header.Get("Idempotent-Replayed"))
	w.do("POST", path+"/release", "", key...).refused(422, "hold is not open")
	funds("5000.00", "0.00")
	for status, n := range map[string]int{"": 2, "open": 0, "released": 1, "expired": 1} {
		require.Len(t, w.ask("GET", "/v1/accounts/shop-1/holds?status="+status, "", 200, key)["holds"], n, status)
	}
	first := w.ask("GET", "/v1/accounts/shop-1/holds?limit=1", "", 200, key)
	require.Equal(t, h["id"], fields(first).list("holds")[0]["id"])
	next := first["pagination"].(map[string]any)["nextCursor"].(string)
	last := w.ask("GET", "/v1/accounts/shop-1/holds?limit=1&after="+next, "", 200, key)
	require.Len(t, last["holds"], 1)
	require.Equal(t, false, last["pagination"].(map[string]any)["hasMore"])
	require.NotEmpty(t, w.settle(key, orderOf1000))
}

// The session sees what is held of an account: by holds, and by the recalls of payments that the
// bank may have taken back, as long as they hold something.
func TestWhatIsHeldByTheSession(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	session := m.withSession()
	require.Empty(t, w.ask("GET", "/auth/accounts/shop-1/recalls", "", 200, session)["recalls"])
	w.ask("POST", "/v1/accounts/shop-1/holds", `{"amount":"500.00","reason":"a deposit"}`, 201, key)
	require.Equal(t, "a deposit", w.ask("GET", "/auth/accounts/shop-1/holds?status=open", "", 200, session).list("holds")[0]["reason"])
	w.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at)
		SELECT transaction_group_id, tenant_id, account_id, 'event', 'open', amount, $1 FROM ledger_entries`, w.Clock.Now())
	w.Exec(`UPDATE ledger_balances SET recall_held = 5000`)
	page := w.ask("GET", "/auth/accounts/shop-1/recalls", "", 200, session)
	list := page.list("recalls")
	require.Len(t, list, 1)
	entry := w.ask("GET", "/v1/accounts/shop-1/statement", "", 200, key).list("lines")[0]["entry"].(map[string]any)
	fields(list[0]).has(t, fields{
		"entryId": entry["ID"], "transactionGroupId": entry["TransactionGroupID"], "amount": "5000.00", "senderName": entry["SenderName"],
		"providerTxnRef": entry["ProviderTxnRef"], "postedAt": entry["CreatedAt"], "openedAt": w.now(),
	})
	other := w.onboard()
	w.do("GET", "/auth/accounts/shop-1/recalls", "", other.withSession()...).refused(404, "account not found")
	w.Exec(`UPDATE recalls SET status = 'kept', held = 0, closed_at = now()`)
	require.Empty(t, w.ask("GET", "/auth/accounts/shop-1/recalls", "", 200, session)["recalls"])
}

// Refusals of a hold name the field.
func TestHoldsThatAreRefused(t *testing.T) {
	w := setup(t)
	_, key := w.funded("5000.00")
	with := func(amount, reason, until string) string {
		out, err := json.Marshal(map[string]string{"amount": amount, "reason": reason, "until": until})
		require.NoError(t, err)
		return strings.Replace(string(out), `,"until":""`, "", 1)
	}
	now := w.Clock.Now().UTC().Format(time.RFC3339)
	for _, c := range []struct {
		body   string
		status int
		why    string
	}{
		{`{"amount":100,"reason":"x"}`, 422, "amount must be a decimal string, not a number"},
		{with("0", "x", ""), 400, "invalid amount"},
		{with("-1", "x", ""), 400, "invalid amount"},
		{with("1.001", "x", ""), 400, "invalid amount"},
		{`{"reason":"x"}`, 400, "invalid amount"},
		{with("1", " ", ""), 400, "reason is required"},
		{`{"amount":"1"}`, 400, "reason is required"},
		{`{"amount":"1","reason":7}`, 400, "reason must be a string"},
		{with("1", strings.Repeat("é", 141), ""), 400, "reason must be at most 140 characters, without control characters"},
		{with("1", "two\nlines", ""), 400, "reason must be at most 140 characters, without control characters"},
		{with("1", "x", now), 400, "until must be in the future"},
		{with("1", "x", "tomorrow"), 400, "until must be an ISO 8601 time such as 2026-01-30T12:15:00Z"},
		{with("5000.01", "x", ""), 400, "insufficient funds"},
	} {
		w.do("POST", "/v1/accounts/shop-1/holds", c.body, key...).refused(c.status, c.why)
	}
	w.do("POST", "/v1/accounts/nobody/holds", with("1", "x", ""), key...).refused(404, "account not found")
	w.do("GET", "/v1/accounts/shop-1/holds?status=all", "", key...).refused(400, "status must be open, released or expired")
	for _, id := range []string{"x", "0198c0de-0000-7000-8000-000000000001"} {
		w.do("GET", "/v1/holds/"+id, "", key...).refused(404, "hold not found")
		w.do("POST", "/v1/holds/"+id+"/release", "", key...).refused(404, "hold not found")
	}
	w.do("POST", "/v1/accounts/shop-1/holds", with("5000.00", strings.Repeat("é", 140), ""), key...).ok(201, nil)
}

// A hold that the tenant may not release says who ends it, in the words of the document.
func TestHoldsOfOthersAreRefused(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","expectedAmount":100,"policy":{"under":"hold"}}`, m.withKey()...).ok(201, nil)
	w.pay(event{"r-1", "t-1", "shop-1", "99.00", "0"})
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM holds WHERE tenant_id = $1`, m.id).String()
	for source, why := range map[ledger.HoldSource]string{ledger.HeldByLimit: ledger.ErrHoldOfLimit.Msg, ledger.HeldByRecall: ledger.ErrHoldOfRecall.Msg} {
		w.ExecUnguarded(`UPDATE holds SET source = $2 WHERE id = $1`, id, string(source))
		w.do("POST", "/v1/holds/"+id+"/release", "", m.withKey()...).refused(422, why)
		w.do("POST", "/auth/holds/"+id+"/release", "", m.withSession()...).refused(422, why)
	}
}
