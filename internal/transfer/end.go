package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/ledger"
)

var errLostClaim = errors.New("transfer: the claim has gone to another worker")

// conclude ends a claimed transfer, or moves it on from success, in one transaction with its debit. A claim that has gone is
// no error: the other worker records.
func (s *Service) conclude(ctx context.Context, st *step, event Event, why string) error {
	var next *time.Time
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) (err error) {
		var held bool
		if err := tx.QueryRow(ctx, `SELECT coalesce(leased_until = $2, false) FROM transfers WHERE id = $1 FOR NO KEY UPDATE`, st.ID, st.Lease).Scan(&held); err != nil {
			return err
		}
		if !held {
			return errLostClaim
		}
		next, err = s.end(ctx, tx, st, event, why, s.Clock.Now())
		failpoint.At("transfer/before-end-commit")
		return err
	})
	if errors.Is(err, errLostClaim) {
		return nil
	}
	if err != nil {
		return err
	}
	failpoint.At("transfer/after-end-commit")
	if next == nil {
		return nil
	}
	return retry.At(*next, errRecheck)
}

// end writes a transfer's new status and moves its debit: confirmed when it was paid, reversed in every other end. It returns
// when the bank is asked again: about what it has paid, and about what it had been asked to pay.
func (s *Service) end(ctx context.Context, tx pg.Tx, st *step, event Event, why string, now time.Time) (next *time.Time, err error) {
	to, ok := Transitions.Next(st.Status, event)
	if !ok {
		return nil, fmt.Errorf("transfer %s: %s on %s", st.Ref, event, st.Status)
	}
	if (to == Success || to == Failed && st.Attempts > 0) && len(s.Rechecks) > 0 {
		at := now.Add(s.Rechecks[0])
		next = &at
	}
	move := ledger.EventReverse
	switch {
	case event == EventPaid:
		move = ledger.EventConfirm
	case st.Status == Success:
		move = ledger.EventRefund
	}
	tag, err := tx.Exec(ctx, `
		UPDATE transfers SET status = $2, next_attempt_at = $3, ask_count = 0, unknown_count = 0, leased_until = NULL, last_error = $4, updated_at = $5
		WHERE id = $1 AND status = $6`, st.ID, to, next, why, now, st.Status)
	if err != nil {
		return nil, err
	}
	if tag.RowsAffected() != 1 {
		return nil, fmt.Errorf("transfer %s: its status changed under its lock", st.Ref)
	}
	moved, err := ledger.MoveEntries(ctx, tx, now, []ledger.Move{{TransactionGroupID: st.ID, Direction: ledger.Debit, Event: move}})
	if err != nil {
		return nil, err
	}
	if moved[0].Err != nil {
		return nil, fmt.Errorf("transfer %s: its debit: %w", st.Ref, moved[0].Err)
	}
	return next, nil
}

// postpone gives a claimed transfer back until its next step. Unknown tells that the bank did not know it. One that is long
// under way is reported each time, and goes on.
func (s *Service) postpone(ctx context.Context, st *step, unknown bool, why error) error {
	now := s.Clock.Now()
	at, asks := s.next(st, now)
	counted := 0
	if unknown && !st.Early {
		counted = 1
	}
	failpoint.At("transfer/before-postpone-commit")
	_, err := s.Pool.Exec(ctx, `
		UPDATE transfers SET next_attempt_at = $3, ask_count = $4, unknown_count = unknown_count + $5, leased_until = NULL,
			last_error = CASE WHEN status IN ('pending', 'processing') THEN $6 ELSE last_error END
		WHERE id = $1 AND leased_until = $2`, st.ID, st.Lease, at, asks, counted, why.Error())
	if err != nil {
		return err
	}
	failpoint.At("transfer/after-postpone-commit")
	if at == nil {
		return nil
	}
	if age := now.Sub(st.Since); age >= alertAfter {
		switch st.Status {
		case Pending:
			s.alert(st, "not_submitted", "a transfer could not be submitted yet", slog.Duration("age", age), slog.Any("why", why))
		case Processing:
			s.alert(st, "unknown_outcome", "the outcome of a transfer is still unknown", slog.Duration("age", age), slog.Any("why", why))
		}
	}
	return retry.At(*at, why)
}
