package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/retry"
	"ajo/ledger"
)

// conclude ends a claimed transfer, or moves it on from success, in one transaction with its debit.
func (s *Service) conclude(ctx context.Context, st *step, event Event, why string) error {
	return s.atEnd(st, pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		var held bool
		err := tx.QueryRow(ctx, `SELECT leased_until = $2 FROM transfers WHERE id = $1 FOR NO KEY UPDATE`, st.ID, st.Lease).Scan(&held)
		if err != nil {
			return err
		}
		if !held {
			return errLostClaim
		}
		return s.end(ctx, tx, st, event, why, now)
	}))
}

var errLostClaim = errors.New("transfer: the claim has gone to another worker")

// atEnd says when a paid transfer is asked about again; a claim that has gone is no error, the other worker records.
func (s *Service) atEnd(st *step, err error) error {
	if errors.Is(err, errLostClaim) {
		return nil
	}
	if err == nil && st.Status == Success {
		return retry.At(s.Clock.Now().Add(recheckDelays[0]), errors.New("paid; asked again in case the bank gives it back"))
	}
	return err
}

// end writes a transfer's new status and moves its debit: confirmed when it was paid, reversed in every other end.
func (s *Service) end(ctx context.Context, tx pg.Tx, st *step, event Event, why string, now time.Time) error {
	to, ok := Transitions.Next(st.Status, event)
	if !ok {
		return fmt.Errorf("transfer %s: %s on %s", st.Ref, event, st.Status)
	}
	var next *time.Time
	move := ledger.EventReverse
	switch {
	case event == EventPaid:
		at := now.Add(recheckDelays[0])
		next, move = &at, ledger.EventConfirm
	case st.Status == Success:
		move = ledger.EventRefund
	}
	tag, err := tx.Exec(ctx, `
		UPDATE transfers SET status = $2, next_attempt_at = $3, ask_count = 0, unknown_count = 0, leased_until = NULL, last_error = $4, updated_at = $5
		WHERE id = $1 AND status = ANY($6)`, st.ID, to, next, why, now, Transitions.From(event))
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("transfer %s: its status changed under its lock", st.Ref)
	}
	moved, err := ledger.MoveEntries(ctx, tx, now, []ledger.Move{{TransactionGroupID: st.ID, Direction: ledger.Debit, Event: move}})
	if err != nil {
		return err
	}
	if moved[0].Err != nil {
		return fmt.Errorf("transfer %s: its debit: %w", st.Ref, moved[0].Err)
	}
	st.Status = to
	return nil
}

// postpone gives a claimed transfer back until its next step. An outcome that stays unknown is reported, and asked about again.
func (s *Service) postpone(ctx context.Context, st *step, unknown bool, why error) error {
	now := s.Clock.Now()
	at := now.Add(s.delay(st.Asks))
	counted := 0
	if unknown {
		counted = 1
	}
	_, err := s.Pool.Exec(ctx, `
		UPDATE transfers SET next_attempt_at = $3, ask_count = ask_count + 1, unknown_count = unknown_count + $4, leased_until = NULL, last_error = $5
		WHERE id = $1 AND leased_until = $2`, st.ID, st.Lease, at, counted, why.Error())
	if err != nil {
		return err
	}
	if st.Status == Processing && now.Sub(*st.SubmittedAt) >= alertAfter {
		s.Log.Error("the outcome of a transfer is still unknown", slog.String("alert", "unknown_outcome"), slog.String("transfer", st.Ref),
			slog.Duration("age", now.Sub(*st.SubmittedAt)), slog.Any("why", why))
	}
	return retry.At(at, why)
}

// Wake makes a transfer due at once, because the bank has said something about it, and returns its id; ok is false when
// there is nothing to ask. What the bank said is not believed: the next step asks.
func (s *Service) Wake(ctx context.Context, merchantTxRef string) (id uuid.UUID, ok bool, err error) {
	err = s.Pool.QueryRow(ctx, `
		UPDATE transfers SET next_attempt_at = $2 WHERE merchant_tx_ref = $1 AND status IN ('processing', 'success') RETURNING id`,
		merchantTxRef, s.Clock.Now()).Scan(&id)
	if pg.IsNoRows(err) {
		return id, false, nil
	}
	return id, err == nil, err
}

// Due lists the transfers whose step was due before the given time and is in nobody's hands, oldest first. For the sweeper.
func (s *Service) Due(ctx context.Context, before time.Time, limit int) ([]uuid.UUID, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT id FROM transfers WHERE next_attempt_at < $1 AND coalesce(leased_until, '-infinity') <= $2 ORDER BY next_attempt_at LIMIT $3`,
		before, s.Clock.Now(), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Outstanding counts the transfers whose outcome is unknown, and tells the age of the oldest; for the operators' alert.
func (s *Service) Outstanding(ctx context.Context) (count int, oldest time.Duration, err error) {
	var since *time.Time
	err = s.Pool.QueryRow(ctx, `SELECT count(*), min(submitted_at) FROM transfers WHERE status = 'processing'`).Scan(&count, &since)
	if since != nil {
		oldest = s.Clock.Now().Sub(*since)
	}
	return count, oldest, err
}
