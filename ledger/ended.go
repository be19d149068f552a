package ledger

import (
	"context"
	"fmt"
	"time"

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/pg"
)

// An entry is dated when its transaction begins, and is there once that has committed, which may be
// after the end of its day. So a period is complete only when no transaction that may write has
// begun before its end. The dates come from the clocks of processes, which differ from Postgres' by
// less than [clock.Slack].

const (
	// awaitFor is how long [AwaitEnd] waits; transactions last milliseconds. awaitPoll is how often
	// it looks.
	awaitFor  = 5 * time.Second
	awaitPoll = 20 * time.Millisecond
)

// ErrPosting refuses a file of a period that is not complete.
var ErrPosting = errs.New(errs.Unavailable, "entries of this period are still being posted: try again")

// Ended reports whether a period that ends at a time is over, and complete: what is read after the
// call has all its entries. q must be the primary.
func Ended(ctx context.Context, q pg.Querier, at time.Time) (bool, error) {
	_, complete, err := completeAt(ctx, q, at)
	return complete, err
}

func completeAt(ctx context.Context, q pg.Querier, at time.Time) (over, complete bool, err error) {
	now, since, err := pg.WritersSince(ctx, q, pg.OnlyReads)
	if err != nil {
		return false, false, err
	}
	return at.Before(now.Add(clock.Slack)), !since.Before(at.Add(clock.Slack)), nil
}

// AwaitEnd returns when a period that ends at a time is complete, at once if it is not over or has
// no end. It comes before [pg.Reader], which takes a standby that has what was committed by then.
// [ErrPosting].
func AwaitEnd(ctx context.Context, primary *pg.Pool, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, awaitFor)
	defer cancel()
	for {
		over, complete, err := completeAt(ctx, primary, at)
		if err == nil && (complete || !over) {
			return nil
		}
		if err == nil {
			err = clock.Sleep(ctx, awaitPoll)
		}
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrPosting, err)
		}
		if err != nil {
			return err
		}
	}
}
