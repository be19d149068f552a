package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/retry"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// The bank takes five payouts a minute to one account. A tenant that sweeps many accounts into one
// has all of them paid, each at its first submission, by whichever worker. Neither a payout to
// another account nor one of another tenant to the same waits for them.
func TestManyPayoutsToOneAccount(t *testing.T) {
	b := setup(t)
	b.bank = b.Bank(fakebank.Options{RecipientRate: 5})
	b.client = b.newClient(5 * time.Second)
	limited := func(o *transfer.Options) { o.RecipientRate = 5 }
	workers := []*transfer.Service{b.service(limited), b.service(limited)}
	b.fund("1000.00")
	var all []transfer.Transfer
	for range 23 {
		all = append(all, b.settle("10.00"))
	}
	other := order("10.00")
	other.AccountNumber = "0123456780"
	s, err := b.svc.Settle(b.ctx, b.tenant, "shop", other, b.key("other", other))
	require.NoError(t, err)
	alone := b.get(accepted(t, s).MerchantTxRef)
	n := b.anotherAccount(t)
	n.fund("10.00")
	neighbours := n.settle("10.00")
	all = append(all, alone)

	begin, paid := b.Clock.Now(), 0
	for rounds := 0; paid < len(all)+1; rounds++ {
		require.Less(t, rounds, 30, "all are paid")
		var due []transfer.Transfer
		next := b.Clock.Now().Add(time.Hour)
		for _, p := range append(all, neighbours) {
			if row[transfer.Status](b, p, "status") == transfer.Success {
				continue
			}
			at := b.DueAt(work.Settle, p.ID)
			require.NotNil(t, at)
			if next = earlier(next, *at); !at.After(b.Clock.Now()) {
				due = append(due, p)
			}
		}
		if len(due) == 0 {
			b.Clock.Set(next)
			continue
		}
		errs := make([]error, len(due))
		testenv.AtOnce(len(due), func(i int) { errs[i] = workers[i%2].Advance(b.ctx, due[i].ID) })
		for _, err := range errs {
			if err != nil {
				_, ok := retry.When(err)
				require.True(t, ok, err)
			}
		}
		if paid = len(b.bank.Paid()); rounds == 0 {
			require.Equal(t, transfer.Success, b.get(alone.MerchantTxRef).Status)
			require.Equal(t, transfer.Success, n.get(neighbours.MerchantTxRef).Status)
			require.Equal(t, 6, paid)
		}
	}
	for _, p := range all {
		require.Equal(t, 1, b.get(p.MerchantTxRef).AttemptCount)
	}
	b.paid(append(all, neighbours)...)
	require.Less(t, b.Clock.Now().Sub(begin), 7*time.Minute, "six times four, as the last turn is for others")
}

// Turns that were taken while the clock was a day ahead hold nobody up for that day once it is
// corrected.
func TestTurnsOfAClockThatWasAhead(t *testing.T) {
	b := setup(t)
	worker := b.service(func(o *transfer.Options) { o.RecipientRate = 5 })
	b.fund("100.00")
	for range 4 {
		_ = worker.Advance(b.ctx, b.settle("10.00").ID)
	}
	b.Exec(`UPDATE payout_turns SET since = since + interval '1 day'`)
	p := b.settle("10.00")
	_ = worker.Advance(b.ctx, p.ID) // it is due again for the question after its end
	require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
