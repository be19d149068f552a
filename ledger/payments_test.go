package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/ledger"
)

// A payment of the first moment of a period belongs to it, and one of the first moment after it
// does not: in each list of payments, in a file of them, and in their sums.
func TestPaymentsOfAPeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Clock.Now().Add(time.Hour), b.Clock.Now().Add(2*time.Hour)
	for i, at := range []time.Time{from.Add(-time.Microsecond), from, to.Add(-time.Microsecond), to} {
		b.Clock.Set(at)
		b.credit(fmt.Sprintf("%d.00", i+1))
	}
	want := []string{"2.00", "3.00"}
	for name, f := range map[string]ledger.PaymentFilter{"of a tenant": {From: from, To: to}, "of an account": {From: from, To: to, AccountID: b.account}} {
		for _, s := range []page.Sort{{}, {Ascending: true}, {By: page.Amount}, {By: page.Amount, Ascending: true}} {
			list, info, err := ledger.Payments(b.ctx, b.Pool, b.tenant(), f, page.Request{Limit: 10, Sort: s, Total: true})
			require.NoError(t, err)
			require.Equal(t, 2, info.Total.Count, name)
			var got []string
			for _, p := range list {
				got = append(got, p.Amount.String())
			}
			require.ElementsMatch(t, want, got, "%s: %v", name, s)
		}
		var file []string
		require.NoError(t, ledger.EachPayment(b.ctx, b.Pool, b.tenant(), f, 10, func(p ledger.Payment) error {
			file = append(file, p.Amount.String())
			return nil
		}))
		require.ElementsMatch(t, want, file, name)
		sums, err := ledger.SumPayments(b.ctx, b.Pool, b.tenant(), f)
		require.NoError(t, err)
		require.Equal(t, "2 5.00", fmt.Sprint(sums.Count, " ", sums.Amount), name)
	}
}
