package transfer_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
)

// The bank's event comes while its answer to a question from before it is under way: the answer is
// old, and the transfer is asked about again at once, also after what was its last question.
func TestAnEventBesideAnOlderAnswer(t *testing.T) {
	for name, ended := range map[string]bool{"under way": false, "the last question": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			word, becomes := fakebank.StatusSuccess, transfer.Success
			if ended {
				word, becomes = fakebank.StatusRefund, transfer.Refunded
			}
			b.fund("100.00")
			if !ended {
				b.bank.SetPayoutDelay(time.Hour)
				b.bank.Faults.Set(pays(fakebank.Pending, 1))
			}
			p := b.settle("100.00")
			b.step(p)
			for range len(defaults.SettleRechecks) - 1 {
				b.untilDue(p)
				b.step(p)
			}
			b.untilDue(p)
			answered := make(chan struct{})
			b.bank.Faults.Set(with(answers(fakebank.SlowAfter, 1), func(r *fakebank.Rule) { r.Delay, r.Until = time.Minute, answered }))
			var wg sync.WaitGroup
			wg.Go(func() { _ = b.svc.Advance(b.ctx, p.ID) }) // what becomes of the transfer counts
			testenv.Eventually(t, time.Minute, "the bank is asked", func() bool { return b.bank.Faults.Rules()[0].Struck == 1 })
			_, err := b.bank.EndPayout(p.MerchantTxRef, word)
			require.NoError(t, err)
			ok, err := b.svc.Expedite(b.ctx, p.MerchantTxRef)
			require.NoError(t, err)
			require.True(t, ok)
			close(answered)
			wg.Wait()
			at := b.DueAt(work.Settle, p.ID)
			require.NotNil(t, at)
			require.False(t, at.After(b.Clock.Now()), "it is due at once")
			b.step(p)
			require.Equal(t, becomes, b.get(p.MerchantTxRef).Status)
		})
	}
}

// The bank's record may lag behind its event. The bank does not send the event again, so a payout
// that ended long ago is asked about as often as after its end, and also one whose last question is
// being asked when the event comes.
func TestAnEventAheadOfTheRecord(t *testing.T) {
	for name, asking := range map[string]bool{"after the last question": false, "during the last question": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.fund("100.00")
			p := b.run(b.settle("100.00"))
			event := func() {
				require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error { return b.svc.ExpediteTx(b.ctx, tx, []string{p.MerchantTxRef}) }))
			}
			for range len(defaults.SettleRechecks) - 1 {
				b.untilDue(p)
				b.step(p)
			}
			b.untilDue(p)
			if asking {
				answered := make(chan struct{})
				b.bank.Faults.Set(with(answers(fakebank.SlowAfter, 1), func(r *fakebank.Rule) { r.Delay, r.Until = time.Minute, answered }))
				var wg sync.WaitGroup
				wg.Go(func() { _ = b.svc.Advance(b.ctx, p.ID) }) // the event counts
				testenv.Eventually(t, time.Minute, "the bank is asked", func() bool { return b.bank.Faults.Rules()[0].Struck == 1 })
				event()
				close(answered)
				wg.Wait()
			} else {
				require.NoError(t, b.svc.Advance(b.ctx, p.ID))
				require.Nil(t, b.DueAt(work.Settle, p.ID))
				b.Clock.Advance(7 * 24 * time.Hour)
				event()
			}
			for _, gap := range defaults.SettleRechecks[1:] {
				require.False(t, b.DueAt(work.Settle, p.ID).After(b.Clock.Now()))
				require.Equal(t, b.Clock.Now().Add(gap), b.step(p), "the record does not say it yet")
				b.untilDue(p)
			}
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(t, err)
			b.step(p)
			require.Equal(t, transfer.Refunded, b.get(p.MerchantTxRef).Status)

			event()
			b.step(p)
			require.Equal(t, 0, row[int](b, p, "ask_count"), "a question just after the end does not count")
		})
	}
}
