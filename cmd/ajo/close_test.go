package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// A tenant is closed when nothing of its money is left and the bank has closed its accounts: the
// command goes on where it was stopped, and does nothing to one that is closed.
func TestCloseOfATenant(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	run := func(want string) closing {
		t.Helper()
		_, _, err := o.run("tenant", "close", id, "--yes", "--reason", "the contract has ended", "--json")
		if want != "" {
			require.EqualError(t, err, want)
			return closing{}
		}
		require.NoError(t, err)
		return decode[closing](o, "tenant", "close", id, "--yes", "--reason", "the contract has ended")
	}
	credit := o.confirmed()
	run("the tenant is not empty; accounts with money: 1")
	require.Equal(t, tenant.Active, decode[shownTenant](o, "tenant", "show", id).Status)
	o.Exec(`UPDATE ledger_balances SET total_debits = total_credits WHERE account_id = $1`, o.account)
	o.transfer("pending")
	o.Exec(`INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at) VALUES ($1, $2, $3, 1, 'a dispute', 'open', now())`, credit, o.tenant, o.account)
	o.Exec(`UPDATE ledger_balances SET total_debits = total_credits WHERE account_id = $1`, o.account)
	run("the tenant is not empty; holds: 1, transfers under way: 1")
	o.Exec(`UPDATE holds SET status = 'released', ended_at = now()`)
	o.Exec(`UPDATE transfers SET status = 'failed'`)

	first := run("")
	require.False(t, first.Closed)
	require.EqualValues(t, 1, first.Waiting, "the bank has not closed it")
	require.Equal(t, tenant.Suspended, first.Tenant.Status)
	require.Equal(t, "expired", testenv.Value[string](o.Env, `SELECT status FROM accounts WHERE id = $1`, o.account))
	require.Equal(t, 1, testenv.Value[int](o.Env, `SELECT count(*) FROM work WHERE kind = 'expire' AND id = $1`, o.account))
	o.Exec(`UPDATE accounts SET closed_at = now() WHERE id = $1`, o.account)
	last := run("")
	require.True(t, last.Closed)
	require.Equal(t, tenant.Closed, last.Tenant.Status)
	require.Empty(t, last.Tenant.APIKeySuffix)
	o.lastAudit("tenant.close", "tenant:"+id, "the contract has ended")
	require.Equal(t, 1, testenv.Value[int](o.Env, `SELECT count(*) FROM audit_log WHERE action = 'tenant.close'`))
	require.Contains(t, o.good("tenant", "list", "--status", "closed"), id)
	_, said, err := o.run("tenant", "activate", id, "--reason", "they come back")
	require.ErrorIs(t, err, errUnasked)
	require.Contains(t, said, "closed) again: it has no API key and no open account, and must log in.")
	require.NotContains(t, said, "works again")
}

// What was never opened keeps no tenant from being closed, unless a request is at the bank with it.
func TestCloseOfATenantWithWhatWasNeverOpened(t *testing.T) {
	o := setup(t)
	id := o.unfinished()
	o.Exec(`UPDATE accounts SET status = 'expired', expired_at = now(), closed_at = now() WHERE id = $1`, o.account)
	closeIt := []string{"tenant", "close", o.tenant.String(), "--yes", "--reason", "the contract has ended"}
	o.Exec(`UPDATE accounts SET leased_until = now() + interval '1 hour' WHERE id = $1`, id)
	require.EqualValues(t, 1, decode[closing](o, closeIt...).Waiting, "a request is at the bank with it")
	o.Exec(`UPDATE accounts SET leased_until = NULL WHERE id = $1`, id)
	out, said, err := o.run(closeIt...)
	require.NoError(t, err)
	require.Contains(t, out, "is closed.")
	require.Contains(t, said, "are not closed there; close them with the bank: "+id.String(), "the command has no settings of the bank")
	require.Zero(t, testenv.Value[int](o.Env, `SELECT count(*) FROM accounts WHERE id = $1`, id))
	require.Equal(t, 1, testenv.Value[int](o.Env, `SELECT count(*) FROM audit_log WHERE action = 'accounts.close' AND target = $1`, "account:"+id.String()))
	require.Equal(t, "closed", testenv.Value[string](o.Env, `SELECT status FROM tenants WHERE id = $1`, o.tenant))
}

// What was removed is named although the tenant could not be closed then: nothing names it later.
func TestCloseThatFailsNamesWhatItRemoved(t *testing.T) {
	o := setup(t)
	id := o.unfinished()
	o.Exec(`UPDATE accounts SET status = 'expired', expired_at = now(), closed_at = now() WHERE id = $1`, o.account)
	o.Exec(`ALTER TABLE tenants ADD CONSTRAINT not_now CHECK (status <> 'closed')`)
	_, _, err := o.run("tenant", "close", o.tenant.String(), "--yes", "--reason", "the contract has ended")
	require.ErrorContains(t, err, "not_now")
	require.Zero(t, testenv.Value[int](o.Env, `SELECT count(*) FROM accounts WHERE id = $1`, id))
	require.ErrorContains(t, err, "are not closed there; close them with the bank: "+id.String())
}

// Accounts are dormant by their newest entry or, without one, by their opening; closed ones are not
// listed.
func TestDormantAccounts(t *testing.T) {
	o := setup(t)
	o.Exec(`UPDATE accounts SET created_at = now()`)
	require.Equal(t, "none\n", o.good("accounts", "dormant", "--months", "1"))
	never, closed := o.Account(o.tenant, "never"), o.Account(o.tenant, "closed")
	o.Exec(`UPDATE accounts SET created_at = now() - interval '70 days' WHERE id = ANY(ARRAY[$1, $2]::uuid[])`, never, closed)
	o.Exec(`UPDATE accounts SET closed_at = now() WHERE id = $1`, closed)
	o.Clock.Set(time.Now().AddDate(0, -4, 0))
	o.confirmed()
	items := decode[list[account.Dormant]](o, "accounts", "dormant", "--months", "2").Items
	require.Len(t, items, 2)
	require.Equal(t, never, items[0].ID)
	require.Nil(t, items[0].LastAt)
	require.Equal(t, o.account, items[1].ID)
	require.WithinDuration(t, o.Clock.Now(), *items[1].LastAt, time.Minute)
	require.Len(t, decode[list[account.Dormant]](o, "accounts", "dormant", "--months", "3").Items, 1)
	require.Equal(t, "none\n", o.good("accounts", "dormant", "--months", "5"))
	require.Contains(t, o.good("accounts", "dormant", "--months", "2"), "never")
	_, _, err := o.run("accounts", "dormant", "--months", "0")
	require.EqualError(t, err, "--months must be 1 or more, not 0")
}

// A close that is refused after it has begun says what it has done, as does the next one; the audit
// log has it too. Who activates the tenant then reads that it has no account.
func TestCloseThatStopsHalfWay(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	o.Account(o.tenant, "customer-2")
	o.Exec(`CREATE FUNCTION late_payment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE ledger_balances SET total_credits = total_credits + 1 WHERE account_id = NEW.id; RETURN NULL; END $$`)
	o.Exec(`CREATE TRIGGER late_payment AFTER UPDATE ON accounts FOR EACH ROW WHEN (NEW.status = 'expired' AND NEW.account_ref = 'customer-1') EXECUTE FUNCTION late_payment()`)
	closing := func(reason string) string {
		_, _, err := o.run("tenant", "close", id, "--yes", "--reason", reason)
		require.Error(t, err)
		return err.Error()
	}
	const state = ". The tenant is suspended and has no open account: accounts that have ended do not open again"
	refusal := "the tenant is not empty; accounts with money: 1" + state
	require.Equal(t, refusal, closing("the contract has ended"))
	o.lastAudit("tenant.begin-close", "tenant:"+id, "the contract has ended")
	require.JSONEq(t, `{"Name": "Test tenant", "From": "active", "To": "suspended", "Accounts": 2}`, string(o.audited()[0].Detail))
	require.Contains(t, o.good("freeze", "list", "--status", "standing"), "the contract has ended", "why its payouts are stopped")
	n := len(o.audited())
	require.Equal(t, refusal, closing("again"))
	require.Len(t, o.audited(), n, "the second one changed nothing")
	_, said, err := o.run("tenant", "activate", id, "--reason", "they stay")
	require.ErrorIs(t, err, errUnasked)
	require.Contains(t, said, "must log in again. It has no open account.")
	o.Account(o.tenant, "customer-3")
	_, said, _ = o.run("tenant", "activate", id, "--reason", "they stay")
	require.NotContains(t, said, "no open account")
	require.Equal(t, "the tenant is not empty; accounts with money: 1. The tenant is suspended; accounts that are still open: 1", closing("again"))
}
