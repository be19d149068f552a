package transfer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/retry"
)

// alertAfter is the age from which a transfer that is still under way is reported at each of its steps.
const alertAfter = 10 * time.Minute

var errCover = errors.New("waits until the bank has confirmed the money that it pays out")

// step is a due transfer that is ours to advance until Lease.
type step struct {
	ID            uuid.UUID
	AccountID     uuid.UUID
	Ref           string
	Status        Status
	Amount        money.Amount
	BankCode      string
	AccountNumber string
	AccountName   string
	Narration     string
	SenderName    string
	Attempts      int
	Since         time.Time // when the schedule of its status began: at acceptance, at the last submission, at the end
	Asks          int       // looks since then that were at their time
	Unknown       int       // those of them that the bank answered with "not known"
	Early         bool      // this look is before its time: somebody woke the transfer
	Lease         time.Time
}

// claim takes the lease of a due transfer; nil when it is not due, or in other hands. One that lacks cover waits (a [retry]
// error), and one that will never have it ends here.
func (s *Service) claim(ctx context.Context, id uuid.UUID) (*step, error) {
	var st *step
	var wait error
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		st, wait = nil, nil
		now := s.Clock.Now()
		c := step{Lease: now.Add(s.Lease)}
		err := tx.QueryRow(ctx, `
			SELECT t.id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.bank_code, t.account_number, t.account_name, t.narration, n.name,
				t.attempt_count, CASE t.status WHEN 'pending' THEN t.created_at WHEN 'processing' THEN t.submitted_at ELSE t.updated_at END,
				t.ask_count, t.unknown_count
			FROM transfers t JOIN tenants n ON n.id = t.tenant_id
			WHERE t.id = $1 AND t.next_attempt_at <= $2 AND coalesce(t.leased_until, '-infinity') <= $2 FOR NO KEY UPDATE OF t`, id, now).
			Scan(&c.ID, &c.AccountID, &c.Ref, &c.Status, &c.Amount, &c.BankCode, &c.AccountNumber, &c.AccountName, &c.Narration, &c.SenderName,
				&c.Attempts, &c.Since, &c.Asks, &c.Unknown)
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		c.Early = now.Before(s.countsFrom(&c))
		covered := c.Status != Pending
		if !covered {
			covered, wait, err = s.cover(ctx, tx, &c, now)
		}
		if covered {
			st = &c
			_, err = tx.Exec(ctx, `UPDATE transfers SET leased_until = $2 WHERE id = $1`, id, c.Lease)
		}
		failpoint.At("transfer/before-claim-commit")
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, wait
}

// cover decides whether confirmed credits (with AJO_SETTLE_PROVISIONAL, all that have not proved false) cover a pending
// transfer together with every debit that stands before it. Pending transfers whose debits stand behind it in the ledger do
// not count: the earlier one goes first. So whatever has left is covered by what the ledger's order puts before it, and
// confirmed money never becomes less. Not covered yet: a wait. Never to be covered, not even if all that is provisional
// were confirmed and the transfers before it failed: it ends as failed, and its debit is reversed.
func (s *Service) cover(ctx context.Context, tx pg.Tx, c *step, now time.Time) (covered bool, wait, err error) {
	var confirmed, provisional, behind, others money.Amount
	err = tx.QueryRow(ctx, `
		WITH waiting AS (
			SELECT t.id, t.amount, e.seq FROM transfers t JOIN ledger_entries e ON e.transaction_group_id = t.id AND e.direction = 'debit'
			WHERE t.account_id = $1 AND t.status = 'pending')
		SELECT b.balance - b.provisional_credits, b.provisional_credits,
			(SELECT coalesce(sum(amount), 0) FROM waiting WHERE seq > (SELECT seq FROM waiting WHERE id = $2)),
			(SELECT coalesce(sum(amount), 0) FROM waiting WHERE id <> $2)
		FROM ledger_balances b WHERE b.account_id = $1`, c.AccountID, c.ID).Scan(&confirmed, &provisional, &behind, &others)
	if err != nil {
		return false, nil, err
	}
	have := confirmed.Add(behind)
	if s.Provisional {
		have = have.Add(provisional)
	}
	switch best := confirmed.Add(provisional).Add(others); {
	case have.Sign() >= 0:
		return true, nil, nil
	case best.Sign() < 0:
		const why = "the money that it pays out proved false"
		s.Log.Warn(why, slog.String("transfer", c.Ref))
		_, err := s.end(ctx, tx, c, EventReject, why, now)
		return false, nil, err
	}
	at, asks := s.next(c, now)
	_, err = tx.Exec(ctx, `UPDATE transfers SET next_attempt_at = $2, ask_count = $3, last_error = $4 WHERE id = $1`, c.ID, at, asks, errCover.Error())
	return false, retry.At(*at, errCover), err
}

// gaps is the schedule of the transfer's status.
func (s *Service) gaps(st *step) []time.Duration {
	if st.Status == Pending || st.Status == Processing {
		return s.Delays
	}
	return s.Rechecks
}

// countsFrom is the earliest time at which the transfer's next look can come by its schedule; one before it was brought
// about by an event of the bank or by an operator. So n looks that counted took at least the first n gaps.
func (s *Service) countsFrom(st *step) time.Time {
	at, gaps := st.Since, s.gaps(st)
	for i := range min(st.Asks+1, len(gaps)) {
		at = at.Add(gaps[i])
	}
	return at
}

// next is when a transfer is looked at again, and its count of looks. A look before its time changes neither. A transfer that
// has ended is not looked at for ever: nil.
func (s *Service) next(st *step, now time.Time) (at *time.Time, asks int) {
	gaps, asks := s.gaps(st), st.Asks
	if !st.Early {
		asks++
	}
	var t time.Time
	switch ended := st.Status != Pending && st.Status != Processing; {
	case ended && asks >= len(gaps):
		return nil, asks
	case st.Early:
		t = s.countsFrom(st)
	default:
		t = now.Add(gaps[min(asks, len(gaps)-1)])
	}
	return &t, asks
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

// Wake makes a transfer due at once, because the bank has said something about it, and returns its id; ok is false when
// there is nothing to ask. What the bank said is not believed: the next step asks, and does not count.
func (s *Service) Wake(ctx context.Context, merchantTxRef string) (id uuid.UUID, ok bool, err error) {
	failpoint.At("transfer/before-wake-commit")
	err = s.Pool.QueryRow(ctx, `
		UPDATE transfers SET next_attempt_at = least(next_attempt_at, $2) WHERE merchant_tx_ref = $1 AND attempt_count > 0 AND status <> 'refunded' RETURNING id`,
		merchantTxRef, s.Clock.Now()).Scan(&id)
	failpoint.At("transfer/after-wake-commit")
	if pg.IsNoRows(err) {
		return id, false, nil
	}
	return id, err == nil, err
}
