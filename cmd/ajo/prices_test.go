package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fee"
	"ajo/internal/tenant"
)

func TestPricesCommands(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	require.Contains(t, o.good("prices", "list"), "none")
	for _, whole := range []string{"prices", "archive"} { // what lists all at once does not take a limit and ignore it
		_, _, err := o.run(whole, "list", "--limit", "1")
		require.ErrorContains(t, err, "unknown flag: --limit", whole)
	}
	out, said, err := o.run("prices", "set", "--on", "payment", "--percent", "0.5", "--minimum", "5", "--cap", "1000", "--from", "2999-01-31", "--yes", "--reason", "list 7")
	require.NoError(t, err)
	require.Contains(t, said, "Charge 0.5 %, plus 0.00, at least 5.00, at most 1000.00 on each payment of all tenants without a price of their own, from 2999-01-30T23:00:00Z on.")
	require.Contains(t, out, "From 2999-01-30T23:00:00Z on: 0.5 %")
	o.lastAudit("prices.set", "prices", "list 7")
	set := decode[fee.Price](o, "prices", "set", "--on", "payout", "--flat", "10", "--tenant", id, "--yes", "--reason", "contract 12")
	require.Equal(t, o.tenant, set.TenantID)
	require.Equal(t, fee.Lead, set.ValidFrom.Sub(set.CreatedAt))
	o.lastAudit("prices.set", "tenant:"+id, "contract 12")
	require.Contains(t, o.good("tenant", "show", id), "price of a payout")
	out, said, err = o.run("prices", "set", "--on", "payout", "--as-listed", "--tenant", id, "--from", "2999-01-31", "--yes", "--reason", "contract 12 has ended")
	require.NoError(t, err)
	require.Contains(t, said, "Charge the list price for each payout of tenant ")
	require.Contains(t, said, "from 2999-01-30T23:00:00Z on: the tenant's own price ends.")
	require.Contains(t, out, "From 2999-01-30T23:00:00Z on: the list price for each payout of tenant ")
	o.lastAudit("prices.set", "tenant:"+id, "contract 12 has ended")
	o.Exec(`ALTER TABLE prices DISABLE TRIGGER USER`) // the price has started
	o.Exec(`UPDATE prices SET created_at = created_at - interval '1 hour', valid_from = valid_from - interval '1 hour' WHERE charged_on = 'payout' AND NOT as_listed`)
	require.Contains(t, o.good("tenant", "show", id), "0 %, plus 10.00, at least 0.00, at most none, with 0 % of VAT (its own, since ")
	o.good("prices", "set", "--on", "vat", "--percent", "7.5", "--yes", "--reason", "the law")
	table := o.good("prices", "list", "--tenant", id)
	for _, want := range []string{"all", id, "payout", "0 %, plus 10.00, at least 0.00, at most none", "7.5 %", "contract 12"} {
		require.Contains(t, table, want)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--percent", "1"}, fee.ErrOn.Error()},
		{[]string{"--on", "payment", "--percent", "101"}, `--percent must be from 0 to 100 with at most four decimals, such as 0.5, not "101"`},
		{[]string{"--on", "payment", "--flat", "much"}, `--flat must be a sum of naira, such as 1250.50, not "much"`},
		{[]string{"--on", "payment", "--cap", "much"}, `--cap must be a sum of naira, such as 1250.50, or "none", not "much"`},
		{[]string{"--on", "payment", "--minimum", "2", "--cap", "1"}, fee.ErrCap.Error()},
		{[]string{"--on", "payment", "--from", "2999-01-31"}, fee.ErrFrom.Error()},
		{[]string{"--on", "payment", "--from", "2020-01-31"}, fee.ErrFrom.Error()},
		{[]string{"--on", "vat", "--tenant", id}, fee.ErrOnlyOf.Error()},
		{[]string{"--on", "payout", "--as-listed"}, fee.ErrListed.Error()},
		{[]string{"--on", "payout", "--as-listed", "--tenant", id, "--percent", "1"}, fee.ErrListed.Error()},
		{[]string{"--on", "payment", "--tenant", "nobody@shop.example"}, tenant.ErrNotFound.Error()},
	} {
		_, _, err := o.run(append(append([]string{"prices", "set"}, c.args...), "--yes", "--reason", "again")...)
		require.EqualError(t, err, c.want)
	}
	o.booksAgree()
}

// Who sets a price reads until when it holds, and that one of a coming day cannot be taken back.
func TestPricesSayWhatComesNext(t *testing.T) {
	o := setup(t)
	id := o.tenant.String()
	says := func(args ...string) string {
		_, said, err := o.run(append(append([]string{"prices", "set", "--on", "payout", "--flat", "10"}, args...), "--reason", "list 7")...)
		require.ErrorIs(t, err, errUnasked)
		return said
	}
	const next = " The one that starts at 2999-01-30T23:00:00Z takes over then."
	const final = "This price cannot be taken back or replaced: only one that starts later ends it."
	require.NotContains(t, says(), "takes over")
	require.NotContains(t, says(), final)
	require.Contains(t, says("--from", "2999-01-31"), "from 2999-01-30T23:00:00Z on. "+final)
	o.good("prices", "set", "--on", "payout", "--flat", "20", "--from", "2999-01-31", "--yes", "--reason", "list 8")
	o.good("prices", "set", "--on", "payout", "--flat", "30", "--from", "2999-03-31", "--yes", "--reason", "list 9")
	require.Contains(t, says(), "from a minute from now on."+next)
	require.Contains(t, says("--from", "2999-01-01"), "from 2998-12-31T23:00:00Z on."+next+" "+final)
	require.NotContains(t, says("--from", "2999-04-01"), "takes over")
	require.NotContains(t, says("--tenant", id), "takes over", "the list's is not the tenant's")
	_, said, _ := o.run("prices", "set", "--on", "payment", "--flat", "10", "--reason", "list 7")
	require.NotContains(t, said, "takes over")
	o.good("prices", "set", "--on", "payout", "--flat", "5", "--from", "2999-01-31", "--tenant", id, "--yes", "--reason", "contract 12")
	require.Contains(t, says("--tenant", id), next)
}
