package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// A try that failed is not the payout's end, in whichever order the bank lists the two.
func TestAFailedTryBeforeThePayout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("1000.00")
	b.payAtBank("AJO-second-try", "100.00")
	b.inBooks("AJO-second-try", "success", "100.00", "0")
	_, b.svc = b.servicesWith(listed{b.client(), func(page *provider.Page) error {
		for _, p := range page.Payouts {
			p.ID, p.Status = p.ID+"-before", provider.Failed
			page.Payouts = append([]provider.Payout{p}, page.Payouts...)
		}
		return nil
	}})
	r := b.lastHour()
	require.Empty(t, r.Exceptions)
	require.Equal(t, 1, r.Bank.Payouts["success"].Count)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM reconcile_items`))
}
