package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/page"
	"ajo/internal/pg"
)

// Delivery is a row of the table, for operators.
type Delivery struct {
	ID                 uuid.UUID
	TenantID           uuid.UUID
	AccountID          uuid.UUID
	TransactionGroupID uuid.UUID
	EventType          string
	CallbackURL        string
	Status             Status
	AttemptCount       int
	LastError          string
	NextAttemptAt      *time.Time
	LeasedUntil        *time.Time
	CreatedAt          time.Time
	DeliveredAt        *time.Time
}

// Attempt is one try to deliver.
type Attempt struct {
	Number     int // from 1
	StartedAt  time.Time
	Duration   time.Duration
	StatusCode *int   // nil when no answer came
	Error      string // empty when delivered
	Body       []byte // of the answer, at most 16 KiB, as it came
}

// Filter narrows a list; its zero value takes all.
type Filter struct {
	TenantID uuid.UUID
	Status   Status
}

// maxAttempts bounds what [Service.Attempts] returns.
const maxAttempts = 100

// List lists deliveries of all tenants, newest first, for operators. A bad cursor is page.ErrCursor.
func (s *Service) List(ctx context.Context, f Filter, r page.Request) ([]Delivery, page.Info, error) {
	before, err := before(r)
	if err != nil {
		return nil, page.Info{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, tenant_id, account_id, transaction_group_id, event_type, callback_url, status, attempt_count, last_error,
			next_attempt_at, leased_until, created_at, delivered_at
		FROM deliveries
		WHERE id < $1 AND ($2::uuid IS NULL OR tenant_id = $2) AND ($3 = '' OR status = $3)
		ORDER BY id DESC LIMIT $4`, before, uuid.NullUUID{UUID: f.TenantID, Valid: f.TenantID != uuid.Nil}, string(f.Status), r.Limit+1)
	if err != nil {
		return nil, page.Info{}, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Delivery])
	if err != nil {
		return nil, page.Info{}, err
	}
	found, info := page.Cut(found, r, func(d Delivery) string { return page.ID(d.ID) })
	return found, info, nil
}

// Get returns a delivery, for operators, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Delivery, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, tenant_id, account_id, transaction_group_id, event_type, callback_url, status, attempt_count, last_error,
			next_attempt_at, leased_until, created_at, delivered_at
		FROM deliveries WHERE id = $1`, id)
	if err != nil {
		return Delivery{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Delivery])
	if pg.IsNoRows(err) {
		return Delivery{}, ErrNotFound
	}
	return d, err
}

// Attempts returns the delivery's attempts, the last one first, at most a hundred, for operators.
func (s *Service) Attempts(ctx context.Context, id uuid.UUID) ([]Attempt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT attempt, started_at, duration_ms, status_code, error, response_body
		FROM delivery_attempts WHERE delivery_id = $1 ORDER BY attempt DESC LIMIT $2`, id, maxAttempts)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Attempt, error) {
		var a Attempt
		var ms int64
		err := row.Scan(&a.Number, &a.StartedAt, &ms, &a.StatusCode, &a.Error, &a.Body)
		a.Duration = time.Duration(ms) * time.Millisecond
		return a, err
	})
}
