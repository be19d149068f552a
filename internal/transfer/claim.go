package transfer

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/batch"
	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/retry"
)

// step is a due transfer that is ours to advance: what is found is recorded under its token.
type step struct {
	ID            uuid.UUID
	TenantID      uuid.UUID
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
	// when the schedule of its status began: at acceptance, at the last submission, at the end
	Since        time.Time
	Asks         int  // looks since then that were at their time
	Unknown      int  // those of them that the bank answered with "not known"
	Early        bool // this look is before its time: somebody woke the transfer
	Traceparent  string
	Tells        bool // the tenant chose more events than received payments, or listens
	Acknowledged bool // an answer of the bank has shown that it has the reference
	// what leaves by its debit: the amount, unless an operator has found another
	Paid       money.Amount
	Difference string    // what the bank's record was seen to say otherwise than the books
	Differs    bool      // the difference waits for a person
	DebitGroup uuid.UUID // the transaction group of its debit
	// of the account, by then: one more, and it is no longer certain that the transfer is covered
	Recalls int64
	token
	learned
}

func (st *step) id() uuid.UUID { return st.ID }

// claimed is what a claim came to: the step, or a wait ([retry]) of a transfer that lacks cover.
// Neither is nothing: the transfer is not due, in other hands, or has ended here.
type claimed struct {
	step *step
	wait error
}

// claim takes a due transfer in hand; nil when it is not due, or in other hands. One that lacks
// cover waits (a [retry] error), and one that will never have it ends here.
//
// What is asked of the bank is leased first, but for a pending transfer that is covered: its first
// step only names the holder, which two workers may do at once. Of these the first to record
// anything has it; see [token]. What was covered when it was looked at still is when it is
// submitted; see [Service.cover].
func (s *Service) claim(ctx context.Context, id uuid.UUID) (*step, error) {
	c, err := pg.Flat(s.claims.Do(ctx, id))
	if err != nil {
		return nil, err
	}
	return c.step, c.wait
}

// claimAll finds the transfers that go without a lease, leases the others that are due, puts off
// those of them that lack cover, and ends those that will never have it.
func (s *Service) claimAll(ctx context.Context, tx pg.Tx, ids []uuid.UUID) ([]batch.Outcome[claimed], error) {
	now := s.Clock.Now()
	free, err := s.findCovered(ctx, tx, now, ids)
	if err != nil {
		return nil, err
	}
	v := verdicts{covered: free}
	rest := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool {
		return slices.ContainsFunc(free, func(st *step) bool { return st.ID == id })
	})
	if len(rest) == 0 {
		return v.outcomes(ids), nil
	}
	leased, err := s.leaseDue(ctx, tx, now, rest)
	if err != nil {
		return nil, err
	}
	if err := s.cover(ctx, tx, now, leased, &v); err != nil {
		return nil, err
	}
	if _, err := s.putOff(ctx, tx, v.short); err != nil {
		return nil, err
	}
	if len(v.ends) > 0 {
		tx.AfterCommit(func(context.Context) { s.report(v.ends) })
	}
	err = s.endAll(ctx, tx, v.ends)
	return v.outcomes(ids), err
}

const (
	stepColumns = `t.id, t.tenant_id, t.account_id, t.merchant_tx_ref, t.status, t.amount, t.bank_code, t.account_number, t.account_name, t.narration, n.name,
		t.attempt_count, CASE t.status WHEN 'pending' THEN t.created_at WHEN 'processing' THEN t.submitted_at ELSE t.updated_at END,
		t.ask_count, t.unknown_count, t.traceparent, cardinality(n.webhook_events) > 0 OR coalesce(n.listening_until > $2, false),
		t.acknowledged_at IS NOT NULL, coalesce(t.paid_amount, t.amount), t.difference, t.differs_since IS NOT NULL, coalesce(t.debit_group, t.id),
		t.next_attempt_at, t.leased_until, (SELECT coalesce(r.recall_count, 0) FROM ledger_balances r WHERE r.account_id = t.account_id)`
	isDue = `coalesce(t.next_attempt_at, 'infinity') <= $2 AND coalesce(t.leased_until, '-infinity') <= $2`
	// coveredSQL finds pending transfers of accounts whose confirmed money covers all of their
	// debits, and so each. (The CASE hides the status from the planner, which would read all that
	// is pending.)
	coveredSQL = `SELECT ` + stepColumns + `
		FROM transfers t JOIN tenants n ON n.id = t.tenant_id JOIN ledger_balances b ON b.account_id = t.account_id
		WHERE t.id = ANY($1) AND ` + isDue + `
			AND CASE t.status WHEN 'pending' THEN b.balance - coalesce(b.recall_held, 0) - CASE WHEN $3 THEN 0 ELSE b.provisional_credits END >= 0 ELSE false END`
	leaseSQL = `WITH leased AS (
			UPDATE transfers t SET leased_until = $3 FROM unnest($1::uuid[]) AS m (id) WHERE t.id = m.id AND ` + isDue + ` RETURNING t.*)
		SELECT ` + stepColumns + ` FROM leased t JOIN tenants n ON n.id = t.tenant_id`
)

// findCovered finds the transfers that need no lease: pending, due, in nobody's hands, and covered.
// It writes and locks nothing.
func (s *Service) findCovered(ctx context.Context, tx pg.Tx, now time.Time, ids []uuid.UUID) ([]*step, error) {
	return pg.Collect(ctx, tx, s.scanStep(now), coveredSQL, ids, now, s.Provisional)
}

// leaseDue leases the transfers that are due and in nobody's hands. It locks the rows in the order
// given.
func (s *Service) leaseDue(ctx context.Context, tx pg.Tx, now time.Time, ids []uuid.UUID) ([]*step, error) {
	leased, err := pg.Collect(ctx, tx, s.scanStep(now), leaseSQL, ids, now, now.Add(s.Lease))
	for _, st := range leased {
		st.due = nil
	}
	return leased, err
}

func (s *Service) scanStep(now time.Time) pgx.RowToFunc[*step] {
	return func(r pgx.CollectableRow) (*step, error) {
		var c step
		err := r.Scan(&c.ID, &c.TenantID, &c.AccountID, &c.Ref, &c.Status, &c.Amount, &c.BankCode, &c.AccountNumber, &c.AccountName, &c.Narration, &c.SenderName,
			&c.Attempts, &c.Since, &c.Asks, &c.Unknown, &c.Traceparent, &c.Tells,
			&c.Acknowledged, &c.Paid, &c.Difference, &c.Differs, &c.DebitGroup, &c.due, &c.lease, &c.Recalls)
		c.Early = now.Before(s.countsFrom(&c))
		return &c, err
	}
}

// outcomes are the verdicts on the transfers that were asked for. One that was asked for twice is
// one caller's.
func (v *verdicts) outcomes(ids []uuid.UUID) []batch.Outcome[claimed] {
	byID := map[uuid.UUID]batch.Outcome[claimed]{}
	for _, st := range v.covered {
		byID[st.ID] = batch.Outcome[claimed]{Value: claimed{step: st}}
	}
	for _, p := range v.short {
		byID[p.ID] = batch.Outcome[claimed]{Value: claimed{wait: retry.At(*p.at, errCover)}}
	}
	for _, e := range v.ends {
		byID[e.ID] = batch.Outcome[claimed]{Err: e.err}
	}
	out := make([]batch.Outcome[claimed], len(ids))
	for i, id := range ids {
		out[i] = byID[id]
		delete(byID, id)
	}
	return out
}

// report logs and counts the ends of transfers that will never be covered, once they are committed.
func (s *Service) report(ends []*ending) {
	count(ends)
	for _, e := range ends {
		s.Log.Warn(e.outcome.why, slog.String("transfer", e.Ref), slog.Any("err", e.err))
	}
}

// gaps is the schedule of the transfer's status.
func (s *Service) gaps(st *step) []time.Duration {
	if st.Status == Pending || st.Status == Processing {
		return s.Delays
	}
	return s.Rechecks
}

// countsFrom is the earliest time at which the transfer's next look can come by its schedule; one
// before it was brought about by an event of the bank or by an operator. So n looks that counted
// took at least the first n gaps.
func (s *Service) countsFrom(st *step) time.Time {
	at, gaps := st.Since, s.gaps(st)
	for i := range min(st.Asks+1, len(gaps)) {
		at = at.Add(gaps[i])
	}
	return at
}

// next is when a transfer is looked at again, and its count of looks. A look before its time
// changes neither. A transfer that has ended is not looked at for ever: nil.
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

// Due lists the transfers whose step was due before the given time and is in nobody's hands, oldest
// first. For the sweeper.
func (s *Service) Due(ctx context.Context, before time.Time, limit int) ([]uuid.UUID, error) {
	rows, err := s.Pool.Query(ctx, `
		SELECT id FROM transfers WHERE next_attempt_at < $1 AND coalesce(leased_until, '-infinity') <= $2 ORDER BY next_attempt_at LIMIT $3`,
		before, s.Clock.Now(), limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Wake makes a transfer due at once, because the bank has said something about it, and returns its
// id; ok is false when there is nothing to ask. What the bank said is not believed: the next step
// asks, and does not count.
func (s *Service) Wake(ctx context.Context, merchantTxRef string) (id uuid.UUID, ok bool, err error) {
	failpoint.At("transfer/before-wake-commit")
	err = s.Pool.QueryRow(ctx, `
		UPDATE transfers SET next_attempt_at = least(next_attempt_at, $2) WHERE merchant_tx_ref = $1 AND attempt_count > 0 RETURNING id`,
		merchantTxRef, s.Clock.Now()).Scan(&id)
	failpoint.At("transfer/after-wake-commit")
	if pg.IsNoRows(err) {
		return id, false, nil
	}
	return id, err == nil, err
}

// Postpone puts off the work on a transfer whose handling failed, longer with each failure; see
// [pg.Postpone].
func (s *Service) Postpone(ctx context.Context, id uuid.UUID, why error) (time.Time, error) {
	return pg.Postpone(ctx, s.Pool, pg.PostponeTransfer, id, s.Clock.Now(), why)
}
