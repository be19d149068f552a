package transfer

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/retry"
)

// alertAfter is the age from which a transfer that is still under way is reported at each of its steps.
const alertAfter = 10 * time.Minute

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
	Traceparent   string
	Tells         bool // the tenant chose more events than received payments, or listens
}

// claimed is what a claim came to: the step, or a wait ([retry]) of a transfer that lacks cover. Neither is nothing: the
// transfer is not due, in other hands, or has ended here, with a delivery to ring where the tenant chose one.
type claimed struct {
	step *step
	wait error
	told uuid.UUID
}

// claim takes the lease of a due transfer; nil when it is not due, or in other hands. One that lacks cover waits (a [retry]
// error), and one that will never have it ends here.
func (s *Service) claim(ctx context.Context, id uuid.UUID) (*step, error) {
	c, err := s.claims.Do(ctx, id)
	if err != nil {
		return nil, err
	}
	s.ring(ctx, c.told)
	return c.step, c.wait
}

func (s *Service) claimBatch(ctx context.Context, ids []uuid.UUID) []batch.Outcome[claimed] {
	return pg.Isolate(ids, func(ids []uuid.UUID) ([]batch.Outcome[claimed], error) {
		var found verdicts
		err := pg.InBatch(ctx, s.Pool, func(tx pg.Tx) error {
			due, err := s.lockDue(ctx, tx, ids)
			if err != nil || len(due) == 0 {
				found = verdicts{}
				return err
			}
			if found, err = s.cover(ctx, tx, due); err != nil {
				return err
			}
			err = s.writeClaims(ctx, tx, found)
			failpoint.At("transfer/before-claim-commit")
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(found.covered) > 0 {
			failpoint.At("transfer/after-claim-commit")
		}
		count(found.ends)
		byID := found.outcomes(s.Log)
		out := make([]batch.Outcome[claimed], len(ids))
		for i, id := range ids {
			out[i] = byID[id]
			delete(byID, id) // asked for twice in one batch: one caller has it
		}
		return out, nil
	})
}

// lockDue locks the transfers that are due and in nobody's hands, in the order of their ids.
func (s *Service) lockDue(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]*step, error) {
	now := s.Clock.Now()
	rows, err := tx.Query(ctx, `
		SELECT t.id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.bank_code, t.account_number, t.account_name, t.narration, n.name,
			t.attempt_count, CASE t.status WHEN 'pending' THEN t.created_at WHEN 'processing' THEN t.submitted_at ELSE t.updated_at END,
			t.ask_count, t.unknown_count, t.traceparent, cardinality(n.webhook_events) > 0 OR coalesce(n.listening_until > $2, false)
		FROM transfers t JOIN tenants n ON n.id = t.tenant_id
		WHERE t.id = ANY($1) AND t.next_attempt_at <= $2 AND coalesce(t.leased_until, '-infinity') <= $2 ORDER BY t.id FOR NO KEY UPDATE OF t`, ids, now)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (*step, error) {
		c := step{Lease: now.Add(s.Lease)}
		err := r.Scan(&c.ID, &c.AccountID, &c.Ref, &c.Status, &c.Amount, &c.BankCode, &c.AccountNumber, &c.AccountName, &c.Narration, &c.SenderName,
			&c.Attempts, &c.Since, &c.Asks, &c.Unknown, &c.Traceparent, &c.Tells)
		c.Early = now.Before(s.countsFrom(&c))
		return &c, err
	})
}

// writeClaims leases the transfers that may go on, puts off those that must wait, and ends those that never may.
func (s *Service) writeClaims(ctx context.Context, tx pg.Tx, v verdicts) error {
	var ids []uuid.UUID
	for _, st := range v.covered {
		ids = append(ids, st.ID)
	}
	for _, p := range v.short {
		ids = append(ids, p.id)
	}
	if len(ids) > 0 {
		if _, err := tx.Exec(ctx, `UPDATE transfers SET leased_until = $2 WHERE id = ANY($1)`, ids, v.lease); err != nil {
			return err
		}
	}
	if err := putOff(ctx, tx, v.short); err != nil {
		return err
	}
	return s.endAll(ctx, tx, v.ends)
}

// outcomes are the verdicts by transfer, once they are committed.
func (v *verdicts) outcomes(log *slog.Logger) map[uuid.UUID]batch.Outcome[claimed] {
	out := map[uuid.UUID]batch.Outcome[claimed]{}
	for _, st := range v.covered {
		out[st.ID] = batch.Outcome[claimed]{Value: claimed{step: st}}
	}
	for _, p := range v.short {
		out[p.id] = batch.Outcome[claimed]{Value: claimed{wait: retry.At(*p.at, errCover)}}
	}
	for _, e := range v.ends {
		out[e.ID] = batch.Outcome[claimed]{Value: claimed{told: e.told}, Err: e.err}
		log.Warn(e.why, slog.String("transfer", e.Ref), slog.Any("err", e.err))
	}
	return out
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
