package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// Of two decisions about a payment that begin while it is locked, the first is done, and the second
// is refused by what is true then; neither goes by what it has read before.
func TestDecisionsWaitForThePayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for what, c := range map[string]struct {
		id   uuid.UUID
		call func(id uuid.UUID) error
		want error
	}{
		"assign": {b.misdirected(nil), func(id uuid.UUID) error {
			_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
			return err
		}, payment.ErrNotMisdirected},
		"confirm": {b.held(), func(id uuid.UUID) error {
			_, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
			return err
		}, payment.ErrNotInReview},
		"reverse": {b.held(), func(id uuid.UUID) error {
			_, err := b.svc.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
			return err
		}, payment.ErrNotInReview},
	} {
		ended := make(chan error, 2)
		require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
			if _, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id = $1 FOR NO KEY UPDATE`, c.id); err != nil {
				return err
			}
			for range 2 {
				go func() { ended <- c.call(c.id) }()
			}
			testenv.Eventually(t, time.Minute, what+": both wait", func() bool { return b.LockWaits() == 2 || len(ended) > 0 })
			return nil
		}))
		first, second := <-ended, <-ended
		if first != nil {
			first, second = second, first
		}
		require.NoError(t, first, what)
		require.ErrorIs(t, second, c.want, what)
	}
	require.Len(t, b.audited(), 3)
	b.books()
}
