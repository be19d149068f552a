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
