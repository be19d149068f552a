package account_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/testenv"
)

// What is known of an account that is to pay is its own tenant's: limits, prices, who bears the fee
// and whether payouts need approvals; and a freeze that refuses requests is of the account itself,
// while it stands.
func TestWhatIsKnownOfPayers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Tenant()
	own, hers := b.Account(b.tenant, "shop"), b.Account(other, "shop")
	refs := []account.Ref{{TenantID: b.tenant, AccountRef: "shop"}, {TenantID: other, ID: hers}, {TenantID: b.tenant, ID: hers}, {TenantID: b.tenant, AccountRef: "nobody"}}
	known := func() (of [2][5]bool) {
		t.Helper()
		all, err := account.FindPayers(b.ctx, b.Pool, b.Clock.Now(), refs)
		require.NoError(t, err)
		require.Nil(t, all[2].Account, "another tenant's")
		require.Nil(t, all[3].Account)
		for i, id := range []uuid.UUID{own, hers} {
			require.Equal(t, id, all[i].ID)
			of[i] = [5]bool{all[i].Frozen, all[i].Limited, all[i].BearsFee, all[i].Approvals, all[i].Priced}
		}
		return of
	}
	now := b.Clock.Now()
	require.Equal(t, [2][5]bool{}, known())
	b.Exec(`INSERT INTO payout_limits (tenant_id, starts_at, created_at, actor, reason) VALUES ($1, $2, $2, 'x', 'x')`, other, now)
	require.Equal(t, [2][5]bool{{}, {false, true}}, known())
	b.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, other)
	require.Equal(t, [2][5]bool{{}, {false, true, true}}, known())
	b.Exec(`UPDATE tenants SET payout_approvals = 1, approve_above = 1 WHERE id = $1`, other)
	require.Equal(t, [2][5]bool{{}, {false, true, true, true}}, known())
	b.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		VALUES (gen_random_uuid(), $1, 'payout', 0, 1, 0, $2, $2::timestamptz - interval '1 hour', 'x', 'x')`, other, now)
	require.Equal(t, [2][5]bool{{}, {false, true, true, true, true}}, known())
	b.Exec(`INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at, until) VALUES (gen_random_uuid(), 'account', $1, $2, true, 'x', 'x', $3, $4)`,
		own, b.tenant, now, now.Add(time.Hour))
	b.Exec(`INSERT INTO freezes (id, scope, subject, tenant_id, requests, reason, actor, created_at) VALUES (gen_random_uuid(), 'account', $1, $2, false, 'x', 'x', $3)`,
		hers, other, now)
	require.Equal(t, [2][5]bool{{true}, {false, true, true, true, true}}, known())
	b.Clock.Set(now.Add(time.Hour))
	require.Equal(t, [2][5]bool{{}, {false, true, true, true, true}}, known())
}

// Which account a reference names does not go by the clocks of the machines that opened them: of
// two of one-time, the newer one. Not parallel, as all ids of a process are made one after the
// other.
func TestTheNewerAccountOfTwoMachines(t *testing.T) {
	b := setup(t)
	testenv.MachineAhead(t, 10*time.Minute)
	first := b.provision(onetime("shop"))
	second := clock.NewID() // of a machine whose clock is right
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, created_at, updated_at)
		SELECT $2, tenant_id, customer_id, account_ref, provider, '3000000001', bank_account_name, status, type, $3, $3 FROM accounts WHERE id = $1`,
		first.ID, second, b.Clock.Now())
	named, err := b.svc.Get(b.ctx, b.tenant, "shop")
	require.NoError(t, err)
	require.Equal(t, second, named.ID)
	named, err = b.svc.OfCustomer(b.ctx, b.tenant, first.CustomerID)
	require.NoError(t, err)
	require.Equal(t, second, named.ID)
}
