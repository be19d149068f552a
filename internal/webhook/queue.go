package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
	"ajo/internal/trace"
)

// Queue stores deliveries, due at once, in the transaction that makes what they tell of, with one
// statement however many there are. It returns the ids of the new rows in the order given, and
// uuid.Nil for what gets none: where there is no URL, and where the event has its delivery already.
// After the commit the caller rings for each id.
func Queue(ctx context.Context, tx pg.Tx, now time.Time, deliveries []NewDelivery) ([]uuid.UUID, error) {
	var c struct {
		id, tenant, account, group []uuid.UUID
		event, url, trace          []string
		body                       [][]byte
		created                    []time.Time
	}
	place := make([]int, 0, len(deliveries)) // of each row among the deliveries
	for i := range deliveries {
		d := &deliveries[i]
		if d.CallbackURL == "" {
			continue
		}
		body, err := encode(d.Payload.wire(d))
		if err != nil {
			return nil, err
		}
		c.trace = trace.Put(c.trace, len(c.id), d.Traceparent)
		place, c.id, c.event = append(place, i), append(c.id, uuid.Must(uuid.NewV7())), append(c.event, string(d.Type))
		c.tenant, c.account, c.group = append(c.tenant, d.TenantID), append(c.account, d.AccountID), append(c.group, d.TransactionGroupID)
		c.url, c.body, c.created = append(c.url, d.CallbackURL), append(c.body, body), append(c.created, d.CreatedAt)
	}
	out := make([]uuid.UUID, len(deliveries))
	if len(c.id) == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, `
		WITH queued AS (
			INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status,
				next_attempt_at, created_at, traceparent)
			SELECT id, tenant, account, grp, event, url, body, $9, $10, created, coalesce(trace, '')
			FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::bytea[], $8::timestamptz[], $11::text[])
				AS d (id, tenant, account, grp, event, url, body, created, trace)
			ON CONFLICT (transaction_group_id, event_type) DO NOTHING
			RETURNING id
		)
		SELECT id FROM queued ORDER BY id`, // ids are made in the order given, and sort so
		c.id, c.tenant, c.account, c.group, c.event, c.url, c.body, c.created, string(Pending), now, c.trace)
	if err != nil {
		return nil, err
	}
	queued, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for i, id := range c.id {
		if len(queued) > 0 && queued[0] == id {
			out[place[i]], queued = id, queued[1:]
		}
	}
	return out, err
}

// Tell queues the events that their tenants chose, and shows every event to those who listen. The
// caller names type, account, group, time, trace and payload; the rest is read here, by one
// statement, so a caller that knows from a query of its own that a tenant wants none leaves its
// events out. Otherwise as [Queue], and last as [Show].
func Tell(ctx context.Context, tx pg.Tx, now time.Time, events []NewDelivery) ([]uuid.UUID, error) {
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
