package testenv

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/compact"
	"ajo/internal/pg"
)

// Subscribe subscribes a tenant to events, as an array in Postgres' notation, at a URL of its own.
func (e *Env) Subscribe(tenant uuid.UUID, events string) {
	e.T.Helper()
	e.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook', webhook_events = $2 WHERE id = $1`, tenant, events)
}

// Published lists the deliveries of a transaction group to the URL of [Env.Subscribe], as "event
// status", in the order in which they were made. A delivery to any other URL has the URL behind it.
func (e *Env) Published(group uuid.UUID) []string {
	e.T.Helper()
	published := []string{}
	for _, d := range e.Delivered(`transaction_group_id = $1`, group) {
		var body struct{ Status string }
		must(e.T, json.Unmarshal([]byte(d.Body), &body))
		line := d.EventType + " " + body.Status
		if d.URL != "https://tenant.example/hook" {
			line += " " + d.URL
		}
		published = append(published, line)
	}
	return published
}

// Delivery is a row of deliveries, with the body as it is sent.
type Delivery struct{ EventType, URL, Body string }

// Delivered lists the deliveries that meet a condition, in the order in which they were made.
func (e *Env) Delivered(where string, args ...any) []Delivery {
	e.T.Helper()
	found, err := pg.Collect(context.Background(), e.Pool, func(row pgx.CollectableRow) (d Delivery, err error) {
		var group uuid.UUID
		var stored []byte
		if err = row.Scan(&d.EventType, &d.URL, &group, &stored); err != nil {
			return d, err
		}
		body, err := compact.FullDelivery(d.EventType, group, stored)
		d.Body = string(body)
		return d, err
	}, `SELECT event_type, callback_url, transaction_group_id, body FROM deliveries WHERE `+where+` ORDER BY id`, args...)
	must(e.T, err)
	return found
}

// EventBodies are the bodies of the events that meet a condition, as they came, oldest first.
func (e *Env) EventBodies(where string, args ...any) []string {
	e.T.Helper()
	bodies := []string{}
	for _, stored := range Value[[][]byte](e, `SELECT coalesce(array_agg(body ORDER BY id), '{}') FROM inbound_events JOIN event_bodies ON event_id = id WHERE `+where, args...) {
		body, err := compact.FullEvent(stored)
		must(e.T, err)
		bodies = append(bodies, string(body))
	}
	return bodies
}

// Endpoint gives a tenant one more endpoint, which wants these events of all accounts, as an array
// in Postgres' notation. Its secret is none that opens.
func (e *Env) Endpoint(tenant uuid.UUID, url, events string) uuid.UUID {
	e.T.Helper()
	id := uuid.Must(uuid.NewV7())
	e.Exec(`INSERT INTO webhook_endpoints (id, tenant_id, url, events, secret, created_at, updated_at) VALUES ($1, $2, $3, $4, '\x00', $5, $5)`,
		id, tenant, url, events, e.Clock.Now())
	e.Exec(`UPDATE tenants SET webhook_endpoints = webhook_endpoints + 1 WHERE id = $1`, tenant)
	return id
}
