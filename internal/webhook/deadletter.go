package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/partition"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
	"ajo/internal/work"
)

// DeadLetter is a delivery that has used up its attempts, as its tenant sees it. Field names and
// casing are the wire's. (Specification, "Dead letter".)
type DeadLetter struct {
	ID           uuid.UUID
	CallbackURL  string
	Status       Status
	AttemptCount int        // 6, or 10 with retries for a day; more after a replay
	LastError    string     // of the last attempt
	NextRetryAt  *time.Time // always null
	CreatedAt    time.Time  // as the delivery's
}

// DeadLetters lists the tenant's exhausted deliveries, newest first. A bad cursor is
// page.ErrCursor.
func (s *Service) DeadLetters(ctx context.Context, tenant uuid.UUID, r page.Request) ([]DeadLetter, page.Info, error) {
	list := pg.List[DeadLetter]{Name: page.DeadLetters, ID: func(d DeadLetter) uuid.UUID { return d.ID }, Row: func(row pgx.CollectableRow) (DeadLetter, error) {
		d, err := pgx.RowToStructByPos[Record](row)
		return DeadLetter{ID: d.ID, CallbackURL: d.CallbackURL, Status: d.Status, AttemptCount: d.AttemptCount, LastError: d.LastError, CreatedAt: d.CreatedAt.UTC()}, err
	}}
	return list.Page(ctx, pg.Reader(ctx, s.pool), r, deliveryQuery+` WHERE d.tenant_id = @tenant AND d.dead AND d.id < @before ORDER BY d.id DESC LIMIT @limit`,
		pgx.NamedArgs{"tenant": tenant})
}

// Replay gives a dead letter a fresh set of attempts, the first of them due at once; the count and
// the numbers of the attempts continue. It and the record of who did it are one commit. For an
// operator. [ErrNotFound], [ErrNotDeadLetter] in any other state, [errEndpointRemoved] or
// [errEndpointPaused]: it would only wait there, and perhaps end at once, as it is old.
func (s *Service) Replay(ctx context.Context, id uuid.UUID, by audit.By) error {
	return s.replayOf(ctx, uuid.Nil, id, by)
}

// ReplayOwn is [Service.Replay] for the tenant whose delivery it is, and returns the delivery.
// Another tenant's is [ErrNotFound].
func (s *Service) ReplayOwn(ctx context.Context, tenant, id uuid.UUID, by audit.By) (Delivery, error) {
	if err := s.replayOf(ctx, tenant, id, by); err != nil {
		return Delivery{}, err
	}
	d, err := s.find(ctx, tenant, id)
	return d.Delivery, err
}

// Deliveries that are sent again together are due one after the other, not all at once, so that new
// events need not wait behind them.
const (
	resendMax   = 1000
	resendEvery = 100 * time.Millisecond
)

// madeBefore is how much older than the time of its event a delivery's id may be: clocks differ.
const madeBefore = time.Hour

// deadSinceSQL finds the dead letters of a time ($3) and later, and locks them: those that were
// made then or later, which their ids say ($4), and those of an event since then. The event may be
// much older than the delivery: a payment is assigned weeks after it came. By their ids ($2) it
// leaves out the older ones, of which there may be millions.
const deadSinceSQL = `
				SELECT id FROM deliveries WHERE tenant_id = $1 AND dead AND id >= $2 AND (created_at >= $3 OR id >= $4) AND ` + endpointTakes + ` ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED`

// deadSince are the arguments of deadSinceSQL.
func deadSince(tenant uuid.UUID, since time.Time) []any {
	return []any{tenant, firstOf(since.Add(-madeBefore)), since, firstOf(since), resendMax}
}

// firstOf is the least id of a time, or of all where there were none yet.
func firstOf(at time.Time) uuid.UUID {
	if at.Unix() <= 0 {
		return uuid.Nil
	}
	return partition.Floor(at)
}

// Replayable is a dead letter as a replay sends it: with its endpoint's URL of now. For operators;
// the refusals of [Service.Replay].
func (s *Service) Replayable(ctx context.Context, id uuid.UUID) (d Record, err error) {
	if d, err = s.Get(ctx, id); err != nil {
		return d, err
	}
	if d.Status != Dead {
		return d, ErrNotDeadLetter
	}
	if d.EndpointID == nil {
		return d, nil
	}
	var paused, removed bool
	err = s.pool.QueryRow(ctx, `SELECT url, paused_at IS NOT NULL, removed_at IS NOT NULL FROM webhook_endpoints WHERE id = $1`, *d.EndpointID).
		Scan(&d.CallbackURL, &paused, &removed)
	switch {
	case err != nil:
	case removed:
		err = errEndpointRemoved
	case paused:
		err = errEndpointPaused
	}
	return d, err
}

// ReplaySince gives the tenant's dead letters of a time and later a fresh set of attempts, as
// [Service.Replay] does: the oldest first, ten a second, at most a thousand. It leaves out those
// that Replay would refuse. It returns how many, and whether there are more.
func (s *Service) ReplaySince(ctx context.Context, tenant uuid.UUID, since time.Time, by audit.By) (n int, more bool, err error) {
	err = pg.InTx(ctx, s.pool, func(tx pg.Tx) error {
		ids, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `
			UPDATE deliveries SET status = $6, replayed_after = attempt_count
			WHERE id = ANY(ARRAY(`+deadSinceSQL+`)) AND status = ANY($7)
			RETURNING id`, append(deadSince(tenant, since), string(Pending), Transitions.From(EventReplay))...)
		if n, more = len(ids), len(ids) == resendMax; err != nil || n == 0 {
			return err
		}
		slices.SortFunc(ids, pg.CompareIDs)
		now := s.clock.Now()
		items := make([]work.Item, n)
		for i, id := range ids {
			items[i] = work.Item{Kind: work.Deliver, ID: id, TenantID: tenant, DueAt: now.Add(time.Duration(i) * resendEvery)}
		}
		if err := work.Schedule(ctx, tx, items...); err != nil {
			return err
		}
		detail := struct {
			Since time.Time
			Count int
		}{since, n}
		return audit.Write(ctx, tx, now, by.Entry("deliveries.replay_since", "tenant:"+tenant.String(), detail).Of(tenant))
	})
	return n, more, err
}

// endpointTakes is, as SQL, the condition that the delivery's endpoint is neither removed nor
// paused.
const endpointTakes = `(endpoint_id IS NULL OR EXISTS (
				SELECT FROM webhook_endpoints e WHERE e.id = ANY(ARRAY[endpoint_id]) AND e.removed_at IS NULL AND e.paused_at IS NULL))`

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
			UPDATE deliveries SET status = $2, replayed_after = attempt_count
			WHERE id = $1 AND status = ANY($3) AND ($4::uuid IS NULL OR tenant_id = $4) AND `+endpointTakes+`
			RETURNING tenant_id, coalesce((SELECT e.url FROM webhook_endpoints e WHERE e.id = ANY(ARRAY[endpoint_id])), callback_url), attempt_count, last_error`,
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
		detail.CallbackURL = safehttp.Shown(detail.CallbackURL)
		return audit.Write(ctx, tx, now, by.Entry("deliveries.replay", "delivery:"+id.String(), detail).Of(detail.TenantID))
	})
}

// whyNot returns why no dead letter with that id was found.
func whyNot(ctx context.Context, q pg.Querier, tenant, id uuid.UUID) error {
	var dead, removed bool
	err := q.QueryRow(ctx, `
		SELECT d.dead, e.removed_at IS NOT NULL FROM deliveries d LEFT JOIN webhook_endpoints e ON e.id = d.endpoint_id
		WHERE d.id = $1 AND ($2::uuid IS NULL OR d.tenant_id = $2)`, id, unlessNil(tenant)).Scan(&dead, &removed)
	switch {
	case pg.IsNoRows(err):
		return missing(ctx, q, tenant, id)
	case err != nil:
		return err
	case dead && removed:
		return errEndpointRemoved
	case dead:
		return errEndpointPaused
	}
	return ErrNotDeadLetter
}
