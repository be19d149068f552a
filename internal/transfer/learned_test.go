package transfer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

// What the bank's record says otherwise than the books has one name; what it says of a transfer
// that is still under way, and of one that ended as it says, agrees if the sum does.
func TestContradictionsByName(t *testing.T) {
	t.Parallel()
	names := map[Status]map[provider.Status]string{
		Success:  {provider.Failed: "paid_then_failed", provider.Pending: "paid_then_pending"},
		Failed:   {provider.Success: "failed_then_paid", provider.Pending: "failed_then_paid"},
		Refunded: {provider.Success: "refunded_then_paid", provider.Pending: "refunded_then_paid"},
	}
	for _, status := range []Status{Pending, Processing, Success, Failed, Refunded} {
		for _, said := range []provider.Status{provider.Pending, provider.Success, provider.Failed, provider.Refunded} {
			st := &claimed{Status: status, Amount: money.Must("100.00"), Paid: money.Must("100.00")}
			name := names[status][said]
			require.Equal(t, name, st.contradiction(provider.Payout{Status: said, Amount: money.Must("100.00")}), "%s, %s", status, said)
			switch {
			case name == "" && status == Success && said == provider.Refunded:
				name = "partial_refund"
			case name == "":
				name = "another_sum"
			}
			require.Equal(t, name, st.contradiction(provider.Payout{Status: said, Amount: money.Must("99.99")}), "%s, %s, a kobo less", status, said)
		}
	}
	// A person has booked 40.00 of 100.00 as paid: the 60.00 that came back are no refund of these,
	// and neither is what agrees with neither part.
	st := &claimed{Status: Success, Amount: money.Must("100.00"), Paid: money.Must("40.00")}
	for amount, name := range map[string]string{"40.00": "", "60.00": "partial_refund", "100.00": "partial_refund"} {
		require.Equal(t, name, st.contradiction(provider.Payout{Status: provider.Refunded, Amount: money.Must(amount)}), amount)
	}
	st.Paid = money.Must("50.00")
	require.Equal(t, "partial_refund", st.contradiction(provider.Payout{Status: provider.Refunded, Amount: money.Must("50.00")}), "which half it was is not known")
}
