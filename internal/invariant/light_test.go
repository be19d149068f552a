package invariant_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// An account that was paid for years has many payments that were under review once. Those that are
// posted now are not compared with each of them, and what is under review is counted without them.
func TestLightOfAnAccountWithManyReviews(t *testing.T) {
	t.Parallel()
	w := setup(t)
	account, tenant := w.Account(w.tenant, "busy"), w.tenant
	const reviewed, posted = 400, 300
	add := func(first, last int, review string) {
		w.ExecUnguarded(`
			INSERT INTO ledger_entries (id, tenant_id, account_id, transaction_group_id, seq, created_at, direction, amount, status, running_balance, review_from_seq, review_to_seq)
			SELECT (to_char(n, 'FM00000000') || '-0000-7000-8000-000000000000')::uuid, $1, $2, gen_random_uuid(), n, now(), 'credit', 1, 'confirmed', n, `+review+`
			FROM generate_series($3::int, $4::int) n`, tenant, account, first, last)
	}
	add(1, reviewed, `n, n`)
	add(reviewed+1, reviewed+posted, `NULL, NULL`)
	w.Exec(`ANALYZE ledger_entries`)
	since := uuid.MustParse(fmt.Sprintf("%08d-0000-7000-8000-000000000000", reviewed))
	most, plan := w.MostRows(testenv.Statement{SQL: invariant.RunningSQL, Args: []any{since, 10_000}})
	require.Less(t, most, 10*posted, plan)
}

// The sums of very many balances are read so rarely that it takes a hundredth of the time; what is
// open is read each time.
func TestLightReadsSlowSumsRarely(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var quick, slow invariant.Checker
	light := func(c *invariant.Checker) invariant.State {
		s, err := c.Light(w.ctx, w.Pool, w.Clock.Now())
		require.NoError(t, err)
		return s
	}
	begun := time.Now()
	require.Equal(t, int64(1), light(&quick).ProvisionalCount)
	// it takes twice as long as the quick one took, so that the quick one is read again first
	lasts := min(time.Second+2*time.Since(begun), 8*time.Second) // and less than a lock is waited for
	tx, err := w.Pool.Begin(w.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(w.ctx) }()
	_, err = tx.Exec(w.ctx, `LOCK TABLE ledger_balances`)
	require.NoError(t, err)
	read := make(chan error, 1)
	var first invariant.State
	go func() {
		var err error
		first, err = slow.Light(w.ctx, w.Pool, w.Clock.Now())
		read <- err
	}()
	testenv.Eventually(t, time.Minute, "the sums to be waited for", func() bool { return w.LockWaits() == 1 })
	time.Sleep(lasts)
	require.NoError(t, tx.Rollback(w.ctx))
	require.NoError(t, <-read)
	require.Zero(t, first.NegativeBalances, "read in a second")
	w.Exec(`UPDATE ledger_balances SET total_debits = total_credits + 1 WHERE account_id = $1`, w.other)
	w.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	testenv.Eventually(t, 10*time.Minute, "the negative balance to be seen", func() bool { return light(&quick).NegativeBalances == 1 })
	s := light(&slow)
	require.Zero(t, s.NegativeBalances)
	require.Zero(t, s.ProvisionalCount)
}

// Misdirected payments become more each day, and a person makes the refunds of them: what was paid
// back is found by its refunds, and nothing is asked of each misdirected payment.
func TestLightOfManyMisdirectedPayments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	_, err := w.giveBack(stray)
	require.NoError(t, err)
	const many = 2000
	w.ExecUnguarded(`
		INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, digest, received_at)
		SELECT gen_random_uuid(), 'webhook', true, true, 'R-' || n, 'T-' || n, 'payment_success', 'failed', 'misdirected', decode(repeat('00', 16), 'hex'), now()
		FROM generate_series(1, $1::int) n`, many)
	w.KeyEvents()
	w.Exec(`ANALYZE inbound_events, event_keys`)
	pool, asked := w.Recorded()
	state, err := invariant.Light(w.ctx, pool, w.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, int64(many), state.MisdirectedCount)
	statements := slices.DeleteFunc(asked(), func(s testenv.Statement) bool { return !strings.Contains(s.SQL, "misdirected") })
	require.Len(t, statements, 1)
	_, plan := w.MostRows(statements[0])
	require.NotRegexp(t, `loops=[1-9]\d{2}`, plan)
}

// Dead letters become more for ever, so they are counted up to a bound.
func TestLightOfManyDeadLetters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const dead = 500
	w.ExecUnguarded(`
		INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at)
		SELECT gen_random_uuid(), $1, $2, gen_random_uuid(), 'payment.received', 'https://example.com', '{}', 'dead_letter', now() FROM generate_series(1, $3::int)`, w.tenant, w.account, dead)
	w.Exec(`ANALYZE deliveries`)
	pool, asked := w.Recorded()
	state, err := invariant.Light(w.ctx, pool, w.Clock.Now())
	require.NoError(t, err)
	require.Equal(t, int64(dead), state.DeadLetters)
	statements := slices.DeleteFunc(asked(), func(s testenv.Statement) bool { return !strings.Contains(s.SQL, "WHERE dead") })
	require.Len(t, statements, 1)
	s := statements[0]
	s.SQL = strings.Replace(s.SQL, "LIMIT 100001", "LIMIT 11", 1) // as if there were more than that
	most, plan := w.MostRows(s)
	require.Less(t, most, 100, plan)
}

// A part that fails keeps its figure and is named; the others are read.
func TestLightGoesOnWithoutAPart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var c invariant.Checker
	light := func() invariant.State {
		s, err := c.Light(w.ctx, w.Pool, w.Clock.Now())
		require.NoError(t, err)
		return s
	}
	missed := func(s invariant.State) (parts []string) {
		for _, m := range s.Missed {
			require.ErrorContains(t, m.Err, "does not exist")
			parts = append(parts, m.Part)
		}
		return parts
	}
	whole := light()
	require.Equal(t, []int64{1, 1, 0}, []int64{whole.MisdirectedCount, whole.ProvisionalCount, int64(len(whole.Missed))})
	w.ExecUnguarded(`UPDATE ledger_entries SET running_balance = running_balance + 1 WHERE account_id = $1`, w.account)
	wrong := light().Findings
	require.NotEmpty(t, wrong)
	w.Exec(`ALTER TABLE event_keys RENAME TO away`)
	w.Exec(`DELETE FROM work WHERE kind = 'confirm'`)
	s := light()
	require.Equal(t, []string{"misdirected payments"}, missed(s))
	require.Equal(t, []int64{1, 0}, []int64{s.MisdirectedCount, s.ProvisionalCount})
	require.Equal(t, wrong, s.Findings)
	once := w.light()
	require.Equal(t, []int64{invariant.NotRead, 0, 2}, []int64{once.MisdirectedCount, once.ProvisionalCount, once.Accounts})
	require.Equal(t, wrong, once.Findings)

	w.Exec(`ALTER TABLE away RENAME TO event_keys`)
	w.Exec(`ALTER TABLE ledger_balances RENAME TO away`)
	s = light()
	require.Subset(t, missed(s), []string{ledger.CheckChain})
	require.Equal(t, []int64{1, 2}, []int64{s.MisdirectedCount, s.Accounts})
	once = w.light()
	require.Equal(t, "balances", missed(once)[0])
	require.Equal(t, []int64{1, invariant.NotRead, invariant.NotRead}, []int64{once.MisdirectedCount, once.Accounts, once.NegativeBalances})
	w.Exec(`ALTER TABLE away RENAME TO ledger_balances`)
	require.Empty(t, missed(light()))
}

// A payout that a freeze or a suspension stops does not count as late: behind it, one of another
// tenant that is late would not be seen.
func TestLightOfStoppedPayouts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Clock.Advance(time.Hour)
	owner := testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM accounts WHERE id = $1`, w.other)
	_, err := w.transfers.Settle(w.ctx, owner, "other", transfer.Order{Amount: "10.00", BankCode: "058", AccountNumber: "0123456789"}, idempotency.Request{})
	require.NoError(t, err)
	w.Clock.Advance(2 * time.Hour)
	freeze := func(scope string, subject uuid.UUID, until *time.Time) string {
		return testenv.Value[string](w.Env, `INSERT INTO freezes (id, scope, subject, tenant_id, reason, actor, created_at, until)
			VALUES (gen_random_uuid(), $1, $2, CASE WHEN $1 <> 'payouts' THEN $3::uuid END, 'a ticket', 'cli:ada', $4, $5) RETURNING id::text`, scope, subject, w.tenant, w.Clock.Now(), until)
	}
	late := func() []any { s := w.light(); return []any{s.PendingCount, s.PendingOldest} }
	both, others := []any{int64(2), 3 * time.Hour}, []any{int64(1), 2 * time.Hour}
	require.Equal(t, both, late())
	w.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, w.tenant)
	require.Equal(t, others, late())
	w.Exec(`UPDATE tenants SET status = 'active' WHERE id = $1`, w.tenant)
	for scope, subject := range map[string]uuid.UUID{"account": w.account, "tenant": w.tenant} {
		id := freeze(scope, subject, nil)
		require.Equal(t, others, late(), scope)
		w.Exec(`UPDATE freezes SET lifted_at = created_at WHERE id = $1`, id)
		require.Equal(t, both, late(), scope)
	}
	until := w.Clock.Now().Add(time.Minute)
	freeze("payouts", uuid.Nil, &until)
	require.Equal(t, []any{int64(0), time.Duration(0)}, late())
	w.Clock.Advance(time.Minute)
	require.Equal(t, []any{int64(2), 3*time.Hour + time.Minute}, late(), "the freeze has ended")
}
