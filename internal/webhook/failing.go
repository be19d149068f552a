package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Failing endpoints are looked for among waiting deliveries.
const (
	failingScan = 1_000_000 // items of work that are read, for whose they are, and as many overdue ones
	failingRows = 10_000    // deliveries that are looked up, of each tenant as many as of the others
	failingURLs = 1000      // that are returned
)

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

// Failing returns at most 1,000 endpoints with deliveries that wait after a failed attempt, the
// longest failing first, without those that are paused. If there are more, the tenants take turns,
// so that one tenant's URLs do not hide another's. Attempts before a delivery's last replay do not
// count, nor does the age of its event, which may be weeks older than the delivery. It looks up
// 10,000 waiting deliveries, for which the tenants take turns too. For operators, and for the mail
// to the tenant.
//
// No index has the work of one tenant: it would be written with each payment. So the items that are
// due nearest to now are read, in the order of the index of due times. What has failed is due in
// minutes, and most of what waits for a paused endpoint in many hours. Of these items each tenant's
// share is looked up. The LIMIT keeps the planner from reading all deliveries instead.
func (s *Service) Failing(ctx context.Context) ([]FailingEndpoint, error) {
	return s.failingAmong(ctx, failingScan)
}

func (s *Service) failingAmong(ctx context.Context, scan int) (list []FailingEndpoint, err error) {
	err = pg.Snapshot(ctx, s.pool, func(tx pg.Tx) error {
		// otherwise the planner may read all items and sort them
		if _, err := tx.Exec(ctx, `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`); err != nil {
			return err
		}
		list, err = pg.Collect(ctx, tx, pgx.RowToStructByPos[FailingEndpoint], failingSQL, scan, failingRows, failingURLs, s.clock.Now())
		return err
	})
	return list, err
}

const failingSQL = `
		SELECT f.tenant_id, coalesce(t.name, ''), coalesce(t.email, ''), f.callback_url, f.waiting, f.since, f.last_error FROM (
			SELECT d.tenant_id, d.callback_url, count(*) AS waiting, min(coalesce(a.started_at, d.created_at)) AS since, max(d.last_error) AS last_error,
				row_number() OVER (PARTITION BY d.tenant_id ORDER BY min(coalesce(a.started_at, d.created_at))) AS turn
			FROM (
				SELECT u.id FROM (
					SELECT (array_agg(id))[1:$2] AS ids FROM (
						(SELECT id, tenant_id FROM work WHERE kind = 'deliver' AND due_at > $4 ORDER BY due_at LIMIT $1)
						UNION ALL (SELECT id, tenant_id FROM work WHERE kind = 'deliver' AND due_at <= $4 ORDER BY due_at DESC LIMIT $1)) m GROUP BY tenant_id) g
				CROSS JOIN LATERAL unnest(g.ids) WITH ORDINALITY u (id, turn) ORDER BY u.turn LIMIT $2) w
			CROSS JOIN LATERAL (SELECT * FROM deliveries WHERE id = w.id LIMIT 1) d
			LEFT JOIN LATERAL (
				SELECT started_at FROM delivery_attempts WHERE delivery_id = d.id AND attempt > coalesce(d.replayed_after, 0) ORDER BY attempt LIMIT 1) a ON true
			LEFT JOIN webhook_endpoints e ON e.id = d.endpoint_id
			WHERE d.attempt_count > coalesce(d.replayed_after, 0) AND d.status = 'pending' AND e.paused_at IS NULL AND e.removed_at IS NULL
			GROUP BY d.tenant_id, d.callback_url ORDER BY turn, since LIMIT $3) f
		LEFT JOIN tenants t ON t.id = f.tenant_id
		ORDER BY f.since`
