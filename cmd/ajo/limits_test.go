package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/limit"
	"ajo/internal/tenant"
)

func TestLimitsCommands(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	require.Contains(t, o.good("tenant", "limits", "show", id), "payouts today")
	require.Regexp(t, `left today +no limit`, o.good("tenant", "limits", "show", id), "not \"none\", which would be nothing")
	require.Regexp(t, `payouts today +not counted`, o.good("tenant", "limits", "show", id), "0.00 would mean that nothing was paid out")
	require.False(t, decode[limitsShown](o, "tenant", "limits", "show", id).Counted)
	for days, counts := range map[string]bool{"NULL": false, "1000": true} {
		o.Exec(`UPDATE tenants SET payout_approvals = 1, approve_above = 1, approve_day_above = `+days+` WHERE id = $1`, id)
		require.Equal(t, counts, decode[limitsShown](o, "tenant", "limits", "show", id).Counted, "approvals above a day's sum count the day: "+days)
	}
	o.Exec(`UPDATE tenants SET payout_approvals = 0, approve_above = NULL, approve_day_above = NULL WHERE id = $1`, id)
	out, said, err := o.run("tenant", "limits", "set", id, "--max-transfer", "500", "--max-tenant-day", "2000.50", "--yes", "--reason", "contract 12")
	require.NoError(t, err)
	require.Contains(t, said, "from now on: per settlement 500.00, per account and day none, per day in all 2000.50.")
	require.Contains(t, out, "The limits of tenant")
	o.lastAudit("tenant.limits", "tenant:"+id, "contract 12")
	set := decode[limit.Set](o, "tenant", "limits", "set", id, "--max-transfer", "none", "--max-account-day", "700", "--from", "2999-01-31", "--yes", "--reason", "contract 13")
	require.Nil(t, set.MaxTransfer)
	require.Equal(t, "700.00 2000.50", set.MaxAccountDay.String()+" "+set.MaxTenantDay.String(), "what is not named stays")
	shown := decode[limitsShown](o, "tenant", "limits", "show", id)
	require.Len(t, shown.Sets, 2)
	require.True(t, shown.Counted)
	require.Regexp(t, `payouts today +0\.00`, o.good("tenant", "limits", "show", id))
	require.Equal(t, "2000.50", shown.Standing.Payouts.Left.String())
	table := o.good("tenant", "limits", "show", id)
	for _, want := range []string{"left today", "payouts", "transfer 500.00, account and day none, day 2000.50", "2999-01-30T23:00:00Z", "contract 12", "none"} {
		require.Contains(t, table, want)
	}
	early := decode[limit.Set](o, "tenant", "limits", "set", id, "--max-transfer", "100", "--yes", "--reason", "a stolen key")
	require.Equal(t, "100.00 2000.50", early.MaxTransfer.String()+" "+early.MaxTenantDay.String())
	require.Nil(t, early.MaxAccountDay, "what is not named stays as it is now")
	_, said, err = o.run("tenant", "limits", "set", id, "--max-transfer", "90", "--yes", "--reason", "a stolen key")
	require.NoError(t, err)
	require.Contains(t, said, "Those that start at 2999-01-30T23:00:00Z take over then.")
	out, said, err = o.run("tenant", "limits", "tier", id, "--tier", "1", "--max-deposit", "50000", "--yes", "--reason", "the law")
	require.NoError(t, err)
	require.Contains(t, said, "of tier 1 of tenant")
	require.Contains(t, out, "per payment 50000.00, per account and day none, of the balance none.")
	o.lastAudit("tenant.limits", "tenant:"+id, "the law")
	require.Contains(t, o.good("tenant", "limits", "show", id), "deposit 50000.00, day none, balance none")
	_, _, err = o.run("tenant", "limits", "tier", id, "--tier", "4", "--yes", "--reason", "the law")
	require.EqualError(t, err, limit.ErrTier.Error())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{id, "--max-transfer", "much"}, `--max-transfer must be a sum of naira, such as 1250.50, or "none", not "much"`},
		{[]string{id, "--from", "soon"}, `--from must be a day in Lagos, such as 2026-10-31, not "soon"`},
		{[]string{id, "--from", "2999-01-31"}, limit.ErrStarts.Error()},
		{[]string{"nobody@shop.example"}, tenant.ErrNotFound.Error()},
	} {
		_, _, err := o.run(append(append([]string{"tenant", "limits", "set"}, c.args...), "--yes", "--reason", "again")...)
		require.EqualError(t, err, c.want)
	}
	o.booksAgree()
}
