package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// Which of a payment's holds is its last one does not go by the clock of the machine that placed
// it. Not parallel, as all ids of a process are made one after the other.
func TestHoldsAreInTheOrderOfTheDatabasesClock(t *testing.T) {
	b := setup(t)
	testenv.MachineAhead(t, 10*time.Minute)
	p := posting(b.account, "100.00")
	p.Policy = &ledger.Policy{Source: ledger.HeldByPolicy, Reason: "under"}
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
		return err
	}))
	placed := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE account_id = $1 AND source = 'policy' AND amount = $2`, b.account, money.Must("100.00"))
	require.Less(t, placed.String(), clock.NewID().String(), "that of a machine whose clock is right is later")
}
