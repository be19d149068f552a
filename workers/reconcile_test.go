package workers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// A payment of which no event comes is found in the bank's list by one of the workers, posted,
// confirmed and delivered.
func TestReconcileFindsWhatNeverCame(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opts.ReconcileEvery, b.opts.ReconcileWindow = time.Second, time.Hour
	for range 3 {
		_, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: b.account.ID.String(), Amount: money.Must("5000.00"), Silent: true})
		require.NoError(t, err)
	}
	b.start()
	b.start()
	b.ended(3)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE source <> 'reconciliation'`))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM (SELECT 1 FROM reconciliations GROUP BY window_from, window_to HAVING count(*) > 1) x`))
}

// A worker that stops in the middle of a run hands its window back at once.
func TestStopHandsTheReconciliationBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Slow, Delay: time.Minute})
	b.opts.ReconcileEvery, b.opts.ReconcileWindow = time.Hour, time.Hour
	w, err := Start(b.opts)
	require.NoError(t, err)
	// Before that it may not know that the run is its own; then the lease ends it.
	testenv.Eventually(t, 30*time.Second, "a run that asks the bank", func() bool { return b.bank.Faults.Rules()[0].Struck > 0 })
	w.Stop()
	require.Equal(t, "failed", testenv.Value[string](b.Env, `SELECT status FROM reconciliations`))
	b.bank.Faults.Clear()
	_, ran, _, err := b.opts.Reconciler.RunDue(context.Background(), time.Hour, time.Hour)
	require.NoError(t, err)
	require.True(t, ran)
}
