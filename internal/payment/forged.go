package payment

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// forgedRoom bounds the events without a valid signature that this process keeps: by rate, and by
// the room that is left in the table.
type forgedRoom struct {
	rate *rate.Limiter

	mu      sync.Mutex
	left    int       // of the room, as last counted
	counted time.Time // zero: never
}

// keepsForged reports whether there is room for one more event without a valid signature. While
// Postgres is away it returns true: storing the event then fails, so the sender gets an error. The
// event may be the bank's own, signed with a secret that we do not know yet.
func (s *Service) keepsForged(ctx context.Context) bool {
	if !s.forged.rate.AllowN(s.Clock.Now(), 1) {
		return false
	}
	if s.isAway() {
		return true
	}
	s.forged.mu.Lock()
	defer s.forged.mu.Unlock()
	if now := s.Clock.Now(); now.Sub(s.forged.counted).Abs() >= forgedRecount {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		var kept int
		if err := s.Pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM inbound_events WHERE forged LIMIT $1) AS f`, s.forgedMax).
			Scan(&kept); err != nil {
			return true
		}
		s.forged.left, s.forged.counted = s.forgedMax-kept, now
	}
	s.forged.left--
	return s.forged.left >= 0
}

// PurgeForged removes events without a valid signature that are older than 30 days, or have at
// least half of forgedMax newer ones after them, so that there is always room for the newest. It
// removes at most limit of them, and skips those that another process is removing.
func (s *Service) PurgeForged(ctx context.Context, limit int) (int64, error) {
	tag, err := s.Pool.Exec(ctx, `
		WITH old AS MATERIALIZED (
			SELECT id FROM inbound_events WHERE forged AND received_at < greatest($1, coalesce((
				SELECT received_at FROM inbound_events WHERE forged ORDER BY received_at DESC OFFSET $3 LIMIT 1), '-infinity'))
			ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		bodies AS (DELETE FROM event_bodies WHERE event_id = ANY(ARRAY(SELECT id FROM old)))
		DELETE FROM inbound_events WHERE id = ANY(ARRAY(SELECT id FROM old))`, s.Clock.Now().Add(-forgedKept), limit, s.forgedMax/2)
	return tag.RowsAffected(), err
}
