package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/failpoint"
	"ajo/internal/idempotency"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/retry"
	"ajo/internal/work"
)

// The schedule of the close at the bank: it is retried until it works, and does not hold up the
// local state.
const (
	closeBackoff = 30 * time.Second // doubled with each try
	closeLongest = time.Hour
)

// Ending asks for the end of an account.
type Ending struct {
	Reason    string // for the account's history
	NoRefunds error  // refuses it where the policy refunds late payments; nil: it may be
	By        audit.By
}

// Expire ends an active account at the tenant's request: the end and the kept answer are one
// transaction. Closing it at the bank is scheduled. A repeat by a reference, without a key, may
// find the next account of it. The audit log has the end where a policy decides about what comes
// later. Not active: [ErrNotActive]; e.NoRefunds; the check of [audit.By.While], behind the
// account's lock; and the refusals of package idempotency.
func (s *Service) Expire(ctx context.Context, tenantID uuid.UUID, ref string, e Ending, key idempotency.Request) (idempotency.Result, error) {
	return idempotency.Once(ctx, s.Pool, s.Clock, http.StatusOK, key, func(tx pg.Tx, now time.Time) (any, error) {
		found, err := Find(ctx, tx, tenantID, ref)
		if err != nil {
			return nil, err
		}
		moved, err := ExpireTx(ctx, tx, now, found.ID, EventExpire, now, e.Reason)
		if err != nil {
			return nil, err
		}
		if !moved {
			return nil, ErrNotActive
		}
		var a Account
		if err := tx.QueryRow(ctx, `SELECT `+columns+` FROM accounts a WHERE a.id = $1`, found.ID).Scan(a.fields()...); err != nil {
			return nil, err
		}
		if e.NoRefunds != nil && a.Policy != nil && a.Policy.Late == Refund { // what is paid from now on goes back
			return nil, e.NoRefunds
		}
		return a, writeEnd(ctx, tx, now, &a, e)
	})
}

// writeEnd writes who ended an account whose policy decides about late payments. The end of any
// other is in its history alone.
func writeEnd(ctx context.Context, tx pg.Tx, now time.Time, a *Account, e Ending) error {
	if a.Policy == nil || a.Policy.Late == "" {
		return e.By.Stands(ctx, tx)
	}
	return audit.Write(ctx, tx, now, e.By.Entry("account.expire", "account:"+a.ID.String(), audit.Change{After: struct {
		AccountRef string  `json:"accountRef"`
		Policy     *Policy `json:"policy"`
	}{a.AccountRef, a.Policy}}).Of(a.TenantID))
}

// ExpireTx moves an active account to expired by event; payments made after the moment at are
// refused from now on, and the close at the bank is due. It returns false, and changes nothing,
// when the account is not active: of several concurrent calls, one moves it.
func ExpireTx(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, event Event, at time.Time, reason string) (bool, error) {
	tenant, err := moveToExpired(ctx, tx, now, id, event, at, reason)
	if err != nil || tenant == uuid.Nil {
		return false, err
	}
	return true, work.Schedule(ctx, tx, work.Item{Kind: work.Expire, ID: id, TenantID: tenant, DueAt: now})
}

// moveToExpired moves the account, and returns its tenant; uuid.Nil when it is not active.
func moveToExpired(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, event Event, at time.Time, reason string) (tenant uuid.UUID, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE accounts SET status = 'expired', expired_at = $3, attempt_count = 0, updated_at = $4
		WHERE id = $1 AND status = ANY($2) RETURNING tenant_id`, id, Transitions.From(event), at, now).Scan(&tenant)
	if err != nil {
		return uuid.Nil, pg.OrNone(err, nil)
	}
	from := Active
	return tenant, writeHistory(ctx, tx, now, id, &from, Expired, reason)
}

// AdvanceExpiry does what is due on an account: at its deadline it expires, and an expired one is
// closed at the bank. It returns nil when nothing is left, and a [retry] error with the time of the
// next try when the bank did not close it.
func (s *Service) AdvanceExpiry(ctx context.Context, id uuid.UUID) error {
	c, attempt, err := s.claimExpiry(ctx, id)
	if err != nil || c == nil {
		return err
	}
	defer work.KeepLease(ctx, s.Pool, s.Clock, work.Expire, *c, work.Term).Release()
	failpoint.At("account/before-close")
	why := s.Bank.CloseAccount(ctx, id.String())
	failpoint.At("account/after-close")
	if errors.Is(why, provider.ErrUnknown) {
		why = nil // an account that the bank does not know takes no payments
	}
	var next *time.Time
	if why != nil {
		// A close without an answer may have worked; closing again is harmless, so it is repeated.
		next = new(s.Clock.Now().Add(min(closeBackoff<<min(attempt, 16), closeLongest)))
	}
	err = s.recordClose(ctx, *c, next, why)
	if next == nil {
		return err
	}
	return retry.At(*next, fmt.Errorf("close account %s at the bank: %w", id, errors.Join(why, err)))
}

// recordClose stores the result of the close: the account is closed, or due again at next. A claim
// that is lost changes nothing.
func (s *Service) recordClose(ctx context.Context, c work.Claim, next *time.Time, why error) error {
	failpoint.At("account/before-closed-commit")
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := lock(ctx, tx, c.ID); err != nil {
			return err
		}
		held, err := work.Finish(ctx, tx, work.Expire, []work.Outcome{{Claim: c, Next: next}})
		switch {
		case err != nil || !held[0]:
			return err
		case next != nil:
			_, err = tx.Exec(ctx, `UPDATE accounts SET attempt_count = attempt_count + 1, last_error = $2 WHERE id = $1`, c.ID, why.Error())
		default:
			_, err = tx.Exec(ctx, `UPDATE accounts SET closed_at = $2, last_error = '' WHERE id = $1`, c.ID, s.Clock.Now())
		}
		return err
	})
	failpoint.At("account/after-closed-commit")
	return err
}

// lock locks an account's row, before its work item (docs/architecture.md, Lock order).
func lock(ctx context.Context, tx pg.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE`, id)
	return err
}

// claimExpiry expires the account if its deadline has come, and leases the close at the bank. The
// claim is nil when nothing is due.
func (s *Service) claimExpiry(ctx context.Context, id uuid.UUID) (c *work.Claim, attempt int, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		c = nil
		now := s.Clock.Now()
		var status Status
		var deadline *time.Time
		var tenant uuid.UUID
		// the account before its work item: docs/architecture.md, Lock order
		err := tx.QueryRow(ctx, `SELECT tenant_id, status, expires_at, attempt_count FROM accounts WHERE id = $1 FOR NO KEY UPDATE`, id).
			Scan(&tenant, &status, &deadline, &attempt)
		if err != nil {
			return pg.OrNone(err, nil)
		}
		due, err := work.Due(ctx, tx, work.Expire, now, []uuid.UUID{id})
		if err != nil || len(due) == 0 {
			return err
		}
		if status == Active && deadline == nil {
			return fmt.Errorf("account %s is active and due, but has no deadline", id)
		}
		// it was made due by hand: an account does not end before its deadline
		if status == Active && deadline.After(now) {
			return work.Schedule(ctx, tx, work.Item{Kind: work.Expire, ID: id, TenantID: tenant, DueAt: *deadline})
		}
		if status == Active {
			if _, err := moveToExpired(ctx, tx, now, id, EventDeadline, *deadline, "the deadline was reached"); err != nil {
				return err
			}
		}
		leased, err := work.Lease(ctx, tx, work.Expire, now.Add(work.Term), []work.Claim{due[id]})
		if err == nil {
			c = leased[0]
		}
		failpoint.At("account/before-claim-commit")
		return err
	})
	if err == nil && c != nil {
		failpoint.At("account/after-claim-commit")
	}
	return c, attempt, err
}
