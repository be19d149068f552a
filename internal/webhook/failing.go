package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// failingRows is how many waiting deliveries are read to find failing endpoints.
const failingRows = 10_000

// FailingEndpoint is a URL whose deliveries are tried again and again.
type FailingEndpoint struct {
	TenantID    uuid.UUID
	Tenant      string
	Email       string // the tenant's
	CallbackURL string
	Deliveries  int       // that wait after a failure
	Since       time.Time // the oldest of them was made
	LastError   string    // of one of them
}

// Failing returns at most 100 endpoints with deliveries that wait after a failed attempt, the
// longest failing first, without those that are paused. It reads 10,000 waiting deliveries. For
// operators, and for the mail to the tenant.
func (s *Service) Failing(ctx context.Context) ([]FailingEndpoint, error) {
	return pg.Collect(ctx, s.pool, pgx.RowToStructByPos[FailingEndpoint], `
		SELECT d.tenant_id, coalesce(t.name, ''), coalesce(t.email, ''), d.callback_url, count(*), min(d.created_at), max(d.last_error)
		FROM (SELECT id FROM work WHERE kind = 'deliver' ORDER BY due_at LIMIT $1) w
		JOIN deliveries d ON d.id = w.id
		LEFT JOIN tenants t ON t.id = d.tenant_id
		LEFT JOIN webhook_endpoints e ON e.id = d.endpoint_id
		WHERE d.attempt_count > 0 AND d.status = 'pending' AND e.paused_at IS NULL AND e.removed_at IS NULL
		GROUP BY d.tenant_id, t.name, t.email, d.callback_url ORDER BY min(d.created_at) LIMIT 100`, failingRows)
}
