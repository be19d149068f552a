package payment

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/page"
	"ajo/internal/pg"
)

// PurgeForged removes events without a valid signature that are older than 30 days, or that half of
// [forgedMax] newer ones have come after: so there is always room for the newest. It removes at
// most limit of them, and none that another process is removing.
func (s *Service) PurgeForged(ctx context.Context, limit int) (int64, error) {
	tag, err := s.Pool.Exec(ctx, `
		DELETE FROM inbound_events WHERE id = ANY(ARRAY(
			SELECT id FROM inbound_events WHERE category = 'sig_invalid' AND received_at < greatest($1, coalesce((
				SELECT received_at FROM inbound_events WHERE category = 'sig_invalid' ORDER BY received_at DESC OFFSET $3 LIMIT 1), '-infinity'))
			ORDER BY received_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, s.Clock.Now().Add(-forgedKept), limit, s.forgedMax()/2)
	return tag.RowsAffected(), err
}

// Misdirected returns a page of the payments that matched no account, of the whole service, newest
// first. For sessions only.
func (s *Service) Misdirected(ctx context.Context, r page.Request) ([]EventRecord, page.Info, error) {
	list := pg.List[EventRecord]{Name: page.Events, ID: func(e EventRecord) uuid.UUID { return e.ID }, Row: func(row pgx.CollectableRow) (EventRecord, error) {
		e, err := pgx.RowToStructByPos[InboundEvent](row)
		return e.EventRecord, err
	}}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+eventColumns+`
		FROM inbound_events WHERE category = 'misdirected' AND id < $1 ORDER BY id DESC LIMIT $2`)
}
