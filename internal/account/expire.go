package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/retry"
)

// The schedule of the close at the bank: it is retried until it works, and does not hold up the
// local state.
const (
	closeLease   = time.Minute
	closeBackoff = 30 * time.Second // doubled with each try
	closeLongest = time.Hour
)

// Expire ends an active account at the tenant's word; the close at the bank follows as due work.
// Not active: [ErrNotActive].
func (s *Service) Expire(ctx context.Context, tenantID uuid.UUID, ref, reason string) (Account, error) {
	var a Account
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		found, err := Find(ctx, tx, tenantID, ref)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		moved, err := ExpireTx(ctx, tx, now, found.ID, EventExpire, now, reason)
		if err != nil {
			return err
		}
		if !moved {
			return ErrNotActive
		}
		err = tx.QueryRow(ctx, `SELECT `+columns+` FROM accounts a WHERE a.id = $1`, found.ID).Scan(a.fields()...)
		failpoint.At("account/before-expire-commit")
		return err
	})
	if err == nil {
		failpoint.At("account/after-expire-commit")
	}
	return a, err
}

// ExpireTx moves an active account to expired by event; payments made after the moment at are
// refused from now on. It answers false, and changes nothing, when the account is not active: of
// many that try at once, one moves it.
func ExpireTx(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, event Event, at time.Time, reason string) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE accounts SET status = 'expired', expired_at = $3, next_attempt_at = $4, attempt_count = 0, leased_until = NULL, updated_at = $4
		WHERE id = $1 AND status = ANY($2)`, id, Transitions.From(event), at, now)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	from := Active
	return true, writeHistory(ctx, tx, now, id, &from, Expired, reason)
}

// AdvanceExpiry does what is due on an account: at its deadline it expires, and an expired one is
// closed at the bank. It returns nil when nothing is left, and a [retry] error with the time of the
// next try when the bank did not close it.
func (s *Service) AdvanceExpiry(ctx context.Context, id uuid.UUID) error {
	due, lease, attempt, err := s.claimExpiry(ctx, id)
	if err != nil || !due {
		return err
	}
	failpoint.At("account/before-close")
	err = s.Bank.CloseAccount(ctx, id.String())
	failpoint.At("account/after-close")
	if err != nil && !errors.Is(err, provider.ErrUnknown) {
		// An account that the bank does not know takes no payments. An unanswered close may have
		// worked; closing again is harmless, so it is simply repeated.
		at := s.Clock.Now().Add(min(closeBackoff<<min(attempt, 16), closeLongest))
		_, recErr := s.Pool.Exec(ctx, `
			UPDATE accounts SET next_attempt_at = $3, attempt_count = attempt_count + 1, leased_until = NULL, last_error = $4
			WHERE id = $1 AND leased_until = $2`, id, lease, at, err.Error())
		return retry.At(at, fmt.Errorf("close account %s at the bank: %w", id, errors.Join(err, recErr)))
	}
	failpoint.At("account/before-closed-commit")
	_, err = s.Pool.Exec(ctx, `
		UPDATE accounts SET closed_at = $3, next_attempt_at = NULL, leased_until = NULL, last_error = '' WHERE id = $1 AND leased_until = $2`,
		id, lease, s.Clock.Now())
	failpoint.At("account/after-closed-commit")
	return err
}

// claimExpiry expires the account if its deadline has come, and takes the lease of the close at the
// bank.
func (s *Service) claimExpiry(ctx context.Context, id uuid.UUID) (due bool, lease time.Time, attempt int, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		lease = now.Add(closeLease)
		var status Status
		var deadline *time.Time
		err := tx.QueryRow(ctx, `
			SELECT status, expires_at, attempt_count FROM accounts
			WHERE id = $1 AND next_attempt_at <= $2 AND coalesce(leased_until, '-infinity') <= $2 FOR NO KEY UPDATE`, id, now).
			Scan(&status, &deadline, &attempt)
		if pg.IsNoRows(err) {
			due = false
			return nil
		}
		if err != nil {
			return err
		}
		if status == Active && deadline == nil {
			return fmt.Errorf("account %s is active and due, but has no deadline", id)
		}
		if status == Active {
			if _, err := ExpireTx(ctx, tx, now, id, EventDeadline, *deadline, "the deadline was reached"); err != nil {
				return err
			}
		}
		due = true
		_, err = tx.Exec(ctx, `UPDATE accounts SET leased_until = $2 WHERE id = $1`, id, lease)
		failpoint.At("account/before-claim-commit")
		return err
	})
	if err == nil && due {
		failpoint.At("account/after-claim-commit")
	}
	return due, lease, attempt, err
}

// Due lists the accounts whose work was due before the given time and is in nobody's hands, oldest
// first.
func (s *Service) Due(ctx context.Context, before time.Time, limit int) ([]uuid.UUID, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT id FROM accounts
		WHERE next_attempt_at < $1 AND coalesce(leased_until, '-infinity') <= $2 AND status <> 'provisioning'
		ORDER BY next_attempt_at LIMIT $3`, before, s.Clock.Now(), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Postpone puts off the work on an account whose handling failed, longer with each failure; see
// [pg.Postpone].
func (s *Service) Postpone(ctx context.Context, id uuid.UUID, why error) (time.Time, error) {
	return pg.Postpone(ctx, s.Pool, pg.PostponeAccount, id, s.Clock.Now(), why)
}
