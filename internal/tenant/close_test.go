package tenant

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

// What keeps a tenant from being closed is found without reading all that it ever did.
func TestATenantWithALongHistoryIsClosed(t *testing.T) {
	b := setup(t)
	id := b.shop("ada@example.com").id
	account, now := b.Env.Account(id, "customer-1"), b.Env.Clock.Now()
	b.replicated(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, debit_group, attempt_count, amount, bank_code, account_number, created_at, updated_at)
		SELECT gen_random_uuid(), $1, $2, 'old-' || n, 'success', gen_random_uuid(), 1, 1, '058', '0123456789', $3, $3 FROM generate_series(1, 2000) n`, id, account, now)
	b.replicated(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, review_from_seq, review_to_seq, created_at)
		SELECT gen_random_uuid(), $1, $2, n, 'credit', 1, 'confirmed', gen_random_uuid(), 0, n, n, $3 FROM generate_series(1, 2000) n`, id, account, now)
	b.Exec(`ANALYZE transfers`)
	b.Exec(`ANALYZE ledger_entries`)
	most, plan := b.MostRows(testenv.Statement{SQL: openSQL, Args: []any{id, now}})
	require.Less(t, most, 100, plan)
}

// Each thing that is open keeps its own tenant from being closed, and what has ended keeps nobody.
func TestOnlyAnEmptyTenantIsClosed(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	account, now := b.Env.Account(s.id, "customer-1"), b.Env.Clock.Now()
	stranger := b.Env.Account(b.Env.Tenant(), "customer-1")
	entry := func(of uuid.UUID, direction, status string, seq int) {
		b.replicated(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, review_from_seq, created_at, kind)
			SELECT gen_random_uuid(), tenant_id, id, $4::int, $2::text, 1, $3::text, gen_random_uuid(), 0, 1, $5, CASE WHEN $2 = 'debit' THEN 'platform_fee' ELSE '' END
			FROM accounts WHERE id = $1`, of, direction, status, seq, now)
	}
	hold := func(of uuid.UUID, status string, until *time.Time) {
		b.replicated(`INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, until, created_at, ended_at)
			SELECT gen_random_uuid(), tenant_id, id, 1, 'x', $2::text, $3, $4, CASE WHEN $2 <> 'open' THEN $4::timestamptz END FROM accounts WHERE id = $1`, of, status, until, now.Add(-time.Hour))
	}
	transfer := func(of uuid.UUID, status string) {
		b.replicated(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, debit_group, attempt_count, amount, bank_code, account_number, debit_seq, debits_to, created_at, updated_at)
			SELECT gen_random_uuid(), tenant_id, id, gen_random_uuid()::text, $2, gen_random_uuid(), 1, 1, '058', '0123456789', 1, 1, $3, $3 FROM accounts WHERE id = $1`, of, status, now)
		b.replicated(`INSERT INTO work (kind, id, tenant_id, due_at) SELECT 'settle', id, tenant_id, $2 FROM transfers WHERE account_id = $1 ON CONFLICT DO NOTHING`, of, now)
	}
	recall := func(of uuid.UUID, status string) {
		b.replicated(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at, closed_at)
			SELECT gen_random_uuid(), tenant_id, id, 'operator', $2::text, 0, $3, CASE WHEN $2 <> 'open' THEN $3::timestamptz END FROM accounts WHERE id = $1`, of, status, now)
	}
	// what keeps nobody
	b.Exec(`UPDATE ledger_balances SET total_credits = 1, provisional_credits = 1 WHERE account_id = $1`, stranger)
	entry(stranger, "credit", "needs_review", 1)
	hold(stranger, "open", nil)
	transfer(stranger, "pending")
	recall(stranger, "open")
	entry(account, "debit", "needs_review", 1)
	entry(account, "credit", "confirmed", 2)
	hold(account, "released", nil)
	hold(account, "open", &now)
	transfer(account, "success")
	recall(account, "kept")
	for open, c := range map[string]struct{ do, undo func() }{
		"accounts with money: 1": {
			func() { b.Exec(`UPDATE ledger_balances SET total_credits = 1 WHERE account_id = $1`, account) },
			func() { b.Exec(`UPDATE ledger_balances SET total_credits = 0 WHERE account_id = $1`, account) },
		},
		"holds: 2": {
			func() { hold(account, "open", nil); hold(account, "open", new(now.Add(time.Microsecond))) },
			func() {
				b.replicated(`DELETE FROM holds WHERE account_id = $2 AND status = 'open' AND (until IS NULL OR until > $1)`, now, account)
			},
		},
		"transfers under way: 2": {
			func() { transfer(account, "pending"); transfer(account, "processing") },
			func() { b.replicated(`DELETE FROM transfers WHERE account_id = $1 AND status <> 'success'`, account) },
		},
		"accounts with unconfirmed payments: 1": {
			func() { b.Exec(`UPDATE ledger_balances SET provisional_credits = 1 WHERE account_id = $1`, account) },
			func() { b.Exec(`UPDATE ledger_balances SET provisional_credits = 0 WHERE account_id = $1`, account) },
		},
		"payments under review: 1": {
			func() { entry(account, "credit", "needs_review", 3) },
			func() { b.replicated(`DELETE FROM ledger_entries WHERE seq = 3`) },
		},
		"open recalls: 1": {
			func() { recall(account, "open") },
			func() { b.replicated(`DELETE FROM recalls WHERE account_id = $1 AND status = 'open'`, account) },
		},
	} {
		c.do()
		_, err := b.BeginClose(ctx, s.id, byHand)
		require.EqualError(t, err, "the tenant is not empty; "+open)
		_, err = b.FinishClose(ctx, s.id, byHand)
		require.EqualError(t, err, "the tenant is not empty; "+open)
		c.undo()
	}
	require.Empty(t, b.audited())

	closed, err := b.BeginClose(ctx, s.id, byHand)
	require.NoError(t, err)
	require.False(t, closed)
	for _, open := range []string{"status = 'active'", "status = 'expired', expired_at = now()"} { // not closed at the bank yet
		b.replicated(`UPDATE accounts SET `+open+` WHERE id = $1`, account)
		waiting, err := b.FinishClose(ctx, s.id, byHand)
		require.NoError(t, err)
		require.Equal(t, int64(1), waiting, open)
		require.Len(t, b.audited(), 1)
	}
	b.replicated(`UPDATE accounts SET closed_at = $2 WHERE id = $1`, account, now)
	for range 2 {
		waiting, err := b.FinishClose(ctx, s.id, byHand)
		require.NoError(t, err)
		require.Zero(t, waiting)
		closed, err = b.BeginClose(ctx, s.id, byHand)
		require.NoError(t, err)
		require.True(t, closed)
		require.Len(t, b.audited(), 2)
	}
	require.Equal(t, Closed, testenv.Value[string](b.Env, `SELECT status FROM tenants WHERE id = $1`, s.id))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL`, s.id))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM sessions WHERE tenant_id = $1 AND ended_at IS NULL`, s.id))
	lines, _, err := audit.Own(ctx, b.Env.Pool, s.id, audit.OwnFilter{Action: "tenant.close"}, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, lines, 1, "it has ended the tenant's keys, and the tenant may be opened again")
	require.Equal(t, []string{"operator", `"suspended"`, `"closed"`}, []string{lines[0].Actor, string(lines[0].Before), string(lines[0].After)})
}

// A closed tenant can end no pause: what waits for a paused endpoint would wait for ever, and keep
// all deliveries of that time from the archive. Its other endpoints still hear of what comes late.
func TestACloseEndsPausedEndpoints(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s := b.shop("ada@example.com")
	paused := b.Env.Endpoint(s.id, "https://old.example", "{payment.received}")
	b.Exec(`UPDATE webhook_endpoints SET paused_at = $2 WHERE id = $1`, paused, b.Env.Clock.Now())
	open := b.Env.Endpoint(s.id, "https://books.example", "{payment.received}")
	_, err := b.BeginClose(ctx, s.id, byHand)
	require.NoError(t, err)
	waiting, err := b.FinishClose(ctx, s.id, byHand)
	require.NoError(t, err)
	require.Zero(t, waiting)
	require.Equal(t, Closed, testenv.Value[string](b.Env, `SELECT status FROM tenants WHERE id = $1`, s.id))
	left, err := b.Endpoints(ctx, s.id)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, open, left[0].ID)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT webhook_endpoints FROM tenants WHERE id = $1`, s.id))
}

// replicated runs a statement without the schema's guards, for rows that are of other packages.
func (b *bundle) replicated(sql string, args ...any) {
	b.T.Helper()
	require.NoError(b.T, pg.InTx(context.Background(), b.Env.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(context.Background(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(context.Background(), sql, args...)
		return err
	}))
}
