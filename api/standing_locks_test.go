package api

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// whileLocked is the answer to a POST that waits for the lock of a balance while end is called, and
// a second passes.
func (w *world) whileLocked(end func(), path, body string, headers ...string) reply {
	w.T.Helper()
	return w.whileWaiting(`SELECT FROM ledger_balances FOR UPDATE`, end, "POST", path, body, headers...)
}

// whileWaiting is whileLocked for any request, and for what lock takes.
func (w *world) whileWaiting(lock string, end func(), method, path, body string, headers ...string) reply {
	w.T.Helper()
	tx, err := w.Pool.Begin(context.Background())
	require.NoError(w.T, err)
	_, err = tx.Exec(context.Background(), lock)
	require.NoError(w.T, err)
	got := w.asked(method, path, body, headers...)
	testenv.Eventually(w.T, 10*time.Second, "it waits for the lock", func() bool { return w.LockWaits() == 1 })
	end()
	w.Clock.Advance(time.Second)
	require.NoError(w.T, tx.Rollback(context.Background()))
	return <-got
}

// creditOf is the entry of the payment that [world.funded] makes, confirmed by a record of the bank
// that names its payer.
func (w *world) creditOf(m member) string {
	w.T.Helper()
	w.ExecUnguarded(`UPDATE ledger_entries SET record_name = 'AMINA BELLO', record_account = '0123456789', record_bank_code = '058' WHERE tenant_id = $1 AND direction = 'credit'`, m.id)
	return testenv.Value[uuid.UUID](w.Env, `SELECT id FROM ledger_entries WHERE tenant_id = $1 AND direction = 'credit'`, m.id).String()
}

// A payout or a refund that waits for the balance's lock is not accepted any more when the session
// that asked for it was ended meanwhile, by itself or by the owner.
func TestAPayoutOfASessionThatEnds(t *testing.T) {
	w := setup(t)
	owner, _ := w.funded("5000.00")
	refund := "/auth/payments/" + w.creditOf(owner) + "/refund"
	before := w.moved(owner)
	for path, body := range map[string]string{payOut: provenOrder, refund: withProof(`{"amount":"1000.00"}`, "password", password)} {
		for _, byOwner := range []bool{false, true} {
			out := w.joins(owner, tenant.Finance)
			end := func() { w.do("POST", "/auth/logout", "", out.withSession()...).ok(200, nil) }
			if byOwner {
				session := testenv.Value[uuid.UUID](w.Env, `SELECT s.id FROM sessions s JOIN members m ON m.id = s.member_id WHERE m.email = $1`, out.email)
				end = func() {
					w.do("POST", "/auth/sessions/"+session.String()+"/end", "", owner.withSession()...).ok(200, nil)
				}
			}
			r := w.whileLocked(end, path, body, out.withSession()...)
			r.refused(401, "unauthorized")
			require.Equal(t, before, w.moved(owner))
		}
	}
}

// Nor one by an API key that was revoked while it waited for that lock.
func TestAPayoutOfAKeyThatIsGone(t *testing.T) {
	w := setup(t)
	owner, _ := w.funded("5000.00")
	refund := "/v1/entries/" + w.creditOf(owner) + "/refund"
	before := w.moved(owner)
	for path, body := range map[string]string{"/v1/accounts/shop-1/settle": orderOf1000, refund: `{"amount":"1000.00"}`} {
		key := w.newKey(owner, "Payer", []tenant.Scope{tenant.PayoutsCreate})
		r := w.whileLocked(func() {
			w.do("POST", "/auth/keys/"+key.Key.ID.String()+"/revoke", "", owner.withSession()...).ok(200, nil)
		}, path, body, "X-API-Key", key.APIKey)
		r.refused(401, "unauthorized")
		require.Equal(t, before, w.moved(owner))
	}
}

// Nor is a hold placed or released, or a customer renamed, by an API key that was revoked while it
// waited, or whose tenant was suspended.
func TestAHoldOfAKeyThatIsGone(t *testing.T) {
	w := setup(t)
	owner, main := w.funded("5000.00")
	hold := w.ask("POST", "/v1/accounts/shop-1/holds", `{"amount":"100.00","reason":"a claim"}`, 201, main)["id"].(string)
	customer := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM customers WHERE tenant_id = $1`, owner.id).String()
	kept := func() []string {
		rows := w.rows(owner)
		return []string{rows["holds"], rows["ledger_balances"], rows["customers"], rows["idempotency_keys"]}
	}
	before := kept()
	const balances, customers = `SELECT FROM ledger_balances FOR UPDATE`, `SELECT FROM customers FOR NO KEY UPDATE`
	for _, c := range [][4]string{
		{balances, "POST", "/v1/accounts/shop-1/holds", `{"amount":"1.00","reason":"another"}`},
		{balances, "POST", "/v1/holds/" + hold + "/release", ""},
		{customers, "PATCH", "/v1/customers/" + customer, `{"name":"Somebody Else"}`},
	} {
		key := w.newKey(owner, "Holds", []tenant.Scope{tenant.HoldsWrite, tenant.CustomersWrite})
		revoke := func() {
			w.do("POST", "/auth/keys/"+key.Key.ID.String()+"/revoke", "", owner.withSession()...).ok(200, nil)
		}
		r := w.whileWaiting(c[0], revoke, c[1], c[2], c[3], "X-API-Key", key.APIKey, "Idempotency-Key", "a")
		r.refused(401, "unauthorized")
		require.Equal(t, before, kept(), c[2])

		key = w.newKey(owner, "Holds", []tenant.Scope{tenant.HoldsWrite, tenant.CustomersWrite})
		suspend := func() { w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, owner.id) }
		r = w.whileWaiting(c[0], suspend, c[1], c[2], c[3], "X-API-Key", key.APIKey)
		r.refused(403, tenant.ErrSuspended.Msg)
		require.Equal(t, before, kept(), c[2])
		w.Exec(`UPDATE tenants SET status = 'active' WHERE id = $1`, owner.id)
	}
}
