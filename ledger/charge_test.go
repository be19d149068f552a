package ledger_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Charges take what is available and no kobo more, one after the other. What is given back is given
// whole, whatever is available.
func TestChargesTakeWhatIsAvailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	charge := func(amounts ...string) (posted []string) {
		var charges []ledger.Charge
		for _, a := range amounts {
			charges = append(charges, ledger.Charge{
				AccountID: b.account, Amount: money.Must(a), Contra: ledger.BankFees, Kind: ledger.KindFee, TransactionGroupID: uuid.Must(uuid.NewV7()),
			})
		}
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			out, err := ledger.PostCharges(b.ctx, tx, b.Clock.Now(), charges)
			for _, sum := range out {
				posted = append(posted, sum.String())
			}
			return err
		}))
		return posted
	}
	b.move(b.credit("20.00"), ledger.EventConfirm)
	require.Equal(t, []string{"4.00", "5.99"}, charge("4.00", "5.99"))
	require.Equal(t, []string{"10.01", "0.00"}, charge("10.02", "0.01"))
	require.Equal(t, "0.00", b.balance())
	b.credit("50.00") // not confirmed
	_, err := b.debit("50.00")
	require.NoError(t, err)
	available, _ := b.left()
	require.Equal(t, "-50.00", available.String())
	require.Equal(t, []string{"0.00", "-5.00", "0.00"}, charge("1.00", "-5.00", "1.00"))
	require.Equal(t, "5.00", b.balance())
	b.verify()
}
