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

// whileLocked is the answer to a request that waits for the lock of a balance while end is called,
// and a second passes.
func (w *world) whileLocked(end func(), path, body string, headers ...string) reply {
	w.T.Helper()
	tx, err := w.Pool.Begin(context.Background())
	require.NoError(w.T, err)
	_, err = tx.Exec(context.Background(), `SELECT FROM ledger_balances FOR UPDATE`)
	require.NoError(w.T, err)
	got := w.asked("POST", path, body, headers...)
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
