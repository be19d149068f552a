package api

import (
	"encoding/csv"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/testenv"
)

// Who paid what is found by day, amount, payer, account, state and the ids of the bank, newest
// first, in whole pages; and the file has the same.
func TestPayments(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key, session := m.withKey(), m.withSession()
	for _, ref := range []string{"shop-1", "shop-2"} {
		w.do("POST", "/v1/accounts", `{"externalRef":"`+ref+`","name":"Ada Obi"}`, key...).ok(201, nil)
	}
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "5000.00", "25"})
	w.confirmFrom("0123456789", "058", "=AMINA BELLO")
	w.Clock.Advance(24 * time.Hour)
	w.pay(event{"r-2", "t-2", w.accountID(m, "shop-2"), "12000.00", "0"})
	w.pay(event{"r-3", "t-3", w.accountID(m, "shop-1"), "12000.00", "0"})
	other := w.onboard()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Bola Ade"}`, other.withKey()...).ok(201, nil)
	w.pay(event{"r-4", "t-4", w.accountID(other, "shop-1"), "12000.00", "0"})

	today := w.Clock.Now().Format(time.DateOnly)
	yesterday := w.Clock.Now().AddDate(0, 0, -1).Format(time.DateOnly)
	refs := func(query string) (found string) {
		t.Helper()
		for _, path := range []string{"/v1/payments", "/auth/payments"} {
			var at []string
			for _, p := range w.read(append(key, session...), path+"?"+query).list("payments") {
				at = append(at, p["providerTxnRef"].(string))
			}
			found = strings.Join(at, " ")
		}
		return found
	}
	for query, want := range map[string]string{
		"":                               "t-3 t-2 t-1",
		"accountRef=shop-1":              "t-3 t-1",
		"amount=12000":                   "t-3 t-2",
		"amount=5000.00":                 "t-1", // gross
		"amount=4975":                    "t-1", // net
		"search=amina":                   "t-1",
		"search=T-2":                     "t-2",
		"search=3456":                    "t-1", // the payer's account
		"search=000013":                  "t-1", // the session id
		"status=provisional":             "t-3 t-2",
		"status=confirmed":               "t-1",
		"status=reversed":                "",
		"from=" + today:                  "t-3 t-2",
		"to=" + yesterday:                "t-1",
		"from=" + today + "&amount=5000": "",
		"from=" + yesterday + "&to=" + today + "&accountRef=shop-2": "t-2",
	} {
		require.Equal(t, want, refs(query), query)
		file := w.do("GET", "/auth/payments.csv?"+query, "", session...).ok(200, nil)
		require.Regexp(t, `^attachment; filename=payments-[0-9-]+\.csv$`, file.Header.Get("Content-Disposition"))
		lines, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.Body, "\uFEFF"))).ReadAll()
		require.NoError(t, err)
		var same []string
		for _, line := range lines[1:] {
			same = append(same, line[12])
			require.NotContains(t, "=+-@", line[6][:1])
		}
		require.Equal(t, want, strings.Join(same, " "), query)
	}
	for _, of := range []string{"", "accountRef=shop-1&"} {
		var all []string
		after := ""
		for more := true; more; {
			got := w.read(session, "/auth/payments?"+of+"total=true&limit=1&after="+after)
			all = append(all, got.list("payments")[0]["providerTxnRef"].(string))
			p := got["pagination"].(map[string]any)
			require.Equal(t, fmt.Sprint(map[string]any{"count": len(strings.Fields(refs(of))), "exact": true}), fmt.Sprint(p["total"]))
			after, _ = p["nextCursor"].(string)
			more = p["hasMore"].(bool)
		}
		require.Equal(t, refs(of), strings.Join(all, " "))
	}

	first := w.read(key, "/v1/payments?search=amina").list("payments")[0]
	first.has(t, fields{
		"status": "confirmed", "grossAmount": "5000.00", "fee": "25.00", "amount": "4975.00", "currency": "NGN", "senderName": "=AMINA BELLO",
		"senderBank": "Guaranty Trust Bank", "senderAccount": "0123456789", "senderBankCode": "058", "sessionId": paidSession, "accountRef": "shop-1",
		"accountId": w.accountID(m, "shop-1"), "customerRef": "shop-1", "customerName": "Ada Obi",
	})
	require.NotNil(t, first["confirmedAt"])
	customers := map[any]bool{}
	for _, p := range w.read(key, "/v1/payments").list("payments") {
		require.Equal(t, p["accountRef"], p["customerRef"], "an account is opened for a customer of its name")
		customers[p["customerRef"]] = true
	}
	require.Greater(t, len(customers), 1)

	for query, why := range map[string]string{
		"status=lost": "status must be provisional, confirmed, reversed or needs_review", "amount=0": errAmountFilter.Error(), "amount=1.234": errAmountFilter.Error(),
		"from=2026-01-03&to=2026-01-01": errRange.Error(), "from=soon": "from must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z",
		"search=" + strings.Repeat("x", 101): errSearch.Error(), "search=%00": errSearch.Error(), "limit=0": "limit must be a whole number from 1 to 100",
	} {
		w.do("GET", "/v1/payments?"+query, "", key...).refused(400, why)
	}
	for _, ref := range []string{"nobody", "%00", url.QueryEscape(w.accountID(other, "shop-1"))} {
		w.do("GET", "/v1/payments?accountRef="+ref, "", key...).refused(404, "account not found")
	}
}

// Payments of one batch have one time: no page repeats one or leaves one out.
func TestPaymentsOfOneTimeAreListedOnce(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	a, b := w.Account(m.id, "one"), w.Account(m.id, "two")
	for n := range 23 {
		w.Exec(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, status, transaction_group_id, running_balance, created_at)
			VALUES ($1, $2, $3, $4, 'credit', 1, 'provisional', $1, 1, $5)`, uuid.New(), m.id, []uuid.UUID{a, b}[n%2], n+1, w.Clock.Now())
	}
	seen, after := map[any]bool{}, ""
	for more := true; more; {
		got := w.read(m.withKey(), "/v1/payments?limit=5&search=&after="+after)
		for _, p := range got.list("payments") {
			require.False(t, seen[p["id"]])
			seen[p["id"]] = true
		}
		page := got["pagination"].(map[string]any)
		after, _ = page["nextCursor"].(string)
		more = page["hasMore"].(bool)
	}
	require.Len(t, seen, 23)
}

// A payment's timeline says what happened to it, in order, with the ids that the bank knows; also
// where the webhook's id names it.
func TestPaymentTimeline(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/hook"}`, key...).ok(200, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "5000.00", "25"})
	p := w.read(key, "/v1/payments").list("payments")[0]
	delivery := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM deliveries`)
	w.Clock.Advance(time.Minute)
	w.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error) VALUES ($1, 1, $2, 7, 500, 'HTTP 500')`, delivery, w.Clock.Now())
	w.Exec(`UPDATE deliveries SET status = 'delivered', attempt_count = 2, delivered_at = $2, duration_ms = 7, status_code = 204, response_body = '' WHERE id = $1`,
		delivery, w.Clock.Now().Add(time.Minute+7*time.Millisecond))
	w.Clock.Advance(2 * time.Minute)
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	logged := uuid.Must(uuid.NewV7()) // an event for the log, which goes to no URL
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
		SELECT $1, tenant_id, account_id, transaction_group_id, 'payment.confirmed', '', body, 'delivered', $2, $2 FROM deliveries`, logged, w.Clock.Now().Add(time.Second))
	w.Clock.Advance(time.Minute)
	refund := w.ask("POST", "/v1/entries/"+p["id"].(string)+"/refund", `{"amount":"10.00"}`, 202, key)["merchantTxRef"].(string)
	w.Clock.Advance(time.Minute)
	w.Exec(`INSERT INTO recalls (event_id, tenant_id, account_id, source, status, held, opened_at, closed_at)
		SELECT transaction_group_id, tenant_id, account_id, 'event', 'kept', 0, $1, $2 FROM ledger_entries WHERE direction = 'credit'`, w.Clock.Now(), w.Clock.Now().Add(time.Minute))

	for _, path := range []string{"/v1/payments/" + p["id"].(string), "/v1/payments/" + p["transactionGroupId"].(string), "/auth/payments/" + p["id"].(string)} {
		got := w.read(append(key, m.withSession()...), path)
		got.has(t, fields{"id": p["id"], "status": "confirmed", "requestId": "r-1", "senderName": "AMINA BELLO", "archivedBefore": nil, "refunded": "0.00", "beingRefunded": "10.00", "passedOn": "0.00"})
		var steps []string
		for _, s := range got.list("timeline") {
			steps = append(steps, strings.Join([]string{s["step"].(string), s["reference"].(string), s["outcome"].(string)}, "|"))
		}
		require.Equal(t, []string{
			"paid||", "received|t-1|webhook", "posted|" + p["id"].(string) + "|", "published|" + delivery.String() + "|payment.received delivered",
			"attempted|" + delivery.String() + "|HTTP 500", "attempted|" + delivery.String() + "|HTTP 204", "confirmed|" + paidSession + "|", "published|" + logged.String() + "|payment.confirmed",
			"refunded|" + refund + "|pending",
			"recalled||", "recall_closed||kept",
		}, steps)
	}
	entry := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM ledger_entries WHERE direction = 'debit'`)
	for _, id := range []string{uuid.NewString(), "nobody", entry.String()} {
		w.do("GET", "/v1/payments/"+id, "", key...).refused(404, "payment not found")
	}

	// the steps of deliveries that are archived are missing, and the answer says so
	end := w.Clock.Now().Truncate(time.Second).UTC()
	w.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, manifest, archived_at) VALUES ('deliveries_earlier', 'deliveries', $1, $2, 'archived', '{}', $3)`,
		uuid.Nil, partition.Floor(end), end)
	require.Equal(t, end.Format(time.RFC3339), w.read(key, "/v1/payments/"+p["id"].(string))["archivedBefore"])
}

// A partition of deliveries may be archived while a payment is read: its rows are gone at once, and
// the archives are read as they were. The answer still says that steps may be missing.
func TestPaymentWhoseDeliveriesAreArchivedMeanwhile(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/auth/webhook-url", `{"url":"https://example.com/hook"}`, key...).ok(200, nil)
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	w.pay(event{"r-1", "t-1", w.accountID(m, "shop-1"), "5000.00", "25"})
	id := w.read(key, "/v1/payments").list("payments")[0]["id"].(string)
	part := testenv.Value[string](w.Env, `SELECT tableoid::regclass::text FROM deliveries`)
	end := w.Clock.Now().Truncate(time.Second).UTC()
	pool, asked := w.BeforeTheSecond("'attempted'", func() {
		w.Exec("ALTER TABLE deliveries DETACH PARTITION " + part)
		w.Exec(`INSERT INTO archives (partition, table_name, from_id, to_id, status, manifest, archived_at) VALUES ($1, 'deliveries', $2, $3, 'archived', '{}', $4)`,
			part, uuid.Nil, partition.Floor(end), end)
	})
	w.opts.Payments.Pool = pool
	w.serve()
	published := func(p fields) bool {
		return slices.ContainsFunc(p.list("timeline"), func(s fields) bool { return s["step"] == "published" })
	}
	before := w.read(key, "/v1/payments/"+id)
	require.True(t, published(before))
	require.Nil(t, before["archivedBefore"])
	meanwhile := w.read(key, "/v1/payments/"+id)
	require.EqualValues(t, 2, asked.Load())
	require.False(t, published(meanwhile))
	require.Equal(t, end.Format(time.RFC3339), meanwhile["archivedBefore"])
	w.Exec(`UPDATE archives SET status = 'restored', restored_at = $1`, end)
	require.Nil(t, w.read(key, "/v1/payments/"+id)["archivedBefore"])
}
