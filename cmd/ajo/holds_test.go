package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/ledger"
)

func TestHoldsCommand(t *testing.T) {
	o := setup(t)
	require.Equal(t, "none\n", o.good("accounts", "holds"))
	require.Contains(t, o.good("accounts", "holds", "--summary"), "all")
	ofLimit := o.holdOfLimit()
	own, gone := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	const place = `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, until)
		VALUES ($1, $2, $3, 2.50, 'a dispute', 'open', now() - interval '100 hours', now() + $4::interval)`
	o.Exec(place, own, o.tenant, o.account, "1 hour")
	o.Exec(place, gone, o.tenant, o.account, "-1 hour")
	items := func(args ...string) (ids []uuid.UUID) {
		t.Helper()
		for _, h := range decode[list[ledger.AnyHold]](o, append([]string{"accounts", "holds"}, args...)...).Items {
			require.Equal(t, "Test tenant", h.TenantName)
			ids = append(ids, h.ID)
		}
		return ids
	}
	require.ElementsMatch(t, []uuid.UUID{ofLimit, own}, items(), "not what has ended by itself")
	require.Equal(t, []uuid.UUID{ofLimit}, items("--source", "limit"))
	require.Equal(t, []uuid.UUID{own}, items("--older", "72h"))
	require.Empty(t, items("--source", "policy", "--tenant", o.tenant.String()))
	require.Len(t, items("--tenant", o.tenant.String()), 2)
	require.Contains(t, o.good("accounts", "holds"), "a dispute")
	all := decode[heldInAll](o, "accounts", "holds", "--summary")
	require.Equal(t, []any{int64(2), "3.50", 2}, []any{all.Count, all.Total.String(), len(all.Items)})
	table := o.good("accounts", "holds", "--summary", "--source", "limit")
	for _, want := range []string{"Test tenant", "limit", "1.00", "all"} {
		require.Contains(t, table, want)
	}
	require.NotContains(t, table, "2.50")
	_, _, err := o.run("accounts", "holds", "--older", "-1h")
	require.EqualError(t, err, "--older must be zero or more, such as 72h, not -1h0m0s")
	_, _, err = o.run("accounts", "holds", "--tenant", "nobody@shop.example")
	require.ErrorContains(t, err, "tenant not found")
}
