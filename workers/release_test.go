package workers

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/customer"
	"ajo/internal/money"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A release that fails each time shows in the metric of tidying, which has an alert.
func TestReleaseThatFailsIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE customers SET release_account = $2, release_entry = $2 WHERE id = (SELECT customer_id FROM accounts WHERE id = $1)`, b.account.ID, uuid.Nil)
	b.Exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file'; END $$`)
	b.Exec(`CREATE TRIGGER fail BEFORE UPDATE ON customers FOR EACH STATEMENT EXECUTE FUNCTION fail()`)
	o := b.opts
	o.Partition, o.Customers = partition.Month, customer.New(customer.Options{Pool: b.Pool, Clock: clock.System})
	at := time.Now().Add(78 * time.Minute) // nobody else's
	o.Clock = clock.NewFake(at)
	w := &Workers{Options: o}
	w.tidyOnce(b.ctx, time.Minute, time.Minute)
	require.NotEqual(t, at.Unix(), tidied(t))
	b.Exec(`DROP TRIGGER fail ON customers`)
	testenv.Eventually(t, time.Minute, "a success", func() bool {
		w.tidyOnce(b.ctx, time.Minute, time.Minute)
		return tidied(t) == at.Unix()
	})
}

// A worker releases what the change of a customer's tier has left, also where whoever made the
// change has died since.
func TestWorkersReleaseTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, created_at, actor, reason) VALUES ($1, 1, $2, 20, $2, 'cli:ada', 'the law')`, b.tenant, time.Now())
	group := uuid.Must(uuid.NewV7())
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, time.Now(), []ledger.Posting{{
			AccountID: b.account.ID, Amount: money.Must("50.00"), TransactionGroupID: group, ProviderTxnRef: group.String(), Tiered: true,
		}})
		return err
	}))
	held := func() string {
		return testenv.Value[money.Amount](b.Env, `SELECT held FROM ledger_balances WHERE account_id = $1`, b.account.ID).String()
	}
	require.Equal(t, "30.00", held())
	b.Exec(`UPDATE customers SET kyc_tier = 2, release_account = $2, release_entry = $2 WHERE id = (SELECT customer_id FROM accounts WHERE id = $1)`, b.account.ID, uuid.Nil)
	b.opts.Customers = customer.New(customer.Options{Pool: b.Pool, Clock: clock.System})
	b.start()
	testenv.Eventually(t, 10*time.Second, "the release", func() bool { return held() == "0.00" })
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}
