package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

func (b *bundle) keyed(key, body string) idempotency.Request {
	b.T.Helper()
	r, err := idempotency.NewRequest(b.tenant, key, "POST", "/v1/accounts", []byte(body))
	require.NoError(b.T, err)
	return r
}

// A repeat under the same key makes no second one-time account, and needs neither the bank nor a
// deadline in the future.
func TestProvisionUnderAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, deadline := onetime("order-1"), b.Clock.Now().Add(time.Hour)
	in.ExpiresAt = &deadline
	first, err := b.svc.Provision(b.ctx, b.tenant, in, b.keyed("k", "body"))
	require.NoError(t, err)
	require.False(t, first.Replayed)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	b.Clock.Advance(2 * time.Hour)
	again, err := b.svc.Provision(b.ctx, b.tenant, in, b.keyed("k", "body"))
	require.NoError(t, err)
	require.Equal(t, account.Provisioned{Result: idempotency.Result{Answer: first.Answer, Replayed: true}}, again)
	_, err = b.svc.Provision(b.ctx, b.tenant, onetime("order-2"), b.keyed("k", "another body"))
	require.ErrorIs(t, err, idempotency.ErrReused)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
	require.Equal(t, 1, b.bank.Calls(createCall))
}

// A failure of the bank changed nothing that the tenant can see: the key is free at once, and the
// repeat finishes the row.
func TestProvisionUnderAKeyAfterAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Fail})
	for range 2 {
		_, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
		require.ErrorIs(t, err, account.ErrProvider)
	}
	b.bank.Faults.Clear()
	_, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
	require.NoError(t, err)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
	require.Len(t, b.bank.Accounts(), 1)
}

// A process dies between the reservation and its end, after the bank has acted. Until the lease has
// run out a repeat is told that the request is under way; then it finishes the same row with the
// same number, and its answer is kept.
func TestProvisionUnderAKeyAndACrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dying := *b.svc
	// It ends at the bank: nothing that comes after the call is done.
	dying.Bank = testenv.BankWith{Bank: b.svc.Bank, AfterCreateAccount: func(*provider.Account) { panic("the process dies") }}
	require.Panics(t, func() { _, _ = dying.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body")) })
	_, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
	require.ErrorIs(t, err, idempotency.ErrRunning)
	b.Clock.Advance(time.Minute)
	got, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
	require.NoError(t, err)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
	require.Len(t, b.bank.Accounts(), 1)
	require.Equal(t, b.bank.Accounts()[0].NUBAN, got.BankAccountNumber)
	again, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, got.Answer, again.Answer)
}

// The answer to either commit is lost. After the last one the account stands, and the repeat gets
// its answer.
func TestProvisionUnderAKeyAndALostCommit(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int{"reservation": 1, "end": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			lost := b.LostCommits()
			svc := *b.svc
			svc.Pool = lost.Pool
			if step == 1 {
				lost.LoseCommits(1)
			} else {
				svc.Bank = testenv.BankWith{Bank: b.svc.Bank, AfterCreateAccount: func(*provider.Account) { lost.LoseCommits(1) }}
			}
			_, err := svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
			require.Error(t, err)
			require.Zero(t, lost.CommitsLeft())
			b.Clock.Advance(time.Minute)
			got, err := b.svc.Provision(b.ctx, b.tenant, onetime("order-1"), b.keyed("k", "body"))
			require.NoError(t, err)
			require.Equal(t, step == 2, got.Replayed)
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1 AND status = 'active'`, b.tenant))
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1`, b.tenant))
			require.Len(t, b.bank.Accounts(), 1)
		})
	}
}
