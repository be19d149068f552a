package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/transfer"
)

// Nothing is reserved for what the platform bears, nor without the bank's published fees.
func TestNoFeeIsReserved(t *testing.T) {
	for who, c := range map[string]struct {
		published bool
		balance   string
		fees      []string
	}{"platform": {true, "20.00", nil}, "tenant": {false, "0.00", []string{"debit 20.00 bank_fees confirmed"}}} {
		t.Run(who, func(t *testing.T) {
			b := setup(t)
			if c.published {
				b.svc = b.bearerService()
			}
			b.bears(who)
			b.fund("120.00")
			p := b.settle("100.00")
			require.Nil(t, row[*string](b, p, "reserved_fee::text"))
			b.has("20.00")
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.has(c.balance, c.fees...)
		})
	}
}

// The fee of a payout is the bank's word, from whichever of its answers has it, and the newest
// stands. It is no part of the debit.
func TestFeeOfAPayout(t *testing.T) {
	b := setup(t)
	fee := func(p transfer.Transfer) string {
		if got := b.get(p.MerchantTxRef).ProviderFee; got != nil {
			return got.String()
		}
		return "not said"
	}
	b.fund("500.00")

	atOnce := b.settle("100.00")
	require.Equal(t, "not said", fee(atOnce))
	b.run(atOnce)
	require.Equal(t, "20.00", fee(atOnce))

	b.bank.Faults.Set(pays(fakebank.Pending, 1))
	b.bank.SetPayoutDelay(time.Hour)
	underWay := b.settle("100.00")
	b.step(underWay)
	require.Equal(t, "20.00", fee(underWay), "said before the end")

	b.bank.Faults.Set(pays(fakebank.Reject, 0))
	refused := b.run(b.settle("100.00"))
	require.Equal(t, transfer.Failed, refused.Status)
	require.Equal(t, "not said", fee(refused))

	b.bank.Faults.Set(with(answers(fakebank.AlterFee, 1), func(r *fakebank.Rule) { r.Match, r.Value = atOnce.MerchantTxRef, "25.00" }))
	b.untilDue(atOnce)
	b.step(atOnce)
	require.Equal(t, "25.00", fee(atOnce), "said otherwise after the end")
	b.bank.Faults.Set(answers(fakebank.NotFound, 1))
	b.untilDue(atOnce)
	b.step(atOnce)
	require.Equal(t, "25.00", fee(atOnce), "not taken back by no answer")
	b.money("300.00", "credit 500.00 confirmed", "debit 100.00 confirmed", "debit 100.00 provisional", "debit 100.00 reversed", "credit 100.00 reversed")
}
