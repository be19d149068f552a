package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/partition"
	"ajo/internal/safehttp"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/webhook"
)

// chooseAll has every event delivered to the tenant.
func (m member) chooseAll(w *world) {
	w.T.Helper()
	text, err := json.Marshal(webhook.Types)
	require.NoError(w.T, err)
	w.do("POST", "/auth/webhook-events", `{"events":`+string(text)+`}`, m.withSession()...).ok(200, nil)
}

// everyEnd lets a payment be confirmed and another reversed, and a settlement succeed, one fail,
// and one be given back, on the tenant's account shop-1.
func (w *world) everyEnd(m member) {
	w.T.Helper()
	ctx := context.Background()
	account := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM accounts WHERE tenant_id = $1 AND account_ref = 'shop-1'`, m.id)
	paid := func() (uuid.UUID, fakebank.Transaction) {
		txn, err := w.bank.Pay(ctx, fakebank.Payment{AccountRef: account.String(), Amount: money5000, Silent: true})
		require.NoError(w.T, err)
		w.send(event{requestID: "r-" + txn.ID, txn: txn.ID, alias: "shop-1", amount: txn.Amount.String(), fee: txn.Fee.String()}).ok(200, nil)
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE request_id = $1`, "r-"+txn.ID)
		_, err = w.opts.Payments.Post(ctx, id)
		require.NoError(w.T, err)
		return id, txn
	}
	good, _ := paid()
	bad, txn := paid()
	w.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" })
	w.Clock.Advance(45 * time.Second)
	require.NoError(w.T, w.opts.Payments.Confirm(ctx, good))
	require.NoError(w.T, w.opts.Payments.Confirm(ctx, bad))
	settle := func(status string) string {
		var s struct{ MerchantTxRef string }
		w.do("POST", "/v1/accounts/shop-1/settle", `{"amount":"100.00","bankCode":"058","accountNumber":"0123456789"}`, m.withKey()...).ok(202, &s)
		id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = $1`, s.MerchantTxRef)
		_ = w.opts.Transfers.Advance(ctx, id)
		require.Equal(w.T, status, testenv.Value[string](w.Env, `SELECT status FROM transfers WHERE id = $1`, id))
		return s.MerchantTxRef
	}
	ref := settle("success")
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject, Next: 1})
	settle("failed")
	_, err := w.bank.EndPayout(ref, fakebank.StatusRefund)
	require.NoError(w.T, err)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = $1`, ref)
	ok, err := w.opts.Transfers.Expedite(ctx, ref)
	require.True(w.T, ok, "%v", err)
	_ = w.opts.Transfers.Advance(ctx, id)
	require.Equal(w.T, "refunded", testenv.Value[string](w.Env, `SELECT status FROM transfers WHERE id = $1`, id))
}

// list reads a page of the tenant's deliveries, as "event status".
func (m member) deliveries(w *world, query string) (out []string, ids []uuid.UUID) {
	w.T.Helper()
	var page struct{ Deliveries []webhook.Delivery }
	w.do("GET", "/auth/deliveries"+query, "", m.withSession()...).ok(200, &page)
	for _, d := range page.Deliveries {
		out, ids = append(out, string(d.EventType)+" "+string(d.Status)), append(ids, d.ID)
	}
	return out, ids
}

// Who chose nothing gets payments received and nothing else; who chose all gets each
// end once, and finds it in the list.
func TestEventsOverHTTP(t *testing.T) {
	w := setup(t)
	silent, told := w.onboard(), w.onboard()
	for _, m := range []member{silent, told} {
		w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":"https://shop.example/hook"}`, m.withKey()...).ok(201, nil)
	}
	told.chooseAll(w)
	for _, m := range []member{silent, told} {
		// else the alias is ambiguous
		w.Exec(`UPDATE accounts SET account_ref = 'elsewhere' WHERE account_ref = 'shop-1' AND tenant_id <> $1`, m.id)
		w.Exec(`UPDATE accounts SET account_ref = 'shop-1' WHERE tenant_id = $1`, m.id)
		w.everyEnd(m)
	}
	received := []string{"payment.received pending", "payment.received pending"}
	got, _ := silent.deliveries(w, "")
	require.Equal(t, received, got)
	got, _ = told.deliveries(w, "")
	require.Equal(t, append([]string{
		"settlement.refunded pending", "settlement.failed pending", "settlement.succeeded pending",
		"payment.reversed pending", "payment.confirmed pending",
	}, received...), got)
	got, _ = told.deliveries(w, "?eventType=settlement.failed&status=pending&accountRef=shop-1")
	require.Equal(t, []string{"settlement.failed pending"}, got)
	got, _ = told.deliveries(w, "?status=dead_letter")
	require.Empty(t, got)
	w.do("GET", "/auth/deliveries?status=stuck", "", told.withSession()...).refused(400, "status must be pending, delivered or dead_letter")
	w.do("GET", "/auth/deliveries?eventType=test", "", told.withSession()...).refused(400, "eventType must be one of payment.received, payment.confirmed, payment.reversed, "+
		"settlement.succeeded, settlement.failed, settlement.refunded")
	w.do("GET", "/auth/deliveries?accountRef=nobody", "", told.withSession()...).refused(404, "account not found")
	w.do("GET", "/auth/deliveries?accountRef=%00", "", told.withSession()...).refused(404, "account not found")
	w.do("GET", "/auth/deliveries?after=x", "", told.withSession()...).refused(400, "invalid cursor")
	for _, path := range []string{"/auth/deliveries", "/auth/webhook-events"} {
		w.do("GET", path, "", told.withKey()...).refused(401, "unauthorized")
	}
}

func TestGoldenDeliveries(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	session := m.withSession()
	golden(t, "deliveries-none", w.do("GET", "/auth/deliveries", "", session...).ok(200, nil))
	golden(t, "webhook-events-new", w.do("GET", "/auth/webhook-events", "", session...).ok(200, nil))
	golden(t, "webhook-events", w.do("POST", "/auth/webhook-events", `{"events":["settlement.failed","payment.confirmed"]}`, session...).ok(200, nil))
	golden(t, "webhook-events", w.do("GET", "/auth/webhook-events", "", session...).ok(200, nil))
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":"https://shop.example/hook"}`, m.withKey()...).ok(201, nil)
	w.pay(event{"r-1", "t-1", "shop-1", "5000.00", "10.5"})
	w.pay(event{"r-2", "t-2", "shop-1", "100.00", "0"})
	golden(t, "deliveries", w.do("GET", "/auth/deliveries?limit=1", "", session...).ok(200, nil))
	_, ids := m.deliveries(w, "")
	path := "/auth/deliveries/" + ids[1].String()
	golden(t, "delivery-new", w.do("GET", path, "", session...).ok(200, nil))
	w.do("POST", path+"/replay", "", session...).refused(409, "delivery is not a dead letter: it is pending or was delivered")
	w.Exec(`UPDATE deliveries SET status = 'dead_letter', attempt_count = 6, last_error = 'HTTP 500' WHERE id = $1`, ids[1])
	w.Exec(`DELETE FROM work WHERE id = $1`, ids[1])
	w.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
		VALUES ($1, 5, $2, 10000, NULL, 'timeout after 10 s', ''), ($1, 6, $2, 12, 500, 'HTTP 500', '\xff00206f686e6f')`, ids[1], w.Clock.Now())
	golden(t, "delivery-dead", w.do("GET", path, "", session...).ok(200, nil))
	w.opts.Enqueuer.Flush()
	w.Clock.Advance(time.Second) // else the task of the same time is there already
	before := w.Redis().LLen(context.Background(), "asynq:{deliver}:pending").Val()
	golden(t, "delivery-replayed", w.do("POST", path+"/replay", "", session...).ok(200, nil))
	w.opts.Enqueuer.Flush()
	require.Equal(t, before+1, w.Redis().LLen(context.Background(), "asynq:{deliver}:pending").Val(), "it is enqueued")
	w.do("POST", path+"/replay", "", session...).refused(409, "delivery is not a dead letter: it is pending or was delivered")
	w.do("POST", path+"/replay", "", append(session, "Sec-Fetch-Site", "cross-site")...).refused(403, "cross-site request refused")
	for _, id := range []string{uuid.NewString(), "x", "%00", "%ff"} {
		w.do("GET", "/auth/deliveries/"+id, "", session...).refused(404, "delivery not found")
		w.do("POST", "/auth/deliveries/"+id+"/replay", "", session...).refused(404, "delivery not found")
	}
}

func TestChoosingIsRefused(t *testing.T) {
	w := setup(t)
	session := w.onboard().withSession()
	const list = "payment.received, payment.confirmed, payment.reversed, settlement.succeeded, settlement.failed, settlement.refunded"
	for body, text := range map[string]string{
		`{}`:                                     "events is required",
		`{"events":null}`:                        "events is required",
		`{"events":"payment.confirmed"}`:         "events must be an array of strings",
		`{"events":[1]}`:                         "events must be an array of strings",
		`{"events":[null]}`:                      "events must be an array of strings",
		`{"events":["payment.lost"]}`:            "events must be of " + list,
		`{"events":[""]}`:                        "events must be of " + list,
		`{"events":["payment.confirmed\u0000"]}`: "events must be of " + list,
		`{"events":[],"Events":[]}`:              `duplicate field "Events"`,
	} {
		w.do("POST", "/auth/webhook-events", body, session...).refused(400, text)
	}
	w.do("POST", "/auth/webhook-events", `{"events":["payment.confirmed","payment.confirmed"]}`, session...).ok(200, nil)
	r := w.do("POST", "/auth/webhook-events", `{"events":[]}`, session...).ok(200, nil)
	require.Contains(t, r.Body, `"events":["payment.received"]`, "what stays")
}

// tested is the answer of a test event.
type tested struct {
	URL, Error, ResponseBody, SignatureHeader, Body string
	StatusCode                                      *int
	DurationMs                                      int64
}

// Whatever the endpoint does, the answer says it, and it is 200: the test was made.
func TestWebhookTest(t *testing.T) {
	w := setup(t)
	patience := func(d time.Duration) {
		w.opts.Webhooks = w.webhooks(w.opts.Tenants.Box, safehttp.Options{Allow: loopback, Timeout: d}, webhook.Options{})
		t.Cleanup(w.opts.Webhooks.Close)
		w.serve()
	}
	patience(time.Minute)
	m := w.onboard()
	session := m.withSession()
	release := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			rw.WriteHeader(204)
		case "/broken":
			http.Error(rw, "no \xff such hook", 500)
		case "/moved":
			http.Redirect(rw, r, "/ok", http.StatusMovedPermanently)
		case "/slow":
			<-release
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(func() { close(release); endpoint.Close() })
	w.do("POST", "/auth/webhook-test", `{}`, session...).refused(400, "url is required, as no webhook URL is set")
	try := func(url string) (out tested) {
		w.do("POST", "/auth/webhook-test", fmt.Sprintf(`{"url":%q}`, url), session...).ok(200, &out)
		require.Equal(t, url, out.URL)
		return out
	}
	for path, want := range map[string]struct {
		status int
		err    string
	}{
		"/ok": {204, ""}, "/broken": {500, "HTTP 500"}, "/moved": {http.StatusMovedPermanently, "HTTP 301: redirects are not followed"},
		"/cut": {0, "connection closed before an answer"},
	} {
		got := try(endpoint.URL + path)
		require.Equal(t, want.err, got.Error)
		require.Equal(t, want.status != 0, got.StatusCode != nil, path)
		if got.StatusCode != nil {
			require.Equal(t, want.status, *got.StatusCode)
		}
		if path == "/broken" {
			require.Equal(t, "no � such hook\n", got.ResponseBody)
		}
	}
	patience(2 * time.Second)
	slow := try(endpoint.URL + "/slow")
	require.Equal(t, "timeout after 2 s", slow.Error)
	require.Nil(t, slow.StatusCode)
	patience(time.Minute)
	require.Equal(t, "connection refused", try("http://127.0.0.1:1/").Error)
	require.Equal(t, "host name does not resolve", try("https://shop.example/").Error)

	w.do("POST", "/auth/webhook-secret", "", session...).ok(200, nil)
	w.do("POST", "/auth/webhook-url", `{"url":"`+endpoint.URL+`/ok"}`, session...).ok(200, nil)
	golden(t, "webhook-test", reply{t: t, Status: 200, Body: strings.NewReplacer(endpoint.URL, "https://shop.example").Replace(
		regexpDuration.ReplaceAllString(regexpSignature.ReplaceAllString(w.do("POST", "/auth/webhook-test", `{}`, session...).ok(200, nil).Body, "t=<unix>"), `"durationMs":1`))})
	// the tenth, with that which was refused
	w.do("POST", "/auth/webhook-test", `{}`, session...).ok(200, nil)
	requireLimited(t, w.do("POST", "/auth/webhook-test", `{}`, session...))
	other := w.onboard()
	w.do("POST", "/auth/webhook-test", `{}`, other.withSession()...).refused(400, "url is required, as no webhook URL is set")
	require.Zero(t, testenv.Value[int](w.Env, `SELECT count(*) FROM deliveries`), "no delivery is made of it")
}

// In production a test reaches nobody that a delivery would not: neither by digits nor by a name
// that leads inside.
func TestWebhookTestInProduction(t *testing.T) {
	w := setup(t)
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(inside.Close)
	w.opts.Webhooks = w.webhooks(w.opts.Tenants.Box, safehttp.Options{RequireHTTPS: true}, webhook.Options{Callbacks: safehttp.CallbackRules(true, nil)})
	t.Cleanup(w.opts.Webhooks.Close)
	w.serve()
	session := w.onboard().withSession()
	for url, text := range map[string]string{
		inside.URL:                                          "url must begin with https://",
		"https://127.0.0.1/":                                "url must not point to a private address",
		"https://169.254.169.254/latest/":                   "url must not point to a private address",
		"https://[::ffff:10.0.0.1]/":                        "url must not point to a private address",
		"https://localhost/":                                "url must not point to a private address",
		"https://0177.0.0.1/":                               "url must have a host: a name or an IP address",
		"https://user:password@shop.example/":               "url must not have a user name or password",
		"https://shop.example/#a":                           "url must not have a fragment",
		"file:///etc/passwd":                                "url must begin with https:// or http://",
		"https://shop.example/" + strings.Repeat("x", 2048): "url is longer than 2048 characters",
	} {
		r := w.do("POST", "/auth/webhook-test", fmt.Sprintf(`{"url":%q}`, url), session...)
		if r.Status == 429 {
			w.limits("100000-M", "100000-M")
			w.serve()
			r = w.do("POST", "/auth/webhook-test", fmt.Sprintf(`{"url":%q}`, url), session...)
		}
		r.refused(400, text)
	}
}

// A delivery of an archived time is answered 404 with a text of its own, whoever asks and whether
// there ever was one; the list says from when on it is complete.
func TestArchivedDeliveries(t *testing.T) {
	w := setup(t)
	m, other := w.onboard(), w.onboard()
	letters := func(of member) any { return w.read(of.withKey(), "/v1/webhooks/dead-letters")["archivedBefore"] }
	require.Nil(t, w.read(m.withSession(), "/auth/deliveries")["archivedBefore"])
	require.Nil(t, letters(m))
	replayed := func() any {
		return w.ask("POST", "/auth/deliveries/replay", `{"since":"2025-10-15T00:00:00Z"}`, 200, m.withSession())["archivedBefore"]
	}
	require.Nil(t, replayed())
	from, to := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)
	w.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, manifest, archived_at)
		VALUES ('deliveries_20251001', 'deliveries', $1, $2, 'archived', '{}', $3)`, partition.Floor(from), partition.Floor(to), w.Clock.Now())
	require.Equal(t, "2025-11-01T00:00:00Z", replayed(), "what is archived is not sent again")
	for _, who := range []member{m, other} {
		require.Equal(t, "2025-11-01T00:00:00Z", w.read(who.withSession(), "/auth/deliveries")["archivedBefore"])
		require.Equal(t, "2025-11-01T00:00:00Z", letters(who))
		for at, text := range map[time.Time]string{
			from.Add(-time.Millisecond): "delivery not found",
			from:                        "deliveries of that time are archived: ask the operators to restore them",
			to.Add(-time.Millisecond):   "deliveries of that time are archived: ask the operators to restore them",
			to:                          "delivery not found",
		} {
			id := partition.Floor(at).String()
			w.do("GET", "/auth/deliveries/"+id, "", who.withSession()...).refused(404, text)
			w.do("POST", "/auth/deliveries/"+id+"/replay", "", who.withSession()...).refused(404, text)
		}
	}
	w.Exec(`UPDATE archives SET status = 'restored', restored_at = $1`, w.Clock.Now())
	require.Nil(t, w.read(m.withSession(), "/auth/deliveries")["archivedBefore"], "all are here again")
	require.Nil(t, letters(m))
	require.Nil(t, replayed())
	w.do("GET", "/auth/deliveries/"+partition.Floor(from).String(), "", m.withSession()...).refused(404, "delivery not found")
}

// A dead letter is not sent again to an endpoint that gets nothing, alone or with others.
func TestReplayToAnEndpointThatGetsNothing(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	endpoint := w.Endpoint(m.id, "https://example.com/hook", "{payment.received}")
	id := partition.Floor(w.Clock.Now())
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at, endpoint_id)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com/hook', '{}', 'dead_letter', 6, 'HTTP 500', $4, $5)`, id, m.id, w.accountID(m, "shop-1"), w.Clock.Now(), endpoint)
	path, since := "/auth/deliveries/"+id.String()+"/replay", `{"since":"`+w.Clock.Now().Add(-time.Second).Format(time.RFC3339)+`"}`
	for change, why := range map[string]string{
		`paused_at = now(), removed_at = NULL, secret = '\x00'`: "the endpoint is paused",
		`paused_at = NULL, removed_at = now(), secret = NULL`:   "its endpoint was removed",
	} {
		w.Exec(`UPDATE webhook_endpoints SET `+change+` WHERE id = $1`, endpoint)
		w.do("POST", path, "", m.withSession()...).refused(409, why)
		w.ask("POST", "/auth/deliveries/replay", since, 200, m.withSession()).has(t, fields{"count": json.Number("0"), "hasMore": false})
	}
	w.Exec(`UPDATE webhook_endpoints SET paused_at = NULL, removed_at = NULL, secret = '\x00' WHERE id = $1`, endpoint)
	w.do("POST", path, "", m.withSession()...).ok(200, nil)
}

// Dead letters that are archived while they are to be sent again are not sent, and the answer says
// from when on they all were.
func TestDeadLettersThatAreArchivedMeanwhile(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	end := time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)
	pool, asked := w.BeforeTheSecond("replayed_after", func() {
		w.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, manifest, archived_at)
			VALUES ('deliveries_20251001', 'deliveries', $1, $2, 'archived', '{}', $3)`, uuid.Nil, partition.Floor(end), w.Clock.Now())
	})
	w.opts.Webhooks = w.webhooks(w.opts.Tenants.Box, safehttp.Options{}, webhook.Options{Pool: pool})
	t.Cleanup(w.opts.Webhooks.Close)
	w.serve()
	replayed := func() any {
		return w.ask("POST", "/auth/deliveries/replay", `{"since":"2025-10-15T00:00:00Z"}`, 200, m.withSession())["archivedBefore"]
	}
	require.Nil(t, replayed())
	require.Equal(t, "2025-11-01T00:00:00Z", replayed())
	require.EqualValues(t, 2, asked.Load())
}

// All dead letters since a time are sent again with one call, by whom the role allows.
func TestReplaySince(t *testing.T) {
	spec.Shows(t, "event.out.dead-letters.informational")
	w := setup(t)
	m, _ := w.funded("5000.00")
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com/cb', '{}', 'dead_letter', 6, 'HTTP 500', $4)`,
		partition.Floor(w.Clock.Now()), m.id, w.accountID(m, "shop-1"), w.Clock.Now())
	since := func(at time.Duration) string { return `{"since":"` + w.Clock.Now().Add(at).Format(time.RFC3339) + `"}` }
	for _, before := range []string{"0000-01-01T00:00:00+01:00", "0000-12-31T23:59:59Z"} { // which no audit line could keep
		w.do("POST", "/auth/deliveries/replay", `{"since":"`+before+`"}`, m.withSession()...).refused(400, "since must be an ISO 8601 time such as 2026-01-30T12:15:00Z")
	}
	w.ask("POST", "/auth/deliveries/replay", since(time.Second), 200, m.withSession()).has(t, fields{"count": json.Number("0"), "hasMore": false})
	w.ask("POST", "/auth/deliveries/replay", since(-time.Second), 200, m.withSession()).has(t, fields{"count": json.Number("1"), "hasMore": false})
	w.ask("POST", "/auth/deliveries/replay", since(-time.Second), 200, m.withSession()).has(t, fields{"count": json.Number("0"), "hasMore": false})
	require.Equal(t, "pending", w.read(m.withSession(), "/auth/deliveries").list("deliveries")[0]["status"])
	for body, why := range map[string]string{
		`{}`: "since is required", `{"since":null}`: "since is required", `{"since":7}`: "since must be a string",
		`{"since":"soon"}`: "since must be an ISO 8601 time such as 2026-01-30T12:15:00Z", `{"since":""}`: "since must be an ISO 8601 time such as 2026-01-30T12:15:00Z",
	} {
		w.do("POST", "/auth/deliveries/replay", body, m.withSession()...).refused(400, why)
	}
}
