package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/work"
)

// queued is the row of a new delivery.
type queued struct {
	NewDelivery
	ID     uuid.UUID `pg:"id"`
	Body   []byte    `pg:"body"`
	Status Status    `pg:"status"`
}

var queueSQL = pg.Insert[queued]("deliveries", 1) + ` ON CONFLICT DO NOTHING RETURNING id`

// Queue stores deliveries, due at once, in the transaction of the fact that they report, with one
// statement however many there are. It returns the ids of the new rows in the order given, and
// uuid.Nil where none was made: there is no URL, or the event has its delivery already.
func Queue(ctx context.Context, tx pg.Tx, now time.Time, deliveries []NewDelivery) ([]uuid.UUID, error) {
	var rows []queued
	ids := make([]uuid.UUID, len(deliveries)) // uuid.Nil: none
	for i := range deliveries {
		d := &deliveries[i]
		if d.CallbackURL == "" {
			continue
		}
		body, err := encode(d.Payload.wire(d))
		if err != nil {
			return nil, err
		}
		ids[i] = uuid.Must(uuid.NewV7())
		rows = append(rows, queued{*d, ids[i], body, Pending})
	}
	if len(rows) == 0 {
		return ids, nil
	}
	stored, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], queueSQL, pg.Columns(rows)...)
	if err != nil {
		return nil, err
	}
	ids = pg.Match(ids, stored, func(id uuid.UUID) uuid.UUID { return id })
	var items []work.Item
	for i, id := range ids {
		if id != uuid.Nil {
			items = append(items, work.Item{Kind: work.Deliver, ID: id, TenantID: deliveries[i].TenantID, DueAt: now, Traceparent: deliveries[i].Traceparent})
		}
	}
	return ids, work.Schedule(ctx, tx, items...)
}

// Publish queues the events that their tenants subscribed to, and shows every event to listeners.
// The caller names type, account, group, time, trace and payload; the rest is read here, by one
// statement, so a caller that knows from a query of its own that a tenant wants none leaves its
// events out. Otherwise as [Queue], and last as [Show].
func Publish(ctx context.Context, tx pg.Tx, now time.Time, events []NewDelivery) ([]uuid.UUID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	accounts := make([]uuid.UUID, len(events))
	for i, e := range events {
		accounts[i] = e.AccountID
	}
	rows, err := tx.Query(ctx, `
		SELECT a.id, a.tenant_id, a.account_ref, coalesce(nullif(a.callback_url, ''), t.webhook_url), t.webhook_events, t.listening_until
		FROM accounts a JOIN tenants t ON t.id = a.tenant_id WHERE a.id = ANY($1)`, accounts)
	if err != nil {
		return nil, err
	}
	type listener struct {
		ID, TenantID    uuid.UUID
		AccountRef, URL string
		Chosen          []Type
		Until           *time.Time
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listener])
	if err != nil {
		return nil, err
	}
	byAccount := make(map[uuid.UUID]listener, len(found))
	for _, l := range found {
		byAccount[l.ID] = l
	}
	for i := range events {
		e := &events[i]
		l := byAccount[e.AccountID]
		e.TenantID, e.AccountRef, e.Listening = l.TenantID, l.AccountRef, Listens(l.Until, now)
		if slices.Contains(l.Chosen, e.Type) {
			e.CallbackURL = l.URL
		}
	}
	ids, err := Queue(ctx, tx, now, events)
	if err != nil {
		return nil, err
	}
	return ids, Show(ctx, tx, events)
}
