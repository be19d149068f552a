package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// A person has not seen what a worker learns while the person's own question is under way: another
// submission alone, an acknowledgement alone, and an end alone are each reason enough to book
// nothing.
func TestResolveOfWhatMovesMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		rules        []fakebank.Rule
		asked        int // steps behind the submission
		wait         time.Duration
		status       transfer.Status
		attempts     int
		acknowledged bool
	}{
		"submitted again": {[]fakebank.Rule{pays(fakebank.Drop, 2)}, 2, 0, transfer.Processing, 2, false},
		"acknowledged":    {[]fakebank.Rule{pays(fakebank.DropAfter, 1)}, 0, 0, transfer.Processing, 1, true},
		"ended":           {[]fakebank.Rule{pays(fakebank.Pending, 1)}, 0, time.Hour, transfer.Success, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			b.bank.SetPayoutDelay(30 * time.Minute)
			b.bank.Faults.Set(c.rules...)
			p := b.settle("100.00")
			b.step(p)
			b.asked(p, c.asked)
			before := b.get(p.MerchantTxRef)
			require.Equal(t, []any{transfer.Processing, 1, name == "ended"}, []any{before.Status, before.AttemptCount, row[*time.Time](b, p, "acknowledged_at") != nil})
			slow := b.service(func(o *transfer.Options) {
				o.Bank = b.meanwhile(func() {
					b.Clock.Advance(c.wait)
					b.asked(p, 1)
				})
			})
			_, err := slow.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
			require.ErrorIs(t, err, transfer.ErrMovedOn)
			got := b.get(p.MerchantTxRef)
			require.Equal(t, []any{c.status, c.attempts, c.acknowledged}, []any{got.Status, got.AttemptCount, row[*time.Time](b, p, "acknowledged_at") != nil})
			require.Equal(t, transfer.Success, b.run(p).Status)
			b.money("0.00", isPaid, "debit 100.00 confirmed")
			b.consistent(0)
		})
	}
}

// A worker that has lost its claim stores the bank's acknowledgement without the transfer's item of
// work: a person's resolution waits for it at the transfer's own row.
func TestResolveBesideAnAcknowledgement(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("100.00")
	b.step(p)
	unasked := b.service(func(o *transfer.Options) { o.Bank = nil })
	require.ErrorIs(t, b.Meanwhile(testenv.Runs(`UPDATE transfers SET acknowledged_at = $2 WHERE id = $1`, p.ID, b.Clock.Now()), func() error {
		_, err := unasked.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
		return err
	}), transfer.ErrMovedOn)
	require.Equal(t, transfer.Processing, b.get(p.MerchantTxRef).Status)
	b.money("0.00", isPaid, "debit 100.00 provisional")
}
