package testenv

import "github.com/google/uuid"

// Subscribe subscribes a tenant to events, as an array in Postgres' notation, at a URL of its own.
func (e *Env) Subscribe(tenant uuid.UUID, events string) {
	e.T.Helper()
	e.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook', webhook_events = $2 WHERE id = $1`, tenant, events)
}

// Published lists the deliveries of a transaction group to the URL of [Env.Subscribe], as "event
// status", in the order in which they were made. A delivery to any other URL has the URL behind it.
func (e *Env) Published(group uuid.UUID) []string {
	e.T.Helper()
	return Value[[]string](e, `
		SELECT coalesce(array_agg(event_type || ' ' || (convert_from(body, 'UTF8')::json->>'status')
			|| CASE callback_url WHEN 'https://tenant.example/hook' THEN '' ELSE ' ' || callback_url END ORDER BY id), '{}')
		FROM deliveries WHERE transaction_group_id = $1`, group)
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
