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
// outlives the confirmation, and then pays it back: so whatever dies in between, somebody does it,
// and the hold, which ends with the refund's acceptance, lets it be done once.

// errGoesBack is why the item of a confirmed payment is due again.
var errGoesBack = errors.New("its account's policy pays it back to its sender")

// goesBack reports whether the finding leaves a payment that is to be paid back now. Where a hold
// says otherwise by then, nothing is done.
func (f *finding) goesBack() bool {
	return f.GoesBack && (f.event == ledger.EventConfirm || f.kept)
}

// sendBack has a payment paid back that is no longer provisional, and ends its item. What is not
// confirmed has left the balance, with its hold.
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
