package account_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// An account is dormant from the moment on at which its own newest entry, or without one its
// opening, is older than the time asked for, to the microsecond. Accounts of all tenants are listed
// once, whatever page they stand on, with their own tenant's name and balance.
func TestDormantByTheNewestEntry(t *testing.T) {
	t.Parallel()
	b := alone(t)
	other := b.Tenant()
	b.Exec(`UPDATE tenants SET name = 'Other' WHERE id = $1`, other)
	never, paid, hers := b.Account(b.tenant, "never"), b.Account(b.tenant, "paid"), b.Account(other, "hers")
	opened := b.Clock.Now()
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("unfinished"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	b.Exec(`INSERT INTO ledger_balances (account_id, tenant_id) SELECT id, tenant_id FROM accounts WHERE account_ref = 'unfinished'`)
	closed := b.expired("closed")
	b.Credit(closed, "1.00")
	b.Credit(closed, "1.00") // as many as the other one has
	b.Exec(`UPDATE accounts SET closed_at = $2 WHERE id = $1`, closed, opened)
	b.Credit(paid, "10.00")
	b.Clock.Advance(time.Hour)
	b.Credit(paid, "5.00")
	newest := b.Clock.Now()

	list := func(since time.Time) (ids []uuid.UUID) {
		t.Helper()
		after := ""
		for {
			all, info, err := account.ListDormant(b.ctx, b.Pool, since, page.Request{Limit: 1, After: after})
			require.NoError(t, err)
			for _, d := range all {
				ids = append(ids, d.ID)
			}
			if !info.HasMore {
				return ids
			}
			after = *info.NextCursor
		}
	}
	moment := time.Microsecond
	require.Empty(t, list(opened), "opened at that time, and not before")
	require.Equal(t, []uuid.UUID{hers, never}, list(opened.Add(moment)))
	require.Equal(t, []uuid.UUID{hers, never}, list(newest))
	require.Equal(t, []uuid.UUID{hers, paid, never}, list(newest.Add(moment)))
	all, _, err := account.ListDormant(b.ctx, b.Pool, newest.Add(moment), page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"Other 0.00", "Test tenant 15.00", "Test tenant 0.00"},
		[]string{all[0].TenantName + " " + all[0].Balance.String(), all[1].TenantName + " " + all[1].Balance.String(), all[2].TenantName + " " + all[2].Balance.String()})
	require.Equal(t, newest, all[1].LastAt.UTC())
	require.Nil(t, all[2].LastAt)
}

// What operators see of an account names its own tenant and its own balance, and is found by its
// own number or id alone.
func TestRecordsOfAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Tenant()
	mine, hers := b.Account(b.tenant, "mine"), b.Account(other, "hers")
	b.Credit(hers, "10.00")
	for id, want := range map[uuid.UUID]string{mine: b.tenant.String() + "@tenant.example 0.00", hers: other.String() + "@tenant.example 10.00"} {
		r, err := account.ByID(b.ctx, b.Pool, id)
		require.NoError(t, err)
		require.Equal(t, want, r.TenantEmail+" "+r.Balance.String())
		require.Equal(t, id, r.ID)
		found, err := account.ByNumber(b.ctx, b.Pool, testenv.Value[string](b.Env, `SELECT bank_account_number FROM accounts WHERE id = $1`, id))
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, want, found[0].TenantEmail+" "+found[0].Balance.String())
	}
}

// A close of an account at its deadline waits for whoever changes the account, and goes by the
// deadline of then.
func TestADeadlineThatMovesMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.provision(onetime("once")).ID
	deadline := b.Clock.Now().Add(time.Hour)
	b.Exec(`UPDATE accounts SET expires_at = $2 WHERE id = $1`, id, deadline)
	b.Schedule(work.Expire, id, deadline)
	b.Clock.Set(deadline)
	later := deadline.Add(time.Hour)
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE accounts SET expires_at = $2 WHERE id = $1`, id, later)
		return err
	}, func() error { return b.svc.AdvanceExpiry(b.ctx, id) }))
	require.Equal(t, "active", testenv.Value[string](b.Env, `SELECT status FROM accounts WHERE id = $1`, id))
	require.True(t, later.Equal(*b.DueAt(work.Expire, id)))
}
