package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/tenant"
)

// A member refunds a payment: the proof first, then the refund of the API, once under its key.
func TestRefundByAMember(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, owner.withKey()...).ok(201, nil)
	w.pay(event{"r-1", "t-1", w.accountID(owner, "shop-1"), "5000.00", "0"})
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	finance, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	id := w.read(owner.withSession(), "/auth/payments").list("payments")[0]["id"].(string)
	path := "/auth/payments/" + id + "/refund"
	at := append(finance.withSession(), "Idempotency-Key", "back-1")
	before := w.moved(owner)
	part := fmt.Sprintf(`{"amount":"2000.00","password":%q}`, password)
	w.do("POST", path, part, dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	w.do("POST", path, `{"amount":1}`, at...).refused(400, "password is required")
	w.do("POST", path, `{"amount":"2000.00","password":"wrong horse"}`, at...).refused(400, "password is wrong")
	w.do("POST", path, fmt.Sprintf(`{"amount":"5000.01","password":%q}`, password), at...).refused(422, "amount is more than what is left of the payment to refund")
	require.Equal(t, before, w.moved(owner), "nothing has changed")

	a := w.ask("POST", path, part, 202, at)
	a.has(t, fields{"amount": "2000.00", "refundOf": id, "status": "pending"})
	require.Equal(t, a, w.ask("POST", path, part, 202, at))
	w.do("POST", path, `{"amount":"2000.00","password":"wrong horse"}`, at...).refused(400, "password is wrong")
	w.ask("POST", path, fmt.Sprintf(`{"password":%q}`, password), 202, finance.withSession()).has(t, fields{"amount": "3000.00"})
	w.do("POST", path, part, finance.withSession()...).refused(422, "the payment is refunded in full")
	lines := w.read(owner.withSession(), "/auth/audit?action=transfer.refund").list("entries")
	require.Len(t, lines, 2)
	lines[1].has(t, fields{"actor": "session:" + finance.email, "target": "transfer:" + a["merchantTxRef"].(string)})
	require.Equal(t, "2000.00", lines[1]["after"].(map[string]any)["amount"])
}

// A member holds money and releases it, without a password; of an API key's holds the audit log has
// the release alone, which may end what a member has held.
func TestHoldByAMember(t *testing.T) {
	w := setup(t)
	owner, key := w.funded("5000.00")
	finance, dev := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Developer)
	body, path := `{"amount":"4500.00","reason":"a dispute"}`, "/auth/accounts/shop-1/holds"
	w.do("POST", path, body, dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	at := append(finance.withSession(), "Idempotency-Key", "hold-1")
	h := w.ask("POST", path, body, 201, at)
	h.has(t, fields{"amount": "4500.00", "status": "open", "source": "tenant"})
	require.Equal(t, h, w.ask("POST", path, body, 201, at))
	w.do("POST", path, body, finance.withSession()...).refused(400, "insufficient funds")
	w.do("POST", payOut, provenOrder, finance.withSession()...).refused(400, "insufficient funds")
	release := "/auth/holds/" + h["id"].(string) + "/release"
	w.do("POST", release, "", dev.withSession()...).refused(403, "this needs the role finance; yours is developer")
	w.ask("POST", release, "", 200, finance.withSession()).has(t, fields{"status": "released"})
	w.do("POST", release, "", finance.withSession()...).refused(422, "hold is not open")
	w.do("POST", payOut, provenOrder, finance.withSession()...).ok(202, nil)
	mine := w.ask("POST", "/v1/accounts/shop-1/holds", `{"amount":"1.00","reason":"mine"}`, 201, key)["id"].(string)
	for _, action := range []string{"hold.place", "hold.release"} {
		lines := w.read(owner.withSession(), "/auth/audit?action="+action).list("entries")
		require.Len(t, lines, 1, action)
		lines[0].has(t, fields{"actor": "session:" + finance.email, "target": "hold:" + h["id"].(string)})
		require.Equal(t, map[string]any{"accountRef": "shop-1", "amount": "4500.00", "reason": "a dispute"}, lines[0]["after"])
	}
	w.ask("POST", "/v1/holds/"+mine+"/release", "", 200, key).has(t, fields{"status": "released"})
	line := w.read(owner.withSession(), "/auth/audit?action=hold.release").list("entries")[0]
	line.has(t, fields{"target": "hold:" + mine})
	require.Regexp(t, "^key:", line["actor"])
}
