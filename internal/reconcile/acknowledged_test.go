package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// The bank's list has a payout whose submission was not answered: the bank has its reference,
// whatever a question by that reference says. It is acknowledged.
func TestAListedPayoutIsAcknowledged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*provider.Payout){
		"paid":        func(*provider.Payout) {},
		"under way":   func(p *provider.Payout) { p.Status = provider.Pending },
		"failed":      func(p *provider.Payout) { p.Status = provider.Failed },
		"given back":  func(p *provider.Payout) { p.Status = provider.Refunded },
		"another sum": func(p *provider.Payout) { p.Amount = money.Must("70.00") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("1000.00")
			b.inBooks("AJO-listed", "processing", "100.00", nil)
			b.inBooks("AJO-not-listed", "processing", "100.00", nil)
			b.payAtBank("AJO-listed", "100.00")
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for i := range page.Payouts {
					change(&page.Payouts[i])
				}
			}})
			b.lastHour()
			acknowledged := func(ref string) *time.Time {
				return testenv.Value[*time.Time](b.Env, `SELECT acknowledged_at FROM transfers WHERE merchant_tx_ref = $1`, ref)
			}
			require.NotNil(t, acknowledged("AJO-listed"))
			require.Nil(t, acknowledged("AJO-not-listed"))
			first := *acknowledged("AJO-listed")
			b.Clock.Advance(time.Minute)
			b.lastHour()
			require.Equal(t, first, *acknowledged("AJO-listed"), "for good")
		})
	}
}
