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
	Since       time.Time // the first of their failed attempts
	LastError   string    // of one of them
}

// Failing returns at most 100 endpoints with deliveries that wait after a failed attempt, the
// longest failing first, without those that are paused. Attempts before a delivery's last replay do
// not count, nor does the age of its event, which may be weeks older than the delivery. It reads
// 10,000 waiting deliveries. For operators, and for the mail to the tenant.
func (s *Service) Failing(ctx context.Context) ([]FailingEndpoint, error) {
	return pg.Collect(ctx, s.pool, pgx.RowToStructByPos[FailingEndpoint], `
		SELECT d.tenant_id, coalesce(t.name, ''), coalesce(t.email, ''), d.callback_url, count(*), min(coalesce(a.started_at, d.created_at)) AS since, max(d.last_error)
		FROM (SELECT id FROM work WHERE kind = 'deliver' ORDER BY due_at LIMIT $1) w
		JOIN deliveries d ON d.id = w.id
		LEFT JOIN LATERAL (
			SELECT started_at FROM delivery_attempts WHERE delivery_id = d.id AND attempt > coalesce(d.replayed_after, 0) ORDER BY attempt LIMIT 1) a ON true
		LEFT JOIN tenants t ON t.id = d.tenant_id
		LEFT JOIN webhook_endpoints e ON e.id = d.endpoint_id
		WHERE d.attempt_count > coalesce(d.replayed_after, 0) AND d.status = 'pending' AND e.paused_at IS NULL AND e.removed_at IS NULL
		GROUP BY d.tenant_id, t.name, t.email, d.callback_url ORDER BY since LIMIT 100`, failingRows)
}
