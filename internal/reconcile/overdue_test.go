package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
)

// overdue has for how long runs are overdue, in hours; -1: none is to be made.
func (b *bundle) overdue() (daily, again float64) {
	b.T.Helper()
	o, err := reconcile.ReadOverdue(b.ctx, b.Pool)
	require.NoError(b.T, err)
	hours := func(at *time.Time) float64 {
		if at == nil {
			return -1
		}
		return max(0, b.Clock.Now().Sub(*at).Hours())
	}
	return hours(o.Daily), hours(o.Again)
}

// A run of the day that fails is overdue since its first try, and one that nobody makes since it
// should have been made.
func TestOverdueRunOfTheDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	daily, _ := b.overdue()
	require.EqualValues(t, -1, daily, "nobody knows yet when the first one is")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail})
	for range 3 {
		_, _, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
		require.Error(t, err)
		b.Clock.Advance(20 * time.Hour)
	}
	daily, _ = b.overdue()
	require.EqualValues(t, 60, daily)
	b.bank.Faults.Clear()
	b.daily(0) // the one that failed
	_, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
	require.NoError(t, err)
	require.True(t, ran, "what is due since")
	daily, _ = b.overdue()
	require.Zero(t, daily)
	b.Clock.Advance(23 * time.Hour)
	daily, _ = b.overdue()
	require.Zero(t, daily)
	b.Clock.Advance(25 * time.Hour)
	daily, _ = b.overdue()
	require.EqualValues(t, 24, daily, "nobody has made it")
	b.Exec(`INSERT INTO wallets (seq, wallet_id, host, since) SELECT seq, 'wallet-' || seq, 'bank', $1 FROM generate_series(1, 2) seq`, b.Clock.Now())
	daily, _ = b.overdue()
	require.EqualValues(t, -1, daily, "of the new account at the bank there is no day yet that is old enough")
}

// A time in which the list was behind is overdue since the end of its wait.
func TestOverdueSecondReading(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	late := b.paySilently("5000.00")
	b.bank.SetTransaction(late.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	b.post(b.receive(b.hook(late)).ID)
	b.Clock.Advance(20 * time.Minute)
	require.Equal(t, 1, b.due().Young)
	_, again := b.overdue()
	require.Zero(t, again, "it waits")
	ends := testenv.Value[time.Time](b.Env, `SELECT leased_until FROM reconciliations WHERE kind = 'again'`)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail})
	for _, hours := range []int{1, 30} {
		b.Clock.Set(ends.Add(time.Duration(hours) * time.Hour))
		_, _, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
		require.Error(t, err)
		_, again = b.overdue()
		require.EqualValues(t, hours, again)
	}
	b.bank.Faults.Clear()
	b.due()
	_, again = b.overdue()
	require.EqualValues(t, -1, again)
}
