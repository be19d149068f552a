package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// The bank issues the number of a closed account again: the next customer has it, and the account
// that had it keeps it in its record.
func TestNumberIssuedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue})
	var last account.Account
	for _, ref := range []string{"first", "second", "third"} {
		a := b.provision(dedicated(ref))
		if last.BankAccountNumber != "" {
			require.Equal(t, last.BankAccountNumber, a.BankAccountNumber)
		}
		_, err := b.svc.Expire(b.ctx, b.tenant, ref, account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
		require.NoError(t, err)
		require.NoError(t, b.svc.AdvanceExpiry(b.ctx, a.ID))
		last = a
	}
	b.provision(dedicated("fourth"))
	require.Equal(t, 4, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE bank_account_number = $1`, last.BankAccountNumber))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM accounts WHERE tenant_id = $1 AND closed_at IS NULL`, b.tenant))
}

// The bank has closed a one-time account at its date, and issued its number again, before we have:
// the one that had it is ended and closed first, so that the number is never of two open accounts.
func TestNumberIssuedAgainBeforeOurClose(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(b *bundle, old account.Account){
		"not expired here yet": func(*bundle, account.Account) {},
		"its close is put off": func(b *bundle, old account.Account) {
			b.bank.Faults.SetDown(fakebank.DownAnswer)
			require.Error(b.T, b.svc.AdvanceExpiry(b.ctx, old.ID))
			b.bank.Faults.SetDown(fakebank.Up)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue})
			in, deadline := onetime("order-1"), b.Clock.Now().Add(time.Hour)
			in.ExpiresAt = &deadline
			old := b.provision(in)
			b.Clock.Set(deadline.Add(time.Minute))
			before(b, old)
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue})
			young := b.provision(dedicated("customer-1"))
			require.Equal(t, old.BankAccountNumber, young.BankAccountNumber)
			require.True(t, testenv.Value[bool](b.Env, `SELECT status = 'expired' AND closed_at IS NOT NULL FROM accounts WHERE id = $1`, old.ID))
			there, _ := b.bank.Account(old.ID.String())
			require.True(t, there.Closed)
			require.Equal(t, deadline, testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE id = $1`, old.ID).UTC())
		})
	}
}

// The bank gives the number of an active account to a second one: nobody could tell whose a payment
// is, so the second has none until the first is closed.
func TestNumberOfAnActiveAccountIssuedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.provision(dedicated("first"))
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue, Value: first.BankAccountNumber})
	for range 2 {
		_, err := b.svc.Provision(b.ctx, b.tenant, dedicated("second"), idempotency.Request{})
		require.ErrorIs(t, err, account.ErrProvider)
		require.ErrorContains(t, err, "which an active account has")
	}
	_, err := b.svc.Expire(b.ctx, b.tenant, "first", account.Ending{Reason: "the bank has issued its number twice"}, idempotency.Request{})
	require.NoError(t, err)
	require.Equal(t, first.BankAccountNumber, b.provision(dedicated("second")).BankAccountNumber)
	require.True(t, testenv.Value[bool](b.Env, `SELECT closed_at IS NOT NULL FROM accounts WHERE id = $1`, first.ID))
}

// The account that still has a number which the bank has issued again is made due under its own
// lock, as lock order has it: who has the account finds its work as it was.
func TestNumberIsFreedUnderTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.provision(dedicated("first"))
	_, err := b.svc.Expire(b.ctx, b.tenant, "first", account.Ending{Reason: "requested by the tenant"}, idempotency.Request{})
	require.NoError(t, err)
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	require.Error(t, b.svc.AdvanceExpiry(b.ctx, old.ID))
	b.bank.Faults.SetDown(fakebank.Up)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue, Value: old.BankAccountNumber})
	due := *b.DueAt(work.Expire, old.ID)
	require.True(t, due.After(b.Clock.Now()), "the close is put off")
	var young account.Provisioned
	ended := make(chan error, 1)
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(b.ctx, `SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE`, old.ID); err != nil {
			return err
		}
		go func() {
			var err error
			young, err = b.svc.Provision(b.ctx, b.tenant, dedicated("second"), idempotency.Request{})
			ended <- err
		}()
		testenv.Eventually(t, time.Minute, "the opening to wait for the account", func() bool { return b.LockWaits() > 0 })
		require.Equal(t, due, *b.DueAt(work.Expire, old.ID))
		return nil
	}))
	require.NoError(t, <-ended)
	require.Equal(t, old.BankAccountNumber, young.BankAccountNumber)
}
