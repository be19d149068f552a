package payment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/metrics"
	"ajo/internal/money"
)

// confirmations reads ajo_confirmations_total of this process, by outcome.
func confirmations(t *testing.T) map[string]float64 {
	t.Helper()
	all, err := metrics.Gatherer().Gather()
	require.NoError(t, err)
	by := map[string]float64{}
	for _, f := range all {
		if f.GetName() == "ajo_confirmations_total" {
			for _, m := range f.GetMetric() {
				by[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return by
}

// Each answer of the bank is counted by what it means.
func TestConfirmationsAreCounted(t *testing.T) {
	b := setup(t) // not beside other tests, whose answers are counted too
	for outcome, change := range map[string]func(*fakebank.Transaction){
		"confirmed":    func(*fakebank.Transaction) {},
		"reversed":     func(x *fakebank.Transaction) { x.Status = "REFUND" },
		"later":        func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" },
		"needs_review": func(x *fakebank.Transaction) { x.Amount = money.Must("1.00") },
	} {
		id, txn := b.paid()
		b.bank.SetTransaction(txn.ID, change)
		want := confirmations(t)
		want[outcome]++
		b.check(id)
		require.Equal(t, want, confirmations(t))
	}
}
