package payment_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// Payment, deadline and expire call at once, a thousand times. Whoever is first, the account ends
// expired with one such entry in its history, and the payment is in the ledger exactly when its
// event is a payment. Every other time the bank's clock is a second ahead and there is no deadline
// yet: then a payment that comes after the call is misdirected.
func TestPaymentDeadlineAndExpireAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	accounts := account.New(account.Options{Pool: b.Pool, Bank: b.client(), Clock: b.Clock})
	now := b.Clock.Now()
	const rounds, side = 200, 20
	ids, events := b.oneTimeAccounts(rounds, now), make([]uuid.UUID, rounds)
	for from := 0; from < rounds; from += side {
		var received, wg sync.WaitGroup
		for i := from; i < from+side; i++ {
			occurred := now.Add(time.Duration(i%2) * time.Second)
			event := b.event(func(e *fakebank.Event) {
				e.Data.Transaction.AliasReference, e.Data.Transaction.Time = ids[i].String(), occurred.Format(time.RFC3339)
			})
			received.Go(func() {
				r, err := b.svc.Receive(b.ctx, event)
				if err != nil {
					t.Error(err)
				}
				events[i] = r.ID
			})
		}
		received.Wait()
		for i := from; i < from+side; i++ {
			id, event := ids[i], events[i]
			start := make(chan struct{})
			for _, do := range []func() error{
				func() error { _, err := b.svc.Post(b.ctx, event); return err },
				func() error {
					_, err := accounts.Expire(b.ctx, b.tenant, id.String(), account.Ending{Reason: "called"}, idempotency.Request{})
					if errors.Is(err, account.ErrNotActive) {
						return nil
					}
					return err
				},
				func() error { return accounts.AdvanceExpiry(b.ctx, id) },
			} {
				wg.Go(func() {
					<-start
					if err := do(); err != nil {
						if _, later := retry.When(err); !later {
							t.Error(err)
						}
					}
				})
			}
			close(start)
		}
		wg.Wait()
	}
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE type = 'onetime' AND (status <> 'expired' OR expired_at > $1)`, now))
	require.Equal(t, rounds, testenv.Value[int](b.Env, `SELECT count(*) FROM account_history WHERE to_status = 'expired'`))
	require.Equal(t, rounds, testenv.Value[int](b.Env, `SELECT count(DISTINCT account_id) FROM account_history WHERE to_status = 'expired'`))
	require.Zero(t, testenv.Value[int](b.Env, `
		SELECT count(*) FROM inbound_events e LEFT JOIN ledger_entries l ON l.transaction_group_id = e.id
		WHERE (e.category = 'payment') <> (l.id IS NOT NULL) OR e.category NOT IN ('payment', 'misdirected')`))
	require.Zero(t, testenv.Value[int](b.Env, `
		SELECT count(*) FROM inbound_events e JOIN account_history h ON h.account_id::text = e.alias AND h.to_status = 'expired'
		WHERE (e.category = 'misdirected') <> (e.occurred_at > $1 AND h.reason = 'called')`, now), "refused are those that were made after the call")
	refusals := testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE category = 'misdirected'`)
	var winners string
	require.NoError(t, b.Pool.QueryRow(b.ctx, `
		SELECT string_agg(reason || ' ' || n, ', ' ORDER BY reason) FROM (SELECT reason, count(*) AS n FROM account_history WHERE to_status = 'expired' GROUP BY reason) r`).
		Scan(&winners))
	t.Logf("%d payments refused; expired: %s", refusals, winners)
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

// oneTimeAccounts opens n one-time accounts for 5,000 naira. Every other has its deadline now, the
// rest in an hour.
func (b *bundle) oneTimeAccounts(n int, now time.Time) []uuid.UUID {
	b.T.Helper()
	ids, customers, items := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]work.Item, n)
	deadlines := make([]time.Time, n)
	for i := range ids {
		ids[i], customers[i], deadlines[i] = uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), now.Add(time.Duration(i%2)*time.Hour)
		items[i] = work.Item{Kind: work.Expire, ID: ids[i], TenantID: b.tenant, DueAt: deadlines[i]}
	}
	b.Exec(`INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at)
		SELECT id, $2, 'order-' || n, 'Ada Obi', $3, $3 FROM unnest($1::uuid[]) WITH ORDINALITY c (id, n)`, customers, b.tenant, now)
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, bank_name, status, type,
			expected_amount, expires_at, created_at, updated_at)
		SELECT id, $4, customer, 'order-' || n, 'nomba', (8000000000 + n)::text, 'Ada Obi', 'Test Bank', 'active', 'onetime', 5000, deadline, $5, $5
		FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) WITH ORDINALITY a (id, customer, deadline, n)`, ids, customers, deadlines, b.tenant, now)
	b.Exec(`INSERT INTO account_history (id, account_id, to_status, reason, created_at) SELECT gen_random_uuid(), unnest($1::uuid[]), 'active', 'provisioned', $2`, ids, now)
	b.Exec(`INSERT INTO ledger_balances (account_id, tenant_id) SELECT unnest($1::uuid[]), $2`, ids, b.tenant)
	require.NoError(b.T, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error { return work.Schedule(b.ctx, tx, items...) }))
	return ids
}
