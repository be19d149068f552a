package transfer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

// The bank's record is against a person's word if it says the opposite of the sum that was ordered,
// or of the one that was booked as paid and that the record calls paid. A record of any other sum,
// and none, is against nothing.
func TestWhatTheBanksRecordOpposes(t *testing.T) {
	t.Parallel()
	sum := func(amount string) *money.Amount { return new(money.Must(amount)) }
	notPaid, paid := Resolution{}, Resolution{Paid: true}
	same, less := Resolution{Paid: true, Amount: sum("100.00")}, Resolution{Paid: true, Amount: sum("80.00")}
	for _, status := range []Status{Processing, Success, Failed, Refunded} {
		st := &claimed{Status: status, Amount: money.Must("100.00"), Paid: money.Must("100.00")}
		for _, to := range []Resolution{notPaid, paid, same, less} {
			require.False(t, to.opposes(st, nil), "%s, %+v", status, to)
			for said, want := range map[provider.Status]bool{
				provider.Pending: false, provider.Failed: to.Paid, provider.Refunded: to.Paid, provider.Success: !to.Paid || to.Amount == less.Amount,
			} {
				require.Equal(t, want, to.opposes(st, &provider.Payout{Status: said, Amount: money.Must("100.00")}), "%s, %s, %+v", status, said, to)
				require.False(t, to.opposes(st, &provider.Payout{Status: said, Amount: money.Must("99.99")}), "%s, %s, %+v, a kobo less", status, said, to)
			}
		}
		// Of 100.00, 90.00 were booked as paid once.
		st.Paid = money.Must("90.00")
		require.Equal(t, status == Success, notPaid.opposes(st, &provider.Payout{Status: provider.Success, Amount: money.Must("90.00")}), status)
		require.Equal(t, status != Success, notPaid.opposes(st, &provider.Payout{Status: provider.Success, Amount: money.Must("100.00")}), status)
		for _, said := range []provider.Status{provider.Failed, provider.Refunded} {
			require.True(t, less.opposes(st, &provider.Payout{Status: said, Amount: money.Must("100.00")}), "%s, %s", status, said)
			require.False(t, less.opposes(st, &provider.Payout{Status: said, Amount: money.Must("90.00")}), "%s, %s", status, said)
		}
	}
}

// A payout that the bank has made or may make yet is one that it has; what failed or came back is
// not.
func TestPayoutsThatTheBankHas(t *testing.T) {
	t.Parallel()
	require.False(t, hasIt(nil))
	for said, want := range map[provider.Status]bool{provider.Pending: true, provider.Success: true, provider.Failed: false, provider.Refunded: false} {
		require.Equal(t, want, hasIt(&provider.Payout{Status: said}), said)
	}
}
