package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A period that is over has ended only once no transaction from before its end may write.
func TestEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended := func(at time.Time) bool {
		yes, err := ledger.Ended(b.ctx, b.Pool, at)
		require.NoError(t, err)
		return yes
	}
	at := time.Now()
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		at = time.Now()
		require.False(t, ended(at.Add(time.Hour)), "it is not over")
		require.False(t, ended(at))
		require.True(t, ended(at.Add(-time.Minute)), "it began later")
		_, err := tx.Exec(b.ctx, `SELECT pg_current_xact_id()`)
		require.False(t, ended(at))
		return err
	}))
	testenv.Eventually(t, 10*time.Second, "the end", func() bool { return ended(at) })
	require.NoError(t, ledger.AwaitEnd(b.ctx, b.Pool, time.Time{}), "it has no end")
}
