package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/work"
)

const (
	// PausedMost is how old a delivery becomes at most while its endpoint is paused. It is less
	// than the least AJO_KEEP_DELIVERIES, so that a pause that is never ended keeps nothing of any
	// tenant from the archive.
	PausedMost = 30 * 24 * time.Hour
	// pausedLook is how long a delivery waits at most until it looks whether its endpoint is still
	// paused. [Resume] makes it due sooner; what that does not come to is due by then.
	pausedLook = 24 * time.Hour
	// triedFor is longer than any delivery is tried for: older ones do not wait for a pause that
	// begins, unless they were replayed.
	triedFor = 48 * time.Hour
)

// Why a delivery to an endpoint that is paused makes no attempt, which counts as none.
var (
	errPaused     = errors.New("webhook: the endpoint is paused")
	errPausedLong = errors.New("the endpoint was paused, and the delivery was at least 30 days old")
)

// waitForPause puts off a delivery whose endpoint is paused, to be due in a day at the latest. One
// that is as old as [PausedMost] becomes a dead letter that says so.
func (s *Service) waitForPause(ctx context.Context, w *dueDelivery, now time.Time) error {
	end := partition.TimeOf(w.ID).Add(PausedMost)
	if !end.After(now) {
		return s.endUnsent(ctx, w, errPausedLong)
	}
	metrics.Deferred.Inc(putOffAs[errPaused])
	look := now.Add(pausedLook - rand.N(pausedLook/10))
	if end.Before(look) {
		look = end
	}
	return s.putOff(ctx, w, look.Truncate(time.Microsecond), errPaused)
}

// later is a delivery that is put off.
type later struct {
	work.Outcome
	paused *uuid.UUID // the endpoint for whose pause it waits; nil: it waits for something else
}

// postpone puts off deliveries that make no attempt, and reports for each whether it did: a
// delivery that has been claimed, ended or put off meanwhile stays as it is. A pause is looked at
// again behind the locks of the items: [Resume] either waits for these, or has come before, and has
// left to this what was claimed. Then the delivery is due at once.
func (s *Service) postpone(ctx context.Context, tx pg.Tx, all []later) ([]bool, error) {
	outcomes := make([]work.Outcome, len(all))
	var endpoints []uuid.UUID
	for i, l := range all {
		if outcomes[i] = l.Outcome; l.paused != nil {
			endpoints = append(endpoints, *l.paused)
		}
	}
	held, err := work.Finish(ctx, tx, work.Deliver, outcomes)
	if err != nil || len(endpoints) == 0 {
		return held, err
	}
	rows := pg.Rows(ctx, tx, `SELECT id FROM webhook_endpoints WHERE id = ANY($1) AND (paused_at IS NULL OR removed_at IS NOT NULL)`, endpoints)
	resumed := map[uuid.UUID]bool{}
	var id uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { resumed[id] = true; return nil }); err != nil {
		return nil, err
	}
	var due []uuid.UUID
	for i, l := range all {
		if held[i] && l.paused != nil && resumed[*l.paused] {
			due = append(due, l.ID)
		}
	}
	if len(due) > 0 {
		_, err = work.Expedite(ctx, tx, work.Deliver, s.clock.Now(), due...)
	}
	return held, err
}

const waitingSQL = `
	SELECT id FROM deliveries WHERE tenant_id = $1 AND endpoint_id = $2 AND id > $3 AND status = 'pending' ORDER BY id LIMIT $4`

// Resume makes due what waits for an endpoint that was paused from a time on: the oldest first, ten
// a second, so that new events need not wait behind them. It comes after the commit that ends the
// pause, or removes the endpoint. What it does not come to, because there is too much or the
// process dies, is due in a day at the latest.
func Resume(ctx context.Context, pool *pg.Pool, now time.Time, tenant, endpoint uuid.UUID, pausedAt time.Time) error {
	after := partition.Floor(pausedAt.Add(-triedFor))
	for first := now; first.Before(now.Add(pausedLook)); {
		ids, err := pg.Collect(ctx, pool, pgx.RowTo[uuid.UUID], waitingSQL, tenant, endpoint, after, resendMax)
		if err != nil || len(ids) == 0 {
			return err
		}
		err = pg.InTx(ctx, pool, func(tx pg.Tx) error {
			return work.Stagger(ctx, tx, work.Deliver, now, first, resendEvery, ids...)
		})
		if err != nil {
			return err
		}
		after, first = ids[len(ids)-1], first.Add(time.Duration(len(ids))*resendEvery)
	}
	return nil
}

// PausedEndpoint is an endpoint that its tenant has paused.
type PausedEndpoint struct {
	ID       uuid.UUID
	TenantID uuid.UUID
	Tenant   string
	Email    string // the tenant's
	URL      string
	Since    time.Time
}

// Paused returns at most limit endpoints that were paused after a time, and at another or before,
// the longest paused first. For operators, and for the mail to the tenant.
func (s *Service) Paused(ctx context.Context, after, until time.Time, limit int) ([]PausedEndpoint, error) {
	return pg.Collect(ctx, s.pool, pgx.RowToStructByPos[PausedEndpoint], `
		SELECT e.id, e.tenant_id, t.name, t.email, e.url, e.paused_at FROM webhook_endpoints e JOIN tenants t ON t.id = e.tenant_id
		WHERE e.paused_at > $1 AND e.paused_at <= $2 AND e.removed_at IS NULL ORDER BY e.paused_at, e.id LIMIT $3`, after, until, limit)
}
