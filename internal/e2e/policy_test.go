package e2e

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// sendingBack makes two payments that their account's policy pays back: of one the bank's record
// names the sender, of the other nobody, so it stays held.
func (c *crash) sendingBack(n int) unit {
	var a account
	var paid bool
	return func() bool {
		switch {
		case a.ID == "":
			a = c.opened(fmt.Sprintf(`{"externalRef":"shop-%d","name":"Ada Obi","expectedAmount":5000,"policy":{"under":"refund"}}`, n))
		case !paid:
			for amount, sender := range map[string]string{"4000.00": "0123456789", "3000.00": "-"} {
				_, err := c.bank.Pay(context.Background(), fakebank.Payment{
					NUBAN: a.BankAccountNumber, Amount: money.Must(amount), SenderName: "Amina Bello", SenderAccount: sender, SenderBank: "Guaranty Trust Bank",
				})
				require.NoError(c.t, err)
			}
			paid = true
		default:
			return c.count(`SELECT count(*) FROM transfers WHERE account_id = $1 AND status = 'success'`, a.ID) == 1 &&
				c.count(`SELECT count(*) FROM holds WHERE account_id = $1 AND status = 'open' AND source = 'policy'`, a.ID) == 1 &&
				c.count(`SELECT count(*) FROM work w JOIN inbound_events e ON e.id = w.id WHERE e.account_id = $1`, a.ID) == 0
		}
		return false
	}
}

// checkSentBack: each payment went back once, or is held once, and nothing of either is free. That
// payouts of the tenant need approval changes nothing.
func (c *crash) checkSentBack(units int) {
	c.t.Helper()
	c.checkCredits(2 * units)
	require.Len(c.t, c.bank.Paid(), units)
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM transfers WHERE by_policy AND refund_of IS NOT NULL`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM transfers`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM holds WHERE status = 'open' AND source = 'policy' AND reason LIKE 'not refunded: %'`))
	require.Zero(c.t, c.count(`SELECT count(*) FROM ledger_balances WHERE tenant_id = $1 AND balance <> held`, c.tenant))
}
