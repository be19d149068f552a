package customer

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/money"
	"ajo/internal/pg"
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
			require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
				_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{{
					AccountID: account, Amount: money.Must("80.00"), TransactionGroupID: group, ProviderTxnRef: group.String(), Tiered: true,
				}})
				return err
			}))
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
