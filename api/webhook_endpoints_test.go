package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
	"ajo/internal/testenv"
)

// A tenant adds, changes, pauses and removes endpoints with its key or its session. A secret is
// shown when it is made, and nowhere else.
func TestWebhookEndpoints(t *testing.T) {
	spec.Shows(t, "event.out.no-second", "event.out.silent", "state.entry.confirmed.silent", "auth.key.no-session")
	w := setup(t)
	m := w.onboard()
	key, session := m.withKey(), m.withSession()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/own"}`, key...).ok(200, nil)
	require.Empty(t, w.ask("GET", "/auth/webhook-endpoints", "", 200, key).list("endpoints"))

	shown := w.ask("POST", "/auth/webhook-endpoints", `{"url":" https://example.com/1 ","events":["payment.reversed","payment.received","payment.received"],"accountRefs":["shop-1"]}`, 201, key)
	require.Regexp(t, `^[0-9a-f]{64}$`, shown["webhookSecret"])
	e := fields(shown["endpoint"].(map[string]any))
	e.has(t, fields{
		"url": "https://example.com/1", "events": []any{"payment.received", "payment.reversed"}, "accountRefs": []any{"shop-1"},
		"retries": "standard", "pausedAt": nil, "previousSecretUntil": nil, "createdAt": w.now(), "updatedAt": w.now(),
	})
	second := fields(w.ask("POST", "/auth/webhook-endpoints", `{"url":"https://example.com/2","paused":true,"retries":"day"}`, 201, session)["endpoint"].(map[string]any))
	second.has(t, fields{"accountRefs": nil, "retries": "day", "pausedAt": w.now()})
	require.Len(t, second["events"], 6)
	list := w.ask("GET", "/auth/webhook-endpoints", "", 200, session).list("endpoints")
	require.Equal(t, []fields{e, second}, list)

	path := "/auth/webhook-endpoints/" + e["id"].(string)
	w.Clock.Advance(time.Minute)
	w.ask("PATCH", path, `{"url":"https://example.com/3","accountRefs":null,"paused":true,"retries":"day"}`, 200, key).
		has(t, fields{"retries": "day", "url": "https://example.com/3", "accountRefs": nil, "pausedAt": w.now(), "updatedAt": w.now()})
	paused := w.now()
	w.Clock.Advance(time.Minute)
	w.ask("PATCH", path, `{"paused":true,"url":"https://example.com/3"}`, 200, key).has(t, fields{"pausedAt": paused, "updatedAt": paused})
	w.ask("PATCH", path, `{"paused":false,"events":["settlement.failed"]}`, 200, key).has(t, fields{"pausedAt": nil, "events": []any{"settlement.failed"}})

	fresh := w.ask("POST", path+"/rotate-secret", "", 200, session)
	w.ask("PATCH", path, `{"paused":null,"url":"https://example.com/4"}`, 200, key).has(t, fields{"url": "https://example.com/4", "pausedAt": nil})
	w.do("PATCH", path, `{"paused":null}`, key...).refused(400, "no fields to update")
	w.ask("PATCH", path, `{"url":"https://example.com/3"}`, 200, key)
	require.NotEqual(t, shown["webhookSecret"], fresh["webhookSecret"])
	until := w.Clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339Nano)
	fields(fresh["endpoint"].(map[string]any)).has(t, fields{"previousSecretUntil": until})
	w.Clock.Advance(24 * time.Hour)
	require.Nil(t, w.ask("GET", "/auth/webhook-endpoints", "", 200, key).list("endpoints")[0]["previousSecretUntil"])

	w.do("DELETE", path, "", key...).ok(200, nil).has(`{}`)
	w.do("DELETE", path, "", key...).refused(404, "webhook endpoint not found")
	w.do("PATCH", path, `{"paused":true}`, key...).refused(404, "webhook endpoint not found")
	w.do("POST", path+"/rotate-secret", "", key...).refused(404, "webhook endpoint not found")
	require.Len(t, w.ask("GET", "/auth/webhook-endpoints", "", 200, key)["endpoints"], 1)
	require.Equal(t, 1, testenv.Value[int](w.Env, `SELECT webhook_endpoints FROM tenants WHERE id = $1`, m.id))
	require.Equal(t, []string{
		"webhook.endpoint.add", "webhook.endpoint.add", "webhook.endpoint.change", "webhook.endpoint.change", "webhook.endpoint.rotate-secret",
		"webhook.endpoint.change", "webhook.endpoint.change", "webhook.endpoint.remove",
	},
		testenv.Value[[]string](w.Env, `SELECT array_agg(action ORDER BY id) FROM audit_log WHERE action LIKE 'webhook.endpoint.%'`))
	w.do("POST", "/auth/webhook-endpoints", `{"url":"https://example.com/3"}`, key...).ok(201, nil)
}

func TestWebhookEndpointRefusals(t *testing.T) {
	w := setup(t)
	key := w.onboard().withKey()
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/own"}`, key...).ok(200, nil)
	add := func(body string) reply { return w.do("POST", "/auth/webhook-endpoints", body, key...) }
	for body, why := range map[string]string{
		`{}`:                              "url is required",
		`{"url":" "}`:                     "url is required",
		`{"url":"ftp://example.com"}`:     "url must begin with https:// or http://",
		`{"url":"https://a:b@c.example"}`: "url must not have a user name or password",
		`{"url":"https://example.com/1","events":[]}`:              "events must name at least one event",
		`{"url":"https://example.com/1","events":["test"]}`:        "events must be of payment.received, payment.confirmed, payment.reversed, settlement.succeeded, settlement.failed, settlement.refunded",
		`{"url":"https://example.com/1","accountRefs":[]}`:         "accountRefs must name 1 to 100 accounts, or be null for all",
		`{"url":"https://example.com/1","accountRefs":["none"]}`:   "accountRefs names an account that does not exist",
		`{"url":"https://example.com/1","accountRefs":["\u0000"]}`: "accountRefs names an account that does not exist",
		`{"url":"https://example.com/1","paused":"yes"}`:           "paused must be true or false",
		`{"url":"https://example.com/1","retries":"week"}`:         "retries must be standard or day",
	} {
		add(body).refused(400, why)
	}
	add(`{"url":"https://example.com/own"}`).refused(409, "there is already an endpoint with this url")
	for i := range 20 {
		add(fmt.Sprintf(`{"url":"https://example.com/%d"}`, i)).ok(201, nil)
	}
	add(`{"url":"https://example.com/20"}`).refused(409, "a tenant has at most 20 webhook endpoints: remove one first")
	list := w.ask("GET", "/auth/webhook-endpoints", "", 200, key).list("endpoints")
	first, last := "/auth/webhook-endpoints/"+list[0]["id"].(string), "/auth/webhook-endpoints/"+list[19]["id"].(string)
	w.do("PATCH", first, `{"url":"https://example.com/1"}`, key...).refused(409, "there is already an endpoint with this url")
	w.do("PATCH", first, `{"url":"https://example.com/own"}`, key...).refused(409, "there is already an endpoint with this url")
	w.do("PATCH", first, `{}`, key...).refused(400, "no fields to update")
	w.do("DELETE", last, "", key...).ok(200, nil)
	add(`{"url":"https://example.com/1"}`).refused(409, "there is already an endpoint with this url")
	add(`{"url":"https://example.com/19"}`).ok(201, nil)
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/1"}`, key...).refused(409, "there is already an endpoint with this url")
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/18"}`, w.onboard().withKey()...).ok(200, nil)
	w.do("GET", "/auth/deliveries?endpointId=none", "", w.onboard().withSession()...).refused(400, "endpointId must be an endpoint's id, or default")
}

// A rotation that is repeated, as its answer was lost, or by another member, does not end the
// secret that the receiver has: the one before the first signs until the time that its answer
// named.
func TestRepeatedRotationOfASecret(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	path := "/auth/webhook-endpoints/" + w.ask("POST", "/auth/webhook-endpoints", `{"url":"https://example.com/1"}`, 201, key)["endpoint"].(map[string]any)["id"].(string) + "/rotate-secret"
	secrets := func() []string {
		return testenv.Value[[]string](w.Env, `SELECT ARRAY[md5(secret), md5(secret_previous)] FROM webhook_endpoints WHERE tenant_id = $1`, m.id)
	}
	first := w.ask("POST", path, "", 200, key)
	until, signing := first["endpoint"].(map[string]any)["previousSecretUntil"], secrets()
	w.Clock.Advance(time.Minute)
	const refused = "the secret was rotated less than 24 hours ago, and the one before it still signs: replace=true replaces the newer one"
	w.do("POST", path, "", key...).refused(409, refused)
	w.do("POST", path+"?replace=false", "", m.withSession()...).refused(409, refused)
	w.do("POST", path+"?replace=yes", "", key...).refused(400, "replace must be true or false")
	require.Equal(t, signing, secrets())

	again := w.ask("POST", path+"?replace=true", "", 200, key)
	require.NotEqual(t, first["webhookSecret"], again["webhookSecret"])
	fields(again["endpoint"].(map[string]any)).has(t, fields{"previousSecretUntil": until, "updatedAt": w.now()})
	require.NotEqual(t, signing[0], secrets()[0])
	require.Equal(t, signing[1], secrets()[1], "what the receiver has")

	// somebody who looked before that does not replace what was made since
	w.Clock.Advance(time.Second)
	seen := func(answer map[string]any) string {
		return path + "?replace=true&updatedAt=" + answer["endpoint"].(map[string]any)["updatedAt"].(string)
	}
	signing = secrets()
	w.do("POST", seen(first), "", key...).refused(409, "the webhook endpoint has changed since updatedAt: read it again")
	w.do("POST", path+"?replace=true&updatedAt=soon", "", key...).refused(400, "updatedAt must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z")
	require.Equal(t, signing, secrets())
	w.ask("POST", seen(again), "", 200, key)
	require.NotEqual(t, signing[0], secrets()[0])
	w.Clock.Advance(24 * time.Hour)
	fields(w.ask("POST", path+"?replace=true", "", 200, key)["endpoint"].(map[string]any)).has(t, fields{
		"previousSecretUntil": w.Clock.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339Nano),
	})
}

// A payment's event is sent once more, with the key and from the session.
func TestResendEvent(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/own"}`, key...).ok(200, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	group := "0190c0de-0000-7000-8000-000000000001"
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
		VALUES ($2, $1, $3, $2, 'payment.received', 'https://example.com/own', '{}', 'delivered', $4, $4)`, m.id, group, w.accountID(m, "shop-1"), w.Clock.Now())
	endpoint := w.ask("POST", "/auth/webhook-endpoints", `{"url":"https://example.com/2"}`, 201, key)["endpoint"].(map[string]any)["id"].(string)
	for _, h := range []header{key, m.withSession()} {
		w.ask("POST", "/auth/events/resend", fmt.Sprintf(`{"transactionGroupId":%q,"endpointId":%q}`, group, endpoint), 201, h).
			has(t, fields{"transactionGroupId": group, "endpointId": endpoint, "resent": true, "status": "pending", "callbackUrl": "https://example.com/2"})
	}
	w.ask("POST", "/auth/events/resend", fmt.Sprintf(`{"transactionGroupId":%q,"eventType":"payment.received","endpointId":null}`, group), 201, key).
		has(t, fields{"endpointId": nil, "callbackUrl": "https://example.com/own"})
	for body, why := range map[string]string{
		`{"transactionGroupId":"01890000-0000-7000-8000-000000000009"}`:                "event not found: none was created, or it is archived",
		fmt.Sprintf(`{"transactionGroupId":%q,"eventType":"payment.reversed"}`, group): "event not found: none was created, or it is archived",
		fmt.Sprintf(`{"transactionGroupId":%q,"endpointId":%q}`, group, group):         "webhook endpoint not found",
	} {
		w.do("POST", "/auth/events/resend", body, key...).refused(404, why)
	}
	w.do("POST", "/auth/events/resend", fmt.Sprintf(`{"transactionGroupId":%q}`, group), w.onboard().withKey()...).refused(404, "event not found: none was created, or it is archived")
	require.Len(t, w.ask("GET", "/auth/deliveries?endpointId="+endpoint, "", 200, m.withSession()).list("deliveries"), 2)
}
