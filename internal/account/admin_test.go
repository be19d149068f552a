package account_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

var byHand = audit.By{Actor: "cli:ada", Reason: "a ticket"}

// expired is an account that has expired, and that nobody has closed at the bank.
func (b *bundle) expired(ref string) uuid.UUID {
	b.T.Helper()
	id := b.Account(b.tenant, ref)
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, updated_at = $2 WHERE id = $1`, id, b.Clock.Now())
	b.Schedule(work.Expire, id, b.Clock.Now())
	return id
}

func (b *bundle) closeByHand(id uuid.UUID) error {
	_, err := account.CloseByHand(b.ctx, b.Pool, b.Clock.Now(), id, byHand)
	return err
}

// What is active, is being provisioned or has money is not closed by hand; another account's money
// does not matter.
func TestCloseByHandRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.expired("customer-1"), b.expired("customer-2")
	group := b.Credit(other, "10.00")
	b.MoveCredit(b.Credit(b.Account(b.tenant, "reviewed"), "3.00"), ledger.EventHold)
	require.ErrorIs(t, b.closeByHand(uuid.New()), account.ErrNotFound)
	require.ErrorIs(t, b.closeByHand(b.Account(b.tenant, "customer-3")), account.ErrNotClosable)
	require.ErrorIs(t, b.closeByHand(other), account.ErrHasMoney)
	debit := uuid.New()
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostDebits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{{AccountID: other, Amount: money.Must("10.00"), TransactionGroupID: debit}})
		return err
	}))
	b.ExecUnguarded(`
		INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, debit_group, attempt_count, amount, bank_code, account_number, created_at, updated_at, debit_seq, debits_to)
		VALUES ($1, $2, $3, 'payout', 'pending', $1, 0, 10, '058', '0123456789', $4, $4, 1, 10)`, debit, b.tenant, other, b.Clock.Now())
	b.Schedule(work.Settle, debit, b.Clock.Now())
	require.ErrorIs(t, b.closeByHand(other), account.ErrHasMoney, "under way, with a balance of zero")
	b.Touches(func() { require.NoError(t, b.closeByHand(id)) }, id.String())
	require.Nil(t, b.DueAt(work.Expire, id))
	require.ErrorIs(t, b.closeByHand(id), account.ErrNotClosable, "closed already")

	b.Move(ledger.Move{TransactionGroupID: debit, Direction: ledger.Debit, Event: ledger.EventConfirm}, ledger.Move{TransactionGroupID: group, Direction: ledger.Credit, Event: ledger.EventConfirm})
	b.ExecUnguarded(`UPDATE transfers SET status = 'success' WHERE id = $1`, debit)
	b.ExecUnguarded(`UPDATE ledger_balances SET provisional_credits = 1 WHERE account_id = $1`, other)
	require.ErrorIs(t, b.closeByHand(other), account.ErrHasMoney, "unconfirmed, and spent already")
	b.ExecUnguarded(`UPDATE ledger_balances SET provisional_credits = 0 WHERE account_id = $1`, other)
	b.ExecUnguarded(`UPDATE ledger_entries SET status = 'needs_review', review_from_seq = seq WHERE transaction_group_id = $1`, group)
	require.ErrorIs(t, b.closeByHand(other), account.ErrHasMoney, "under review, in no balance")
	b.ExecUnguarded(`UPDATE ledger_entries SET status = 'confirmed', review_to_seq = seq WHERE transaction_group_id = $1`, group)
	require.NoError(t, b.closeByHand(other), "all of it has left")
	require.Equal(t, 2, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'accounts.close'`))
}

// An account with a long history is closed: only what is open is read.
func TestCloseByHandAfterYears(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, now := b.expired("customer-1"), b.Clock.Now()
	b.ExecUnguarded(`
		INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
		SELECT gen_random_uuid(), $1, $2, n, CASE n % 2 WHEN 1 THEN 'credit' ELSE 'debit' END, 1, 'confirmed', gen_random_uuid(), 0, $3 FROM generate_series(1, 2000) n`, b.tenant, id, now)
	b.ExecUnguarded(`
		INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, debit_group, attempt_count, amount, bank_code, account_number, created_at, updated_at)
		SELECT gen_random_uuid(), $1, $2, 'old-' || n, 'success', gen_random_uuid(), 1, 1, '058', '0123456789', $3, $3 FROM generate_series(1, 1000) n`, b.tenant, id, now)
	b.Exec(`ANALYZE ledger_entries`)
	b.Exec(`ANALYZE transfers`)
	most, plan := b.MostRows(testenv.Statement{SQL: account.ClosableSQL, Args: []any{id, now}})
	require.Less(t, most, 100, plan)
}

// A row that a request still provisions is its; from the end of the lease on, it is removed. Nobody
// else's row is, nor an account.
func TestCloseByHandOfAnUnfinishedRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("customer-1"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	_, err = b.svc.Provision(b.ctx, b.Tenant(), dedicated("hers"), idempotency.Request{})
	require.ErrorIs(t, err, account.ErrProvider)
	id, until := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id = $1`, b.tenant), b.Clock.Now().Add(time.Minute)
	b.Exec(`UPDATE accounts SET leased_until = $2 WHERE tenant_id = $1`, b.tenant, until)
	b.Account(b.tenant, "active")
	unfinished := func() []uuid.UUID {
		t.Helper()
		ids, err := account.Unfinished(b.ctx, b.Pool, b.Clock.Now(), b.tenant)
		require.NoError(t, err)
		return ids
	}
	b.Clock.Set(until.Add(-time.Microsecond))
	require.Empty(t, unfinished())
	require.ErrorIs(t, b.closeByHand(id), account.ErrNotClosable)
	b.Clock.Set(until)
	require.Equal(t, []uuid.UUID{id}, unfinished())
	b.Touches(func() { require.NoError(t, b.closeByHand(id)) }, id.String())
	require.ErrorIs(t, b.closeByHand(id), account.ErrNotFound)
}

// The close of one account waits for nobody who has another.
func TestCloseByHandBesideAnotherAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.expired("customer-1"), b.expired("customer-2")
	require.NoError(t, b.Beside(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `SELECT FROM accounts WHERE id = $1 FOR UPDATE`, other)
		return err
	}, func() error { return b.closeByHand(id) }))
}

// A tenant's active accounts are ended together, and nobody else's.
func TestExpireAllOfATenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended := b.expired("ended")
	one, two := b.provision(dedicated("customer-1")).ID, b.provision(onetime("order-1")).ID
	b.Touches(func() {
		require.NoError(t, account.ExpireAll(b.ctx, b.Pool, b.Clock.Now(), b.tenant, "the tenant is closed"))
	}, one.String(), two.String())
	for _, id := range []uuid.UUID{one, two} {
		require.Equal(t, "expired the tenant is closed", testenv.Value[string](b.Env, `
			SELECT a.status || ' ' || h.reason FROM accounts a JOIN account_history h ON h.account_id = a.id AND h.to_status = 'expired' WHERE a.id = $1`, id))
		require.NotNil(t, b.DueAt(work.Expire, id))
	}
	require.NoError(t, account.ExpireAll(b.ctx, b.Pool, b.Clock.Now(), b.tenant, "again"))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM account_history WHERE account_id = $1 AND to_status = 'expired'`, ended))
}

// The account that the bank certainly knows is the newest active one, however many expired later.
func TestAccountKnownAtTheBank(t *testing.T) {
	t.Parallel()
	b := alone(t)
	known := func() string {
		t.Helper()
		ref, err := account.KnownAtBank(b.ctx, b.Pool)
		require.NoError(t, err)
		return ref
	}
	b.expired("expired")
	require.Empty(t, known())
	b.provision(dedicated("customer-1"))
	newest := b.provision(dedicated("customer-2")).ID.String()
	ended := b.expired("expired-2")
	require.Equal(t, newest, known())
	b.Exec(`INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, status, type, expired_at, closed_at, created_at, updated_at)
		SELECT `+testenv.IDsAfter(ended)+`, tenant_id, customer_id, 'shop', provider, lpad(n::text, 10, '0'), bank_account_name, status, 'onetime', $2, $2, $2, $2
		FROM accounts, generate_series(1, 5000) n WHERE id = $1`, ended, b.Clock.Now())
	require.Equal(t, newest, known())
}

// Of two who close the same account at once, the second is refused and writes nothing.
func TestCloseByHandTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.expired("customer-1")
	err := b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE accounts SET closed_at = $2 WHERE id = $1`, id, b.Clock.Now())
		return err
	}, func() error { return b.closeByHand(id) })
	require.ErrorIs(t, err, account.ErrNotClosable)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log`))
}
