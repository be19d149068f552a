package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// asked is a request that is on its way.
func (w *world) asked(method, path, body string, headers ...string) <-chan reply {
	got := make(chan reply, 1)
	go func() { got <- w.do(method, path, body, headers...) }()
	return got
}

// bankHolds has the bank keep every look-up until release is called; waiting waits for the first.
func (w *world) bankHolds() (waiting, release func()) {
	held := make(chan struct{})
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Slow, Delay: time.Minute, Until: held})
	waiting = func() {
		testenv.Eventually(w.T, 10*time.Second, "the bank is asked", func() bool { return w.bank.Faults.Rules()[0].Struck > 0 })
	}
	return waiting, func() { close(held) }
}

// A payout that waits for the bank to name the holder is not accepted any more when its member was
// removed meanwhile, has another role, has logged out or needs a second factor, its key was
// revoked, or its beneficiary was removed. Nor is a beneficiary saved for who is gone.
func TestAPayoutOfWhoIsGone(t *testing.T) {
	w := setup(t)
	owner, main := w.funded("5000.00")
	const order = `{"amount":"1000.00","bankCode":"058","accountNumber":"0123456789","accountName":"Amina Bello"}`
	saved := w.ask("POST", "/v1/beneficiaries", `{"bankCode":"058","accountNumber":"0123456789"}`, 201, main)["id"].(string)
	w.Clock.Advance(3 * time.Minute) // a name is not kept so long
	proven := withProof(order, "password", password)
	remove := func(m member, how, body string) func() {
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, m.email)
		return func() { w.do("POST", "/auth/members/"+id.String()+how, body, owner.withSession()...).ok(200, nil) }
	}
	removed, reduced, out, saver := w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance)
	onePassword := w.joins(owner, tenant.Finance)
	key := w.newKey(owner, "Payer", []tenant.Scope{tenant.PayoutsCreate})
	for _, c := range []struct {
		path, body string
		as         header
		end        func()
		status     int
		text       string
	}{
		{payOut, proven, removed.withSession(), remove(removed, "/remove", ""), 401, "unauthorized"},
		{payOut, proven, reduced.withSession(), remove(reduced, "/role", `{"role":"viewer"}`), 403, "this needs the role finance; yours is viewer"},
		{payOut, proven, out.withSession(), func() { w.do("POST", "/auth/logout", "", out.withSession()...).ok(200, nil) }, 401, "unauthorized"},
		{"/v1/accounts/shop-1/settle", order, header{"X-API-Key", key.APIKey}, func() {
			w.do("POST", "/auth/keys/"+key.Key.ID.String()+"/revoke", "", owner.withSession()...).ok(200, nil)
		}, 401, "unauthorized"},
		{"/v1/accounts/shop-1/settle", `{"amount":"1000.00","beneficiary":"` + saved + `"}`, main, func() {
			w.do("DELETE", "/v1/beneficiaries/"+saved, "", main...).ok(200, nil)
		}, 404, "beneficiary not found"},
		{"/auth/beneficiaries", `{"bankCode":"058","accountNumber":"0123456789"}`, saver.withSession(), remove(saver, "/remove", ""), 401, "unauthorized"},
		{payOut, proven, onePassword.withSession(), func() {
			w.do("POST", "/auth/totp-required", `{"required":true}`, owner.withSession()...).ok(200, nil)
		}, 403, "set up two-factor authentication first"},
	} {
		before := w.moved(owner)
		waiting, release := w.bankHolds()
		got := w.asked("POST", c.path, c.body, c.as...)
		waiting()
		c.end()
		release()
		r := <-got
		r.refused(c.status, c.text)
		require.Equal(t, before, w.moved(owner))
		w.Clock.Advance(3 * time.Minute)
	}
}

// A NIN that waits for its check is not recorded any more when its member was removed meanwhile, or
// its key revoked.
func TestANINOfWhoIsGone(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	id := w.customer(owner, "shop-1", "Ada Obi")
	finance := w.joins(owner, tenant.Finance)
	financeID := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, finance.email)
	key := w.newKey(owner, "KYC", []tenant.Scope{tenant.CustomersWrite})
	for _, c := range []struct {
		path, end string
		as        header
	}{
		{"/auth/customers/" + id + "/kyc", "/auth/members/" + financeID.String() + "/remove", finance.withSession()},
		{"/v1/customers/" + id + "/kyc", "/auth/keys/" + key.Key.ID.String() + "/revoke", header{"X-API-Key", key.APIKey}},
	} {
		held := make(chan struct{})
		w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: fakebank.Slow, Delay: time.Minute, Until: held})
		got := w.asked("POST", c.path, `{"nin":"`+ninOfAda+`"}`, c.as...)
		testenv.Eventually(t, 10*time.Second, "the NIN is checked", func() bool { return w.bank.Faults.Rules()[0].Struck > 0 })
		w.do("POST", c.end, "", owner.withSession()...).ok(200, nil)
		close(held)
		r := <-got
		r.refused(401, "unauthorized")
		w.read(owner.withKey(), "/v1/customers/"+id).has(t, fields{"KYCStatus": "none", "NINLast4": nil})
	}
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM audit_log WHERE action = 'kyc.submit'`))
}

// An approval that waits for the transfer's lock is none any more when its member was removed, or
// has another role.
func TestAnApprovalOfWhoIsGone(t *testing.T) {
	w := setup(t)
	owner, key := w.funded("5000.00")
	w.do("POST", "/auth/payout-policy", proven(`{"approvals":1,"threshold":"1.00"}`), owner.withSession()...).ok(200, nil)
	ref := w.ask("POST", "/v1/accounts/shop-1/settle", orderOf1000, 202, key)["merchantTxRef"].(string)
	for how, want := range map[string]string{"remove": "unauthorized", "role": "this needs the role finance; yours is developer"} {
		finance := w.joins(owner, tenant.Finance)
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, finance.email)
		for _, verb := range []string{"approve", "reject"} {
			if how == "remove" && verb == "reject" {
				continue // it is gone since the other
			}
			w.do("POST", "/auth/members/"+id.String()+"/role", `{"role":"finance"}`, owner.withSession()...).ok(200, nil)
			tx, err := w.Pool.Begin(context.Background())
			require.NoError(t, err)
			_, err = tx.Exec(context.Background(), `SELECT FROM transfers WHERE merchant_tx_ref = $1 FOR UPDATE`, ref)
			require.NoError(t, err)
			got := w.asked("POST", "/auth/transfers/"+ref+"/"+verb, "", finance.withSession()...)
			testenv.Eventually(t, 10*time.Second, "it waits for the lock", func() bool { return w.LockWaits() > 0 })
			w.do("POST", "/auth/members/"+id.String()+"/"+how, `{"role":"developer"}`, owner.withSession()...).ok(200, nil)
			require.NoError(t, tx.Rollback(context.Background()))
			r := <-got
			r.refused(map[string]int{"remove": 401, "role": 403}[how], want)
		}
	}
	require.Empty(t, w.read(owner.withSession(), "/auth/transfers/"+ref+"/approval").list("decisions"))
}

// A change that waits for a lock is none any more when its member was removed or has another role
// meanwhile, or its key was revoked: whoever is gone leaves neither a key nor a URL behind.
func TestAChangeOfWhoIsGone(t *testing.T) {
	w := setup(t)
	owner, _ := w.funded("5000.00")
	id := w.customer(owner, "shop-2", "Ada Obi")
	_, err := w.Pool.Exec(context.Background(), `UPDATE customers SET kyc_status = 'pending_review' WHERE id = $1`, id)
	require.NoError(t, err)
	hold := w.ask("POST", "/v1/accounts/shop-1/holds", `{"amount":"100.00","reason":"a claim"}`, 201, header(owner.withKey()))["id"].(string)
	key := w.newKey(owner, "Hooks", []tenant.Scope{tenant.WebhooksWrite})
	remove := func(m member, how, body string) string {
		of := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, m.email)
		return "/auth/members/" + of.String() + how + "\x00" + body
	}
	const tenantsRow, newKey = `SELECT FROM tenants FOR NO KEY UPDATE`, `{"name":"Later","scopes":["payments:read"]}`
	w.do("POST", "/auth/webhook-secret", "", owner.withSession()...).ok(200, nil)
	sixth := w.joins(owner, tenant.Developer)
	removed, reduced, third, fourth, fifth := w.joins(owner, tenant.Developer), w.joins(owner, tenant.Developer), w.joins(owner, tenant.Developer), w.joins(owner, tenant.Finance), w.joins(owner, tenant.Finance)
	for _, c := range []struct {
		lock, path, body string
		as               header
		end              string
		status           int
		text             string
	}{
		{tenantsRow, "/auth/keys", newKey, removed.withSession(), remove(removed, "/remove", ""), 401, "unauthorized"},
		{tenantsRow, "/auth/keys", newKey, reduced.withSession(), remove(reduced, "/role", `{"role":"viewer"}`), 403, "this needs the role developer; yours is viewer"},
		{tenantsRow, "/auth/webhook-endpoints", `{"url":"https://elsewhere.example/in"}`, third.withSession(), remove(third, "/remove", ""), 401, "unauthorized"},
		{tenantsRow, "/auth/webhook-url", `{"url":"https://elsewhere.example/in"}`, header{"X-API-Key", key.APIKey}, "/auth/keys/" + key.Key.ID.String() + "/revoke\x00", 401, "unauthorized"},
		{tenantsRow, "/auth/webhook-secret", "", sixth.withSession(), remove(sixth, "/remove", ""), 401, "unauthorized"}, // there is one, and nothing changes
		{`SELECT FROM ledger_balances FOR UPDATE`, "/auth/holds/" + hold + "/release", "", fourth.withSession(), remove(fourth, "/remove", ""), 401, "unauthorized"},
		{`SELECT FROM customers FOR NO KEY UPDATE`, "/auth/customers/" + id + "/kyc/approve", "", fifth.withSession(), remove(fifth, "/remove", ""), 401, "unauthorized"},
	} {
		tx, err := w.Pool.Begin(context.Background())
		require.NoError(t, err)
		_, err = tx.Exec(context.Background(), c.lock)
		require.NoError(t, err)
		end, body, _ := strings.Cut(c.end, "\x00")
		first, second := func() <-chan reply { return w.asked("POST", end, body, owner.withSession()...) }, func() <-chan reply { return w.asked("POST", c.path, c.body, c.as...) }
		var ended, got <-chan reply
		if c.lock == tenantsRow { // for which the removal waits, too, before the other
			ended = first()
			testenv.Eventually(t, 10*time.Second, "the removal waits for the lock", func() bool { return w.LockWaits() == 1 })
			got = second()
			testenv.Eventually(t, 10*time.Second, "the change waits for the lock", func() bool { return w.LockWaits() == 2 })
		} else {
			got = second()
			testenv.Eventually(t, 10*time.Second, "the change waits for the lock", func() bool { return w.LockWaits() == 1 })
			ended = first()
		}
		if c.lock != tenantsRow {
			r := <-ended
			r.ok(200, nil)
		}
		require.NoError(t, tx.Rollback(context.Background()))
		if c.lock == tenantsRow {
			r := <-ended
			r.ok(200, nil)
		}
		r := <-got
		r.refused(c.status, c.text)
	}
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM api_keys WHERE name = 'Later'`))
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM webhook_endpoints`))
	require.Empty(t, testenv.Value[string](w.Env, `SELECT webhook_url FROM tenants`))
	require.Equal(t, "open", testenv.Value[string](w.Env, `SELECT status FROM holds`))
	w.read(owner.withKey(), "/v1/customers/"+id).has(t, fields{"KYCStatus": "pending_review"})
}

// What an account does with its money and its events is not changed any more by a key that was
// revoked while its change waited for a lock.
func TestAnAccountIsNotChangedByAKeyThatIsGone(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, owner.withKey()...).ok(201, nil)
	}
	before := w.rows(owner)["accounts"]
	const accounts, tenants = `SELECT FROM accounts FOR NO KEY UPDATE`, `SELECT FROM tenants FOR NO KEY UPDATE`
	for body, lock := range map[string]string{
		`{"split":{"shares":[{"accountRef":"shop-2","percent":"100"}]}}`: accounts,
		`{"policy":{"over":"refund"}}`:                                   accounts,
		`{"expectedAmount":7}`:                                           accounts,
		`{"name":"Somebody Else"}`:                                       accounts,
		`{"callbackUrl":"https://elsewhere.example/in"}`:                 tenants,
	} {
		key := w.newKey(owner, "Accounts", []tenant.Scope{tenant.AccountsWrite, tenant.AccountsTransfer, tenant.PayoutsCreate})
		tx, err := w.Pool.Begin(context.Background())
		require.NoError(t, err)
		_, err = tx.Exec(context.Background(), lock)
		require.NoError(t, err)
		waits := func(n int) {
			testenv.Eventually(t, 10*time.Second, "it waits for the lock", func() bool { return w.LockWaits() == n })
		}
		var ended, got <-chan reply
		change := func() { got = w.asked("PATCH", "/v1/accounts/shop-1", body, "X-API-Key", key.APIKey) }
		revoke := func() {
			ended = w.asked("POST", "/auth/keys/"+key.Key.ID.String()+"/revoke", "", owner.withSession()...)
		}
		var r reply
		if lock == tenants { // for which the revocation waits, too, before the change
			revoke()
			waits(1)
			change()
			waits(2)
			require.NoError(t, tx.Rollback(context.Background()))
			r = <-ended
			r.ok(200, nil)
		} else {
			change()
			waits(1)
			revoke()
			r = <-ended
			r.ok(200, nil)
			require.NoError(t, tx.Rollback(context.Background()))
		}
		r = <-got
		r.refused(401, "unauthorized")
	}
	require.Equal(t, before, w.rows(owner)["accounts"])
}

// An account is neither opened nor ended, and no money moved to it, by a key that was revoked while
// its request waited for a lock.
func TestAnAccountIsNotOpenedOrEndedByAKeyThatIsGone(t *testing.T) {
	w := setup(t)
	owner, main := w.funded("5000.00")
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-2","name":"Ada Obi"}`, main...).ok(201, nil)
	kept := func() []string {
		rows := w.rows(owner)
		return []string{rows["accounts"], rows["ledger_balances"], rows["idempotency_keys"]}
	}
	before := kept()
	for path, c := range map[string][2]string{
		"/v1/accounts/shop-1/expire":   {"", `SELECT FROM accounts FOR NO KEY UPDATE`},
		"/v1/accounts":                 {`{"externalRef":"shop-1","name":"Ada Obi","mode":"onetime"}`, `SELECT FROM customers FOR NO KEY UPDATE`},
		"/v1/accounts/shop-1/transfer": {`{"toAccountRef":"shop-2","amount":"1.00"}`, `SELECT FROM ledger_balances FOR UPDATE`},
	} {
		key := w.newKey(owner, "Accounts", []tenant.Scope{tenant.AccountsWrite, tenant.AccountsTransfer})
		tx, err := w.Pool.Begin(context.Background())
		require.NoError(t, err)
		_, err = tx.Exec(context.Background(), c[1])
		require.NoError(t, err)
		got := w.asked("POST", path, c[0], "X-API-Key", key.APIKey)
		testenv.Eventually(t, 10*time.Second, "it waits for the lock", func() bool { return w.LockWaits() == 1 })
		w.do("POST", "/auth/keys/"+key.Key.ID.String()+"/revoke", "", owner.withSession()...).ok(200, nil)
		require.NoError(t, tx.Rollback(context.Background()))
		r := <-got
		r.refused(401, "unauthorized")
	}
	require.Equal(t, before, kept())
}

// The second factor that a tenant requires is still required when the session ended that asked for
// the opposite, while it waited.
func TestARequirementStandsBesideWhoIsGone(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	shared, _ := w.factor(owner)
	w.do("POST", "/auth/totp-required", `{"required":true}`, owner.withSession()...).ok(200, nil)
	r := w.do("POST", "/auth/login", fmt.Sprintf(`{"email":%q,"password":%q,"code":%q}`, owner.email, password, w.totp(shared))).ok(200, nil)
	left := owner
	left.cookie, _, _ = strings.Cut(r.Header.Get("Set-Cookie"), ";")
	tx, err := w.Pool.Begin(context.Background())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(context.Background(), `SELECT FROM tenants FOR NO KEY UPDATE`)
	require.NoError(t, err)
	got := w.asked("POST", "/auth/totp-required", `{"required":false}`, left.withSession()...)
	testenv.Eventually(t, 10*time.Second, "the change waits for the lock", func() bool { return w.LockWaits() == 1 })
	w.do("POST", "/auth/logout", "", left.withSession()...).ok(200, nil)
	require.NoError(t, tx.Rollback(context.Background()))
	r = <-got
	r.refused(401, "unauthorized")
	require.True(t, testenv.Value[bool](w.Env, `SELECT totp_required FROM tenants`))
}

// What a member changes of itself is not changed any more when the session that asked for it ended
// while it waited: neither the password nor the second factor, and no ownership is handed over.
func TestAChangeOfOneselfByWhoIsGone(t *testing.T) {
	w := setup(t)
	owner := w.onboard()
	finance := w.joins(owner, tenant.Finance)
	w.factor(finance)
	financeID := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM members WHERE email = $1`, finance.email)
	var set struct{ Secret string }
	w.do("POST", "/auth/totp", fmt.Sprintf(`{"password":%q}`, password), owner.withSession()...).ok(200, &set)
	const state = `SELECT string_agg(concat_ws(' ', role, md5(password_hash), md5(totp_secret), totp_confirmed_at), ', ' ORDER BY id) FROM members`
	before := testenv.Value[string](w.Env, state)
	for _, c := range [][2]string{
		{"/auth/totp/confirm", fmt.Sprintf(`{"code":%q}`, w.totp(set.Secret))},
		{"/auth/totp", fmt.Sprintf(`{"password":%q}`, password)},
		{"/auth/password", fmt.Sprintf(`{"oldPassword":%q,"newPassword":"another horse"}`, password)},
		{"/auth/members/" + financeID.String() + "/hand-over", fmt.Sprintf(`{"password":%q}`, password)},
	} {
		left := owner
		left.cookie = w.login(owner.email)
		tx, err := w.Pool.Begin(context.Background())
		require.NoError(t, err)
		_, err = tx.Exec(context.Background(), `SELECT FROM tenants FOR NO KEY UPDATE`)
		require.NoError(t, err)
		got := w.asked("POST", c[0], c[1], left.withSession()...)
		testenv.Eventually(t, 10*time.Second, "the change waits for the lock", func() bool { return w.LockWaits() == 1 })
		w.do("POST", "/auth/logout", "", left.withSession()...).ok(200, nil)
		require.NoError(t, tx.Rollback(context.Background()))
		r := <-got
		r.refused(401, "unauthorized")
		require.Equal(t, before, testenv.Value[string](w.Env, state), c[0])
	}
}
