package payment_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
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
	const rounds, side = 1000, 20
	for from := 0; from < rounds; from += side {
		var wg sync.WaitGroup
		for i := from; i < from+side; i++ {
			id := b.Account(b.tenant, fmt.Sprintf("order-%d", i))
			deadline, occurred := now, now
			if i%2 == 1 {
				deadline, occurred = now.Add(time.Hour), now.Add(time.Second)
			}
			b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000, expires_at = $2 WHERE id = $1`, id, deadline)
			b.Schedule(work.Expire, id, deadline)
			event := b.receive(b.event(func(e *fakebank.Event) {
				e.Data.Transaction.AliasReference, e.Data.Transaction.Time = id.String(), occurred.Format(time.RFC3339)
			})).ID
			start := make(chan struct{})
			for _, do := range []func() error{
				func() error { _, err := b.svc.Post(b.ctx, event); return err },
				func() error {
					_, err := accounts.Expire(b.ctx, b.tenant, id.String(), "called")
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
	found, err := ledger.Verify(b.ctx, b.Pool)
	require.NoError(t, err)
	require.Empty(t, found)
}
