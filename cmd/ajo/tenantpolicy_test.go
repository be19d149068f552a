package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
)

// The beneficiaries of a tenant are listed.
func TestBeneficiariesCommand(t *testing.T) {
	o := setup(t)
	o.Exec(`INSERT INTO beneficiaries (id, tenant_id, bank_code, bank_name, account_number, account_name, label, exempt, saved_by, saved_at)
		VALUES (gen_random_uuid(), $1, '058', '', '0123456789', 'AMINA BELLO', 'Landlord', true, 'session:ada@shop.example', now())`, o.tenant)
	out, _, err := o.run("tenant", "beneficiaries", o.tenant.String())
	require.NoError(t, err)
	require.Regexp(t, "Landlord +058 +0123456789 +AMINA BELLO +yes .* session:ada@shop.example", out)
}

// The policy of payouts is set and shown: what is not named stays, and what makes no sense is
// refused before anything is asked.
func TestPolicyCommands(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	out, said, err := o.run("tenant", "policy", "set", id, "--approvals", "2", "--above", "500", "--yes", "--reason", "ticket 1")
	require.NoError(t, err, said)
	require.Contains(t, out, "approvals needed: 2, for each payout above 500.00, and for each that brings the day's total above none. Warning: payouts that need approval will fail")
	o.lastAudit("tenant.policy", "tenant:"+id, "ticket 1")
	set := decode[policyShown](o, "tenant", "policy", "set", id, "--day-above", "9000.50", "--yes", "--reason", "ticket 2")
	want := tenant.PayoutPolicy{Approvals: 2, Threshold: new(money.Must("500.00")), DayThreshold: new(money.Must("9000.50"))}
	require.Equal(t, want, set.Policy.PayoutPolicy)
	require.Equal(t, new("payouts that need approval will fail: approvals is 2, and members who may approve: 1"), set.Policy.Warning)
	require.Equal(t, set.Policy, decode[policyShown](o, "tenant", "policy", "show", id).Policy)
	out, _, err = o.run("tenant", "policy", "show", id)
	require.NoError(t, err)
	require.Regexp(t, "members who may approve +1\nwarning +payouts that need approval will fail", out)
	out, _, err = o.run("tenant", "policy", "set", id, "--wait-hours", "24", "--yes", "--reason", "ticket 4")
	require.NoError(t, err)
	require.Contains(t, out, "those above 500.00 may go only to beneficiaries that were saved at least 24 hours ago")
	require.Equal(t, 24, decode[policyShown](o, "tenant", "policy", "show", id).Policy.WaitHours)
	for _, bad := range [][]string{{"--wait-hours", "721"}, {"--above", "none"}, {"--approvals", "11"}, {"--above", "-1"}, {"--above", "lots"}, {"--above", "none", "--day-above", "none"}, {"--approvals", "0", "--above", "1"}} {
		_, _, err := o.run(append(append([]string{"tenant", "policy", "set", id}, bad...), "--yes", "--reason", "x")...)
		require.Error(t, err, bad)
	}
	o.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, created_at, updated_at, approvals_needed, debit_seq, debits_to)
		VALUES (gen_random_uuid(), $1, $2, 'ref', 'pending', 600, '058', '0123456789', '', now(), now(), 2, 1, 600)`, o.tenant, o.Account(o.tenant, "till"))
	out, _, err = o.run("tenant", "show", id)
	require.NoError(t, err)
	require.Regexp(t, "payouts awaiting approval +1, NGN 600.00 in all", out)
	out, _, err = o.run("tenant", "policy", "set", id, "--approvals", "0", "--yes", "--reason", "ticket 3")
	require.NoError(t, err)
	require.Contains(t, out, "no payout needs approval")
	require.Equal(t, tenant.StandingPolicy{Approvers: 1}, decode[policyShown](o, "tenant", "policy", "show", id).Policy)
}

// late is a person at a terminal who agrees after something else has happened.
type late struct {
	terminal
	before func()
}

func (l *late) Read(p []byte) (int, error) {
	if do := l.before; do != nil {
		l.before = nil
		do()
	}
	return l.terminal.Read(p)
}

// agree runs a command that asks, for a person who agrees after something else has happened.
func (o *ops) agree(before func(), args ...string) error {
	o.T.Helper()
	_, said, err := o.runWith(&late{types("y\n"), before}, append(args, "--reason", "ticket 1")...)
	require.Contains(o.T, said, "Proceed?")
	return err
}

// What was read before a person was asked is not written over what others have set since.
func TestAskedBeforeSomebodyElse(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	policy, limits := []string{"tenant", "policy", "set", id}, []string{"tenant", "limits", "set", id}
	err := o.agree(func() {
		o.good(append(policy, "--approvals", "2", "--above", "500", "--yes", "--reason", "ticket 2")...)
	}, append(policy, "--wait-hours", "0")...)
	require.ErrorIs(t, err, errChanged)
	require.Equal(t, 2, decode[policyShown](o, "tenant", "policy", "show", id).Policy.Approvals)
	hooked := func() {
		o.Exec(`UPDATE tenants SET approval_hook = 'https://shop.example/hook?token=a', webhook_secret = '\x00' WHERE id = $1`, o.tenant)
	}
	require.ErrorIs(t, o.agree(hooked, append(policy, "--day-above", "9000")...), errChanged)
	require.NoError(t, o.agree(nil, append(policy, "--day-above", "9000")...))
	p := decode[policyShown](o, "tenant", "policy", "show", id).Policy
	require.Equal(t, new("https://shop.example/hook?token=a"), p.Hook)
	require.Contains(t, o.says(append(policy, "--day-above", "8000")...), "; its hook https://shop.example/hook?… counts as one of those who approve.")
	require.Contains(t, o.says(append(policy, "--approvals", "0")...), ": no payout needs approval; its hook https://shop.example/hook?… is removed.")
	require.Equal(t, new(money.Must("9000.00")), p.DayThreshold)

	err = o.agree(func() { o.good(append(limits, "--max-tenant-day", "2000.50", "--yes", "--reason", "ticket 3")...) }, append(limits, "--max-transfer", "500")...)
	require.ErrorIs(t, err, errChanged)
	require.Len(t, decode[limitsShown](o, "tenant", "limits", "show", id).Sets, 1)
	require.NoError(t, o.agree(nil, append(limits, "--max-transfer", "500")...))
	set := decode[limitsShown](o, "tenant", "limits", "show", id).Standing.Payouts
	require.Equal(t, "500.00 2000.50", set.MaxTransfer.String()+" "+set.MaxTenantDay.String())
}

// The times in a sentence are part of it: by another of the last minutes, a secret is meant that
// nobody was shown, or a recall that was opened since.
func TestAskedBeforeAnotherTime(t *testing.T) {
	o := setup(t)
	rotate := []string{"tenant", "rotate-secret", o.tenant.String()}
	for range 2 {
		o.good(append(rotate, "--yes", "--reason", "it leaked")...)
	}
	o.Exec(`UPDATE tenants SET webhook_secret_previous_until = webhook_secret_previous_until - interval '3 minutes' WHERE id = $1`, o.tenant)
	err := o.agree(func() { o.good(append(rotate, "--yes", "--reason", "it leaked again")...) }, rotate...)
	require.ErrorIs(t, err, errChanged, "the secret that was just made would stop")

	// two rotations of one second
	at := func(part string) {
		o.Exec(`UPDATE tenants SET webhook_secret_previous_until = date_trunc('second', webhook_secret_previous_until) + $2::interval WHERE id = $1`, o.tenant, part)
	}
	until := testenv.Value[time.Time](o.Env, `SELECT webhook_secret_previous_until FROM tenants WHERE id = $1`, o.tenant)
	at("100 ms")
	err = o.agree(func() {
		o.good(append(rotate, "--yes", "--reason", "it leaked again")...)
		o.Exec(`UPDATE tenants SET webhook_secret_previous_until = $2 WHERE id = $1`, o.tenant, until)
		at("600 ms")
	}, rotate...)
	require.ErrorIs(t, err, errChanged, "by the same second")

	event := o.recalled().String()
	o.Exec(`UPDATE recalls SET opened_at = now() - interval '3 minutes'`)
	err = o.agree(func() {
		o.good("recalls", "keep", event, "--yes", "--reason", "the money is there")
		o.good("recalls", "open", event, "--yes", "--reason", "the bank's letter")
	}, "recalls", "keep", event)
	require.ErrorIs(t, err, errChanged)
	require.Equal(t, "open", testenv.Value[string](o.Env, `SELECT status FROM recalls`))
}

// What decides nothing is done also when its time has moved while somebody read it.
func TestAskedBeforeWorkMoved(t *testing.T) {
	o := setup(t)
	ref, id := o.transfer("processing")
	later := func() { o.Exec(`UPDATE work SET due_at = now() + interval '1 hour' WHERE id = $1`, id) }
	require.NoError(t, o.agree(later, "transfers", "poll", ref))
	require.NoError(t, o.agree(later, "work", "retry", id.String()))
}

// Money is stopped although the balance that the question names has moved meanwhile.
func TestFreezeOfABalanceThatMoves(t *testing.T) {
	o := setup(t)
	account := o.Account(o.tenant, "shop-1")
	_, said, err := o.runWith(&late{types("y\n"), func() {
		o.ExecUnguarded(`UPDATE ledger_balances SET total_credits = 100 WHERE account_id = $1`, account)
	}}, "freeze", "account", account.String(), "--reason", "ticket 1")
	require.NoError(t, err)
	require.Contains(t, said, "balance NGN 0.00")
	require.Equal(t, 1, testenv.Value[int](o.Env, `SELECT count(*) FROM freezes WHERE subject = $1`, account))
}
