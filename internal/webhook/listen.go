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
	listenFor   = time.Minute            // how long a tenant counts as listening after it has asked
	listenAgain = 45 * time.Second       // what is left of that when the row is written anew
	listenEvery = 250 * time.Millisecond // how often a call that waits looks
	listenKept  = time.Hour              // how long events are shown
	listenMax   = 100                    // events in one answer
)

// Heard is an event as it is shown to a tenant that listens.
type Heard struct {
	ID        uuid.UUID // what webhook-id says of it; the same in every sending
	EventType Type
	CreatedAt time.Time
	Body      string // the JSON that a delivery has
}

// Listens reports whether a tenant whose row has that listening_until listens at the time now.
func Listens(until *time.Time, now time.Time) bool { return until != nil && until.After(now) }

// shown is the row of an event that is shown.
type shown struct {
	ID        uuid.UUID `pg:"id"`
	TenantID  uuid.UUID `pg:"tenant_id"`
	Type      Type      `pg:"event_type"`
	Body      []byte    `pg:"body"`
	CreatedAt time.Time `pg:"created_at"`
}

var showSQL = pg.Insert[shown]("listen_events", 1) + ` ORDER BY n`

// Show writes the events of those who listen, in the transaction of the facts; the others
// are left out. It is the last thing that a transaction does: it takes a lock of each tenant that
// listens, so that their events are numbered in the order of the commits. The tenants' locks are
// taken in one order, after all others.
func Show(ctx context.Context, tx pg.Tx, events []NewDelivery) error {
	var rows []shown
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
		rows = append(rows, shown{messageID(e.Type, e.TransactionGroupID), e.TenantID, e.Type, body, e.CreatedAt})
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `
		SELECT pg_advisory_xact_lock(k) FROM (SELECT DISTINCT hashtextextended('listen ' || t, 0) AS k FROM unnest($1::uuid[]) t ORDER BY k) s`, tenants); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, showSQL, pg.Columns(rows)...)
	return err
}

// Listen marks the tenant as listening for a minute, and returns its events after the place,
// at most a hundred events in the order in which they were committed, and the place behind them.
// The empty place is now. While there is nothing it waits, for as long as said, until ctx ends or
// until leave says so; then it returns what there is, which is no error. A bad place is
// page.ErrCursor. Only the tenant's own events are shown, and what is older than an hour may be
// gone.
func (s *Service) Listen(ctx context.Context, tenant uuid.UUID, place string, wait time.Duration, leave func() bool) ([]Heard, string, error) {
	seq, err := page.ParseSeq(page.Heard, tenant, place)
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
	for end := time.Now().Add(wait); ; {
		heard, next, err := s.readFeed(ctx, tenant, seq)
		if err != nil || len(heard) > 0 || !time.Now().Before(end) || leave() {
			return heard, page.Seq(page.Heard, tenant, next), err
		}
		select {
		case <-ctx.Done():
			return heard, page.Seq(page.Heard, tenant, next), nil
		case <-time.After(min(listenEvery, time.Until(end))):
		}
	}
}

// readFeed reads the tenant's events behind the place, and returns the place of the last one.
func (s *Service) readFeed(ctx context.Context, tenant uuid.UUID, seq int64) ([]Heard, int64, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, event_type, created_at, convert_from(body, 'UTF8'), seq FROM listen_events
		WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, tenant, seq, listenMax)
	if err != nil {
		return nil, seq, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Heard, err error) {
		return h, row.Scan(&h.ID, &h.EventType, &h.CreatedAt, &h.Body, &seq)
	})
	return found, seq, err
}
