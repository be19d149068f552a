package customer

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// Every way to a higher tier releases what that tier allows, with the change of the tier and once:
// by two at once, one. What waits for the money goes on at once.
func TestAHigherTierReleases(t *testing.T) {
	for name, upgrade := range map[string]func(b *bundle, id uuid.UUID) error{
		"NIN": func(b *bundle, id uuid.UUID) error {
			_, err := b.submit(id, nin)
			return err
		},
		"review": func(b *bundle, id uuid.UUID) error {
			_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
			return err
		},
		"operator": func(b *bundle, id uuid.UUID) error {
			shown, err := b.Show(b.ctx, id)
			require.NoError(b.T, err)
			_, err = b.DecideByHand(b.ctx, shown, KYCApprove, audit.By{Actor: "cli:ada", Reason: "a ticket"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			account := b.Account(b.tenant, "shop")
			id := testenv.Value[uuid.UUID](b.Env, `UPDATE customers SET name = $2 WHERE id = (SELECT customer_id FROM accounts WHERE id = $1) RETURNING id`, account, holder)
			if name != "NIN" {
				b.Exec(`UPDATE customers SET kyc_status = 'pending_review' WHERE id = $1`, id)
			}
			b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason)
				VALUES ($1, 1, $2, 50, $2, 'cli:ada', 'the law'), ($1, 2, $2, 70, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
			b.Clock.Advance(time.Second)
			group := uuid.Must(uuid.NewV7())
			b.Post(ledger.Posting{AccountID: account, Amount: money.Must("80.00"), TransactionGroupID: group, ProviderTxnRef: group.String(), Tiered: true})
			held := func() string {
				return testenv.Value[money.Amount](b.Env, `SELECT held FROM ledger_balances WHERE account_id = $1`, account).String()
			}
			require.Equal(t, "30.00", held())
			var all sync.WaitGroup
			errs := make([]error, 2)
			for i := range errs {
				all.Go(func() { errs[i] = upgrade(b, id) })
			}
			all.Wait()
			require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v", errs)
			require.Equal(t, 2, b.get(id).KYCTier)
			require.Equal(t, "10.00", held())
			{
				_, changed, err := b.SetTier(b.ctx, id, 3, audit.By{Actor: "cli:ada", Reason: "a ticket"})
				require.NoError(t, err)
				require.True(t, changed)
				require.Equal(t, "0.00", held())
			}
			require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM holds WHERE status = 'released'`))
			testenv.FindsNothing(t, b.Pool, ledger.Verify)
		})
	}
}

// tiered has b release four holds at a time, gives customers of tier 1 no room for payments and
// those of tier 2 any, and pays ten times 10.00 to two accounts of a customer.
func (b *bundle) tiered() (customer uuid.UUID) {
	b.T.Helper()
	b.slice = 4
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason)
		VALUES ($1, 1, $2, 0, $2, 'cli:ada', 'the law'), ($1, 2, $2, NULL, $2, 'cli:ada', 'the law')`, b.tenant, b.Clock.Now())
	shop, order := b.Account(b.tenant, "shop"), b.Account(b.tenant, "order")
	customer = testenv.Value[uuid.UUID](b.Env, `UPDATE customers SET kyc_status = 'pending_review' WHERE id = (SELECT customer_id FROM accounts WHERE id = $1) RETURNING id`, shop)
	b.ExecUnguarded(`UPDATE accounts SET customer_id = $2 WHERE id = $1`, order, customer)
	var payments []ledger.Posting
	for i := range 10 {
		group := uuid.Must(uuid.NewV7())
		payments = append(payments, ledger.Posting{
			AccountID: []uuid.UUID{shop, order}[i%2], Amount: money.Must("10.00"), TransactionGroupID: group, ProviderTxnRef: group.String(), Tiered: true,
		})
	}
	b.Post(payments...)
	return customer
}

// heldIs checks what limits hold, and what of the payments counts as allowed.
func (b *bundle) heldIs(want, allowed string) {
	b.T.Helper()
	require.Equal(b.T, want+" "+allowed, testenv.Value[string](b.Env, `
		SELECT (SELECT sum(held) FROM ledger_balances) || ' ' || (SELECT coalesce(sum(allowed), 0.00) FROM deposit_days)`))
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
}

// A change of the tier releases so much with it, and leaves the rest to others. What a process that
// dies between two transactions leaves is released by the next, and by several at once no hold
// twice.
func TestATierReleasesTheRestLater(t *testing.T) {
	b := setup(t)
	id := b.tiered()
	b.heldIs("100.00", "0.00")
	_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
	require.NoError(t, err)
	b.heldIs("60.00", "40.00")

	ctx, dies := context.WithCancel(b.ctx)
	pool, _ := b.BeforeTheSecond("SELECT release_account", dies)
	dying := New(b.Options)
	dying.Pool, dying.slice = pool, b.slice
	require.ErrorIs(t, dying.ReleaseRest(ctx), context.Canceled)
	b.heldIs("20.00", "80.00")

	testenv.AtOnce(3, func(int) {
		another := New(b.Options)
		another.slice = 1
		if err := another.ReleaseRest(b.ctx); err != nil {
			t.Error(err)
		}
	})
	b.heldIs("0.00", "100.00")
	require.Equal(t, 10, testenv.Value[int](b.Env, `SELECT count(*) FROM holds WHERE status = 'released'`))
	require.NoError(t, b.ReleaseRest(b.ctx))
}

// What is left when a tier is taken back stays held.
func TestATierThatIsTakenBackReleasesNoMore(t *testing.T) {
	b := setup(t)
	id := b.tiered()
	_, err := b.Decide(b.ctx, Reviewer{TenantID: b.tenant, By: bySession}, id, KYCApprove)
	require.NoError(t, err)
	b.heldIs("60.00", "40.00")
	_, _, err = b.SetTier(b.ctx, id, 1, audit.By{Actor: "cli:ada", Reason: "a ticket"})
	require.NoError(t, err)
	require.NoError(t, b.ReleaseRest(b.ctx))
	b.heldIs("60.00", "40.00")
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM customers WHERE release_account IS NOT NULL`))
}
