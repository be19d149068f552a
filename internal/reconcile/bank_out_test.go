package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// What the bank has taken for a payout follows from what was ordered, what a person has booked of
// it, and what came back.
func TestWhatTheBankTookForAPayout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status        transfer.Status
		ordered, left string
		back          string
		out, says     string
	}{
		"all came back":                 {transfer.Success, "300.00", "300.00", "300.00", "0.00", "payout_contradicts: the bank says refunded, the transfer is success"},
		"a part came back":              {transfer.Success, "300.00", "300.00", "100.00", "200.00", "payout_differs: the bank gave back 100.00 of 300.00, the transfer is success"},
		"as a person has booked it":     {transfer.Success, "300.00", "200.00", "100.00", "200.00", ""},
		"the tenant has all of it back": {transfer.Refunded, "300.00", "200.00", "100.00", "200.00", "payout_differs: the bank gave back 100.00 of 300.00, the transfer is refunded"},
		"what had left came back":       {transfer.Refunded, "300.00", "150.00", "150.00", "0.00", ""},
		"of more than was ordered":      {transfer.Success, "300.00", "500.00", "100.00", "400.00", "payout_differs: the bank gave back 100.00 of 500.00, the transfer is success"},
	} {
		row := &transferRow{Status: c.status, Ordered: money.Must(c.ordered), Left: money.Must(c.left), Fee: new(money.Must("12.50")), Attempts: 1}
		p := provider.Payout{Status: provider.Refunded, Amount: money.Must(c.back), Fee: new(money.Zero)}
		require.Equal(t, c.out, row.bankOut(p).String(), name)
		kind, detail := row.difference(p)
		says := string(kind) + ": " + detail
		if kind == "" {
			says = ""
		}
		require.Equal(t, c.says, says, name)
	}
	moved := &transferRow{Status: transfer.Success, Left: money.Must("300.00")}
	require.Equal(t, "0.00", moved.out().String(), "what moves between two accounts of the books is not sent")
}
