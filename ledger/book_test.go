package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// A book transfer takes what is available on its own account, all of it, and no kobo more.
func TestBookTransferTakesWhatIsAvailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	till := b.Account(b.owner(), "till")
	post := func(amount string) error {
		return b.tx(func(tx pg.Tx) error {
			_, _, err := ledger.PostBookTransfer(b.ctx, tx, b.Clock.Now(), ledger.BookTransfer{ID: uuid.Must(uuid.NewV7()), From: b.account, To: till, Amount: money.Must(amount)})
			return err
		})
	}
	b.move(b.credit("10.00"), ledger.EventConfirm)
	b.credit("5.00") // not confirmed
	require.ErrorIs(t, post("10.01"), ledger.ErrInsufficientFunds)
	require.NoError(t, post("10.00"))
	require.ErrorIs(t, post("0.01"), ledger.ErrInsufficientFunds)
	require.Equal(t, "5.00", b.balance())
	require.Equal(t, "10.00", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, till).String())
	b.verify()
}
