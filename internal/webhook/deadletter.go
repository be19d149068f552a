package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/page"
)

// DeadLetter is a delivery that is out of attempts, as its tenant sees it. Field names and casing are the wire's.
// (Specification, "Dead letter".)
type DeadLetter struct {
	ID           uuid.UUID
	CallbackURL  string
	Status       Status
	AttemptCount int        // 6; a multiple of it after a replay
	LastError    string     // of the last attempt
	NextRetryAt  *time.Time // always null
	CreatedAt    time.Time  // when the payment's event was received
}

// DeadLetters lists the tenant's exhausted deliveries, newest first. A bad cursor is page.ErrCursor.
func (s *Service) DeadLetters(ctx context.Context, tenant uuid.UUID, r page.Request) ([]DeadLetter, page.Info, error) {
	before, err := before(r)
	if err != nil {
		return nil, page.Info{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, callback_url, status, attempt_count, last_error, created_at
		FROM deliveries WHERE tenant_id = $1 AND status = 'dead_letter' AND id < $2
		ORDER BY id DESC LIMIT $3`, tenant, before, r.Limit+1)
	if err != nil {
		return nil, page.Info{}, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (DeadLetter, error) {
		var d DeadLetter
		err := row.Scan(&d.ID, &d.CallbackURL, &d.Status, &d.AttemptCount, &d.LastError, &d.CreatedAt)
		d.CreatedAt = d.CreatedAt.UTC()
		return d, err
	})
	if err != nil {
		return nil, page.Info{}, err
	}
	found, info := page.Cut(found, r, func(d DeadLetter) string { return page.ID(d.ID) })
	return found, info, nil
}

// before is the id below which a page of a list begins that shows the newest first: without a cursor, the highest there is.
func before(r page.Request) (uuid.UUID, error) {
	id, ok, err := page.ParseID(r.After)
	if !ok {
		id = uuid.Max
	}
	return id, err
}

// Replay gives a dead letter a fresh set of attempts, the first of them due at once; the count and the numbers of the
// attempts go on. For an operator, who rings afterwards. [ErrNotFound], or [ErrNotDeadLetter] in any other state.
func (s *Service) Replay(ctx context.Context, id uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, `
		UPDATE deliveries SET status = $2, next_attempt_at = $3, leased_until = NULL
		WHERE id = $1 AND status = ANY($4)`, id, string(Pending), s.clock.Now(), Transitions.From(EventReplay))
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	if _, err := s.Get(ctx, id); err != nil {
		return err
	}
	return ErrNotDeadLetter
}
