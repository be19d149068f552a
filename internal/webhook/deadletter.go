package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// DeadLetter is a delivery that is out of attempts, as its tenant sees it. Field names and casing
// are the wire's. (Specification, "Dead letter".)
type DeadLetter struct {
	ID           uuid.UUID
	CallbackURL  string
	Status       Status
	AttemptCount int        // 6; a multiple of it after a replay
	LastError    string     // of the last attempt
	NextRetryAt  *time.Time // always null
	CreatedAt    time.Time  // as the delivery's
}

// DeadLetters lists the tenant's exhausted deliveries, newest first. A bad cursor is
// page.ErrCursor.
func (s *Service) DeadLetters(ctx context.Context, tenant uuid.UUID, r page.Request) ([]DeadLetter, page.Info, error) {
	list := pg.List[DeadLetter]{Name: page.DeadLetters, ID: func(d DeadLetter) uuid.UUID { return d.ID }, Row: func(row pgx.CollectableRow) (DeadLetter, error) {
		d, err := pgx.RowToStructByPos[Delivery](row)
		return DeadLetter{ID: d.ID, CallbackURL: d.CallbackURL, Status: d.Status, AttemptCount: d.AttemptCount, LastError: d.LastError, CreatedAt: d.CreatedAt.UTC()}, err
	}}
	return list.Page(ctx, pg.Reader(ctx, s.pool), r, deliveryQuery+` WHERE d.tenant_id = $3 AND d.dead AND d.id < $1 ORDER BY d.id DESC LIMIT $2`, tenant)
}

// Replay gives a dead letter a fresh set of attempts, the first of them due at once; the count and
// the numbers of the attempts go on. It and the record of who did it are one commit. For an
// operator. [ErrNotFound], or [ErrNotDeadLetter] in any other state.
func (s *Service) Replay(ctx context.Context, id uuid.UUID, by audit.By) error {
	return s.replayOf(ctx, uuid.Nil, id, by)
}

// ReplayOwn is [Service.Replay] at the word of the tenant whose delivery it is, and returns it.
// Another tenant's is [ErrNotFound].
func (s *Service) ReplayOwn(ctx context.Context, tenant, id uuid.UUID, by audit.By) (Delivery, error) {
	if err := s.replayOf(ctx, tenant, id, by); err != nil {
		return Delivery{}, err
	}
	return s.find(ctx, tenant, id)
}

// replayOf replays a delivery of the tenant, or of any (uuid.Nil).
func (s *Service) replayOf(ctx context.Context, tenant, id uuid.UUID, by audit.By) error {
	return pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		now := s.clock.Now()
		var detail struct {
			TenantID     uuid.UUID
			CallbackURL  string
			AttemptCount int
			LastError    string
		}
		err := tx.QueryRow(ctx, `
			UPDATE deliveries SET status = $2
			WHERE id = $1 AND status = ANY($3) AND ($4::uuid IS NULL OR tenant_id = $4) RETURNING tenant_id, callback_url, attempt_count, last_error`,
			id, string(Pending), Transitions.From(EventReplay), unlessNil(tenant)).
			Scan(&detail.TenantID, &detail.CallbackURL, &detail.AttemptCount, &detail.LastError)
		if pg.IsNoRows(err) {
			return whyNot(ctx, tx, tenant, id)
		}
		if err != nil {
			return err
		}
		if err := work.Schedule(ctx, tx, work.Item{Kind: work.Deliver, ID: id, TenantID: detail.TenantID, DueAt: now}); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("deliveries.replay", "delivery:"+id.String(), detail).Of(detail.TenantID))
	})
}

// whyNot says why no dead letter of that id was found.
func whyNot(ctx context.Context, q pg.Querier, tenant, id uuid.UUID) error {
	var known bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM deliveries WHERE id = $1 AND ($2::uuid IS NULL OR tenant_id = $2))`, id, unlessNil(tenant)).Scan(&known)
	switch {
	case err != nil:
		return err
	case !known:
		return missing(ctx, q, tenant, id)
	}
	return ErrNotDeadLetter
}
