package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/clock"
	"ajo/internal/compact"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// queued is the row of a new delivery.
type queued struct {
	NewDelivery
	ID         uuid.UUID  `pg:"id"`
	Body       []byte     `pg:"body"`
	Status     Status     `pg:"status"`
	EndpointID *uuid.UUID `pg:"endpoint_id"`
	CopyOf     *uuid.UUID `pg:"copy_of"`
	// set for an event that goes to no URL, only to the log: it has no item of work
	DeliveredAt *time.Time `pg:"delivered_at"`
}

var queueSQL = pg.Insert[queued]("deliveries", 1) + ` ON CONFLICT DO NOTHING RETURNING id`

// Queue stores deliveries, due at once, in the transaction of the fact that they report, with one
// statement however many there are, and two more for tenants with several endpoints. It returns the
// id of each event's first delivery in the order given, and uuid.Nil where none was made: there is
// neither a URL nor an endpoint that wants it, or the event has its delivery already. If an event
// goes nowhere, a tenant that keeps the log gets a delivery for the log alone, which is not sent.
func Queue(ctx context.Context, tx pg.Tx, now time.Time, deliveries []NewDelivery) ([]uuid.UUID, error) {
	endpoints, err := endpointsOf(ctx, tx, deliveries)
	if err != nil {
		return nil, err
	}
	var first, copies []queued
	logged := map[uuid.UUID]bool{}            // those for the log alone
	ids := make([]uuid.UUID, len(deliveries)) // uuid.Nil: none
	for i := range deliveries {
		rows, err := rowsOf(&deliveries[i], endpoints, now)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			if rows[0].Status == Delivered {
				logged[rows[0].ID] = true
			}
			ids[i] = rows[0].ID
			first, copies = append(first, rows[0]), append(copies, rows[1:]...)
		}
	}
	if len(first) == 0 {
		return ids, nil
	}
	stored, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], queueSQL, pg.Columns(first)...)
	if err != nil {
		return nil, err
	}
	// the schema guards only the first delivery of an event: its copies are stored with it, or not
	// at all
	copies = slices.DeleteFunc(copies, func(c queued) bool { return !slices.Contains(stored, *c.CopyOf) })
	if len(copies) > 0 {
		if _, err := tx.Exec(ctx, queueSQL, pg.Columns(copies)...); err != nil {
			return nil, err
		}
	}
	ids = pg.Match(ids, stored, func(id uuid.UUID) uuid.UUID { return id })
	var items []work.Item
	item := func(id uuid.UUID, d *NewDelivery) {
		items = append(items, work.Item{Kind: work.Deliver, ID: id, TenantID: d.TenantID, DueAt: now, Traceparent: d.Traceparent})
	}
	for i, id := range ids {
		if id != uuid.Nil && !logged[id] {
			item(id, &deliveries[i])
		}
	}
	for i := range copies {
		item(copies[i].ID, &copies[i].NewDelivery)
	}
	return ids, work.Schedule(ctx, tx, items...)
}

// rowsOf returns the deliveries of an event: to its URL, if there is one, and to each endpoint that
// wants it and has another URL; or, if there are none of these, one for the log of a tenant that
// keeps it.
func rowsOf(d *NewDelivery, endpoints map[uuid.UUID][]target, now time.Time) ([]queued, error) {
	var rows []queued
	add := func(endpoint *uuid.UUID, url string) {
		q := queued{NewDelivery: *d, ID: clock.NewID(), Status: Pending, EndpointID: endpoint}
		if q.CallbackURL = url; len(rows) > 0 {
			q.CopyOf = new(rows[0].ID)
		}
		rows = append(rows, q)
	}
	if d.CallbackURL != "" {
		add(nil, d.CallbackURL)
	}
	logs := false
	for _, e := range endpoints[d.TenantID] {
		switch {
		case !d.FanOut:
		case e.URL == "":
			logs = true
		case e.wants(d) && e.URL != d.CallbackURL: // where it comes once, signed for both
			add(&e.ID, e.URL)
		}
	}
	switch {
	case len(rows) == 0 && logs:
		add(nil, "")
		rows[0].Status, rows[0].DeliveredAt = Delivered, &now
	case len(rows) == 0:
		return nil, nil
	}
	body, err := encode(d.Payload.wire(d))
	body = compact.Delivery(string(d.Type), d.TransactionGroupID, body)
	for i := range rows {
		rows[i].Body = body
	}
	return rows, err
}

// target is an endpoint as the fan-out needs it.
type target struct {
	ID, TenantID uuid.UUID
	URL          string // empty: the tenant's log, for events that go to no URL
	Events       []Type
	AccountRefs  []string // nil: all
}

func (e target) wants(d *NewDelivery) bool {
	return slices.Contains(e.Events, d.Type) && (e.AccountRefs == nil || slices.Contains(e.AccountRefs, d.AccountRef))
}

// endpointsOf reads the endpoints of the tenants that have some, the oldest first, and which
// tenants keep the log. If no event has FanOut, it runs no statement.
func endpointsOf(ctx context.Context, tx pg.Tx, deliveries []NewDelivery) (map[uuid.UUID][]target, error) {
	var tenants []uuid.UUID
	for i := range deliveries {
		if d := &deliveries[i]; d.FanOut && !slices.Contains(tenants, d.TenantID) {
			tenants = append(tenants, d.TenantID)
		}
	}
	if len(tenants) == 0 {
		return nil, nil
	}
	found, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[target], `
		SELECT id, tenant_id, url, events, account_refs FROM webhook_endpoints WHERE tenant_id = ANY($1) AND removed_at IS NULL
		UNION ALL SELECT id, id, '', NULL, NULL FROM tenants WHERE id = ANY($1) AND event_log`, tenants)
	slices.SortFunc(found, pg.ByID(func(e target) uuid.UUID { return e.ID })) // sorted here, so that the planner does not use an index with all tenants' endpoints
	byTenant := map[uuid.UUID][]target{}
	for _, e := range found {
		byTenant[e.TenantID] = append(byTenant[e.TenantID], e)
	}
	return byTenant, err
}

// Publish queues the events that their tenants subscribed to, and adds every event to the feed of a
// tenant that listens. The caller sets type, account, group, time, trace and payload; one statement
// reads the rest. To save that statement, a caller that knows that a tenant wants no events leaves
// its events out. Publish returns what [Queue] returns, and must come as late in the transaction as
// [AppendFeed].
func Publish(ctx context.Context, tx pg.Tx, now time.Time, events []NewDelivery) ([]uuid.UUID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	accounts := make([]uuid.UUID, len(events))
	for i, e := range events {
		accounts[i] = e.AccountID
	}
	type listener struct {
		ID, TenantID    uuid.UUID
		AccountRef, URL string
		Chosen          []Type
		FanOut          bool
		Until           *time.Time
	}
	found, err := pg.Collect(ctx, tx, pgx.RowToStructByPos[listener], `
		SELECT a.id, a.tenant_id, a.account_ref, coalesce(nullif(a.callback_url, ''), t.webhook_url), t.webhook_events, t.webhook_endpoints > 0 OR t.event_log, t.listening_until
		FROM accounts a JOIN tenants t ON t.id = a.tenant_id WHERE a.id = ANY($1)`, accounts)
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
		e.TenantID, e.AccountRef, e.FanOut, e.Listening = l.TenantID, l.AccountRef, l.FanOut, Listens(l.Until, now)
		if slices.Contains(l.Chosen, e.Type) {
			e.CallbackURL = l.URL
		}
	}
	ids, err := Queue(ctx, tx, now, events)
	if err != nil {
		return nil, err
	}
	return ids, AppendFeed(ctx, tx, now, events)
}
