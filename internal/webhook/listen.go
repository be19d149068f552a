package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/page"
	"ajo/internal/pg"
)

const (
	listenFor   = time.Minute            // how long a tenant counts as listening after a call
	listenAgain = 45 * time.Second       // the row is written again when less than this is left
	listenEvery = 250 * time.Millisecond // how often a waiting call reads the feed
	listenMax   = 100                    // events in one answer
)

// FeedEvent is an event as a listening tenant reads it. Field names and casing are the wire's.
type FeedEvent struct {
	ID        uuid.UUID `json:"id"` // its webhook-id, the same each time that it is sent
	EventType Type      `json:"eventType"`
	CreatedAt time.Time `json:"createdAt"` // when it came into the feed
	Body      string    `json:"body"`      // the JSON of its delivery
}

// Listens reports whether a tenant whose row has that listening_until listens at the time now.
func Listens(until *time.Time, now time.Time) bool { return until != nil && until.After(now) }

// feedRow is the row of an event in the feed of its tenant.
type feedRow struct {
	ID        uuid.UUID `pg:"id"`
	TenantID  uuid.UUID `pg:"tenant_id"`
	Type      Type      `pg:"event_type"`
	Body      []byte    `pg:"body"`
	CreatedAt time.Time `pg:"created_at"` // when it came into the feed: it is kept for an hour from then on
}

var feedSQL = pg.Insert[feedRow]("listen_events", 1) + ` ORDER BY n`

// AppendFeed adds events to the feeds of the listening tenants, in the transaction of the facts;
// other tenants' events are left out. It locks each of these feeds, so that their events are
// numbered in the order of the commits. That is the last lock of the transaction
// (docs/architecture.md, Lock order).
func AppendFeed(ctx context.Context, tx pg.Tx, now time.Time, events []NewDelivery) error {
	var rows []feedRow
	var tenants []uuid.UUID
	for i := range events {
		e := &events[i]
		if !e.Listening {
			continue
		}
		body, err := encode(e.Payload.wire(e))
		if err != nil {
			return err
		}
		tenants = append(tenants, e.TenantID)
		rows = append(rows, feedRow{messageID(e.Type, e.TransactionGroupID), e.TenantID, e.Type, body, now})
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `
		SELECT pg_advisory_xact_lock(k) FROM (SELECT DISTINCT hashtextextended('listen ' || t, 0) AS k FROM unnest($1::uuid[]) t ORDER BY k) s`, tenants); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, feedSQL, pg.Columns(rows)...)
	return err
}

// Listen marks the tenant as listening for a minute. It returns the events of its feed after place,
// at most a hundred, in the order in which they were committed, and the place after the last one.
// An empty place means now. If there is no event, it waits until one comes, the duration wait has
// passed, ctx ends, or leave returns true. Without an event it returns none, and no error. A bad
// place is page.ErrCursor, as is one that the database has not reached: it was restored since. A
// feed has only the tenant's own events; those older than an hour may be gone.
func (s *Service) Listen(ctx context.Context, tenant uuid.UUID, place string, wait time.Duration, leave func() bool) ([]FeedEvent, string, error) {
	seq, err := page.ParseSeq(page.Feed, tenant, place)
	if err != nil {
		return nil, "", err
	}
	now := s.clock.Now()
	if _, err := s.pool.Exec(ctx, `UPDATE tenants SET listening_until = $2 WHERE id = $1 AND coalesce(listening_until, '-infinity') < $3`,
		tenant, now.Add(listenFor), now.Add(listenAgain)); err != nil {
		return nil, "", err
	}
	if place == "" {
		if err := s.pool.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM listen_events WHERE tenant_id = $1`, tenant).Scan(&seq); err != nil {
			return nil, "", err
		}
	}
	var last int64 // of all feeds: the rows are kept for an hour
	if err := s.pool.QueryRow(ctx, `SELECT last_value FROM listen_events_seq_seq`).Scan(&last); err != nil {
		return nil, "", err
	}
	if seq > last {
		return nil, "", page.ErrCursor
	}
	for end := time.Now().Add(wait); ; {
		events, next, err := s.readFeed(ctx, tenant, seq)
		if err != nil || len(events) > 0 || !time.Now().Before(end) || leave() {
			return events, page.Seq(page.Feed, tenant, next), err
		}
		select {
		case <-ctx.Done():
			return events, page.Seq(page.Feed, tenant, next), nil
		case <-time.After(min(listenEvery, time.Until(end))):
		}
	}
}

// readFeed reads the events of the tenant's feed after seq, and returns the seq of the last one.
func (s *Service) readFeed(ctx context.Context, tenant uuid.UUID, seq int64) ([]FeedEvent, int64, error) {
	found, err := pg.Collect(ctx, s.pool, func(row pgx.CollectableRow) (h FeedEvent, err error) {
		return h, row.Scan(&h.ID, &h.EventType, &h.CreatedAt, &h.Body, &seq)
	}, `
		SELECT id, event_type, created_at, convert_from(body, 'UTF8'), seq FROM listen_events
		WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, tenant, seq, listenMax)
	return found, seq, err
}
