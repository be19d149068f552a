package payment

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Search finds payments of the tenant: by a whole id or the bank's transaction id, however old they
// are; by a whole session id, near the time in it; and, among as many as a page of [Service.List]
// reads, by the sum (nil: none), gross or net, and by whatever its search filter covers. more
// reports that there may be others.
func (s *Service) Search(ctx context.Context, tenantID uuid.UUID, text string, sum *money.Amount, limit int) (found []ledger.Payment, more bool, err error) {
	q := pg.Reader(ctx, s.Pool)
	ids, err := pg.Collect(ctx, q, pgx.RowTo[uuid.UUID], `SELECT event_id FROM event_keys WHERE transaction = event_key($1) LIMIT $2`, text, limit)
	if err != nil {
		return nil, false, err
	}
	if id, err := uuid.Parse(text); err == nil {
		ids = append(ids, id)
	}
	whole, err := ledger.FindPayments(ctx, q, tenantID, ids)
	if err != nil {
		return nil, false, err
	}
	lists := [][]ledger.Payment{whole}
	filters := []ledger.PaymentFilter{{Search: text}}
	if sum != nil {
		filters = []ledger.PaymentFilter{{Amount: sum}, {Search: text}}
	}
	if at, ok := sessionTime(text); ok {
		filters = []ledger.PaymentFilter{{From: at.Add(-sessionBefore), To: at.Add(sessionAfter), Search: text}, {Search: text}}
	}
	for _, f := range filters {
		list, info, err := ledger.Payments(ctx, q, tenantID, f, page.Request{Limit: limit})
		if err != nil {
			return nil, false, err
		}
		lists, more = append(lists, list), more || info.HasMore
	}
	found, left := page.Merge(limit, func(p ledger.Payment) uuid.UUID { return p.ID }, lists...)
	return found, more || left, nil
}

// How far from the time in its session id a payment is searched for: clocks differ, and an event
// may come late.
const (
	sessionBefore = 10 * time.Minute
	sessionAfter  = 2 * time.Hour
)

// sessionTime reads the time, of Lagos, that stands in an interbank session id: six digits of the
// sending bank, yymmddhhmmss, and twelve more.
func sessionTime(id string) (at time.Time, ok bool) {
	if len(id) != 30 || strings.Trim(id, "0123456789") != "" {
		return at, false
	}
	at, err := time.ParseInLocation("060102150405", id[6:18], clock.Lagos)
	return at, err == nil
}
