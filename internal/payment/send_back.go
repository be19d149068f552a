package payment

import (
	"context"
	"errors"

	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/internal/work"
	"ajo/ledger"
)

// A payment that its account's policy refunds is held from its posting on. Its item of work
// outlives the confirmation and then makes the refund. So the refund is made whatever dies in
// between, and only once, because accepting it ends the hold.

// errGoesBack is why the item of a confirmed payment is due again.
var errGoesBack = errors.New("its account's policy pays it back to its sender")

// goesBack reports whether the payment is to be refunded now, after the finding. If its hold no
// longer says so by then, nothing is done.
func (f *finding) goesBack() bool {
	return f.GoesBack && (f.event == ledger.EventConfirm || f.kept)
}

// decided reports whether nothing is left to ask the bank about a payment that a policy refunds:
// its item is only there for the refund.
func (c *check) decided() bool {
	return c.GoesBack && !c.recalled() && c.EntryStatus != ledger.Provisional
}

// sendBack refunds a payment that is no longer provisional, and ends its item. A payment that is
// not confirmed has left the balance together with its hold.
func (s *Service) sendBack(ctx context.Context, c *check) error {
	var why error
	if c.EntryStatus == ledger.Confirmed {
		why = s.SendBack(ctx, c.ID)
	}
	outcome := work.Outcome{Claim: c.claim}
	if why != nil {
		outcome.Next = new(s.Clock.Now().Add(s.confirmDelay(c.Attempt + 1)))
	}
	failpoint.At("policy/before-end-commit")
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		held, err := work.Finish(ctx, tx, work.Confirm, []work.Outcome{outcome})
		if err != nil || !held[0] || why == nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE inbound_events SET attempt_count = attempt_count + 1, last_error = $2 WHERE id = $1`, c.ID, why.Error())
		return err
	})
	failpoint.At("policy/after-end-commit")
	if why == nil {
		return err
	}
	return retry.At(*outcome.Next, errors.Join(why, err))
}
