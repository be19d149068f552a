package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// fields are those of a record as they stand on the wire, numbers as they are written.
type fields map[string]any

// read asks for a record.
func (w *world) read(h header, path string) fields {
	w.T.Helper()
	return w.ask("GET", path, "", 200, h)
}

func (w *world) ask(method, path, body string, status int, h header) (out fields) {
	w.T.Helper()
	d := json.NewDecoder(strings.NewReader(w.do(method, path, body, h...).ok(status, nil).Body))
	d.UseNumber()
	require.NoError(w.T, d.Decode(&out))
	return out
}

// list is the records under a name.
func (f fields) list(name string) (out []fields) {
	items, _ := f[name].([]any)
	for _, v := range items {
		out = append(out, v.(map[string]any))
	}
	return out
}

func (w *world) now() string { return w.Clock.Now().UTC().Format(time.RFC3339Nano) }

// has requires each of these fields to be just that.
func (f fields) has(t *testing.T, want fields) {
	t.Helper()
	for name, v := range want {
		require.Contains(t, f, name)
		require.Equal(t, v, f[name], name)
	}
}

func TestFieldsOfATenant(t *testing.T) {
	spec.Shows(t, "field.tenant.id", "field.tenant.email", "field.tenant.suffix", "field.tenant.kyc.pending", "field.tenant.created", "field.tenant.key-hash")
	w := setup(t)
	created := w.now()
	m := w.onboard()
	w.Clock.Advance(time.Minute)
	w.read(m.withSession(), "/auth/me").has(t, fields{
		"id": m.id.String(), "name": "Ada Stores", "email": m.email, "apiKeySuffix": "…" + m.key[len(m.key)-4:], "createdAt": created,
	})
	rotated := w.ask("POST", "/auth/rotate-key", "", 200, m.withSession())["apiKey"].(string)
	w.read(m.withSession(), "/auth/me").has(t, fields{"apiKeySuffix": "…" + rotated[len(rotated)-4:]})
	hash := sha256.Sum256([]byte(rotated))
	require.Equal(t, hash[:], testenv.Value[[]byte](w.Env, `SELECT hash FROM api_keys WHERE tenant_id = $1 AND main`, m.id))
	require.NotContains(t, testenv.Value[string](w.Env, `SELECT t::text FROM tenants t WHERE id = $1`, m.id), rotated)

	w.Exec(`ALTER TABLE tenants DISABLE TRIGGER tenants_kyc`) // no request leads there
	w.Exec(`UPDATE tenants SET kyc_status = 'pending_review', business_type = 'other' WHERE id = $1`, m.id)
	w.read(m.withSession(), "/auth/me").has(t, fields{"kycStatus": "pending_review", "businessType": "other"})
}

func TestFieldsOfAnAccount(t *testing.T) {
	spec.Shows(t, "field.account.id", "field.account.tenant", "field.account.customer", "field.account.ref", "field.account.ref.paths",
		"field.account.ref.constant", "field.account.number.paths", "field.account.type.fixed", "field.account.created", "field.account.updated",
		"field.history.account", "field.history.created", "field.customer.tenant", "field.customer.ref", "field.customer.automatic")
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	created := w.now()
	a := w.ask("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, 201, key)
	a.has(t, fields{"TenantID": m.id.String(), "AccountRef": "shop-1", "CreatedAt": created, "UpdatedAt": created})
	w.read(key, "/v1/customers/"+a["CustomerID"].(string)).has(t, fields{
		"ID": a["CustomerID"], "TenantID": m.id.String(), "ExternalRef": "shop-1", "CreatedAt": created, "UpdatedAt": created,
	})
	number := "/v1/accounts/" + a["BankAccountNumber"].(string)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"GET", "/balance", ""},
		{"GET", "/history", ""},
		{"GET", "/statement", ""},
		{"PATCH", "", `{"name":"X"}`},
		{"POST", "/settle", orderOf1000},
		{"GET", "/holds", ""},
		{"POST", "/holds", `{"amount":"1.00","reason":"X"}`},
		{"POST", "/expire", ""},
	} {
		w.do(c.method, number+c.path, c.body, key...).refused(404, "account not found")
		if c.method == "GET" {
			w.do(c.method, "/v1/accounts/shop-1"+c.path, "", key...).ok(200, nil)
		}
	}
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, key...).refused(400, "insufficient funds")

	w.Clock.Advance(time.Minute)
	changed := w.ask("PATCH", "/v1/accounts/shop-1",
		`{"name":"Ada N. Obi","externalRef":"other","AccountRef":"other","mode":"onetime","Type":"onetime"}`, 200, key)
	changed.has(t, fields{
		"ID": a["ID"], "BankAccountName": "Ada N. Obi", "AccountRef": "shop-1", "Type": "dedicated", "CreatedAt": created, "UpdatedAt": w.now(),
	})
	w.ask("POST", "/v1/accounts/shop-1/expire", "", 200, key).has(t, fields{"ID": a["ID"], "AccountRef": "shop-1", "Type": "dedicated"})
	history := w.read(key, "/v1/accounts/shop-1/history").list("history")
	require.Len(t, history, 2)
	for i, at := range []string{created, w.now()} {
		history[i].has(t, fields{"VirtualAccountID": a["ID"], "CreatedAt": at})
	}
}

// What only an operator can do is done in the rows.
func TestFieldsOfACustomer(t *testing.T) {
	spec.Shows(t, "field.customer.tier.three", "field.customer.status.suspended", "field.customer.created", "field.customer.updated")
	w := setup(t)
	m := w.onboard()
	created := w.now()
	path := "/v1/customers/" + w.customer(m, "shop-1", "Ada Obi")
	w.read(m.withKey(), path).has(t, fields{"CreatedAt": created, "UpdatedAt": created})
	w.Clock.Advance(time.Minute)
	w.ask("PATCH", path, `{"name":"Ada"}`, 200, m.withKey()).has(t, fields{"CreatedAt": created, "UpdatedAt": w.now()})
	w.Exec(`UPDATE customers SET kyc_tier = 3, status = 'suspended'`)
	w.read(m.withKey(), path).has(t, fields{"KYCTier": json.Number("3"), "Status": "suspended"})
}

func TestFieldsOfAnEntry(t *testing.T) {
	spec.Shows(t, "field.entry.amount", "field.entry.fee", "field.entry.fee.excluded", "field.entry.status.reversed", "field.entry.status.review",
		"field.entry.txn", "field.entry.narration", "field.entry.created", "field.entry.balance", "field.entry.balance.excluded",
		"field.entry.reversed.visible", "field.entry.reversed.entry", "field.entry.others", "field.line.running")
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi"}`, key...).ok(201, nil)
	for i, moved := range []ledger.Event{ledger.EventConfirm, "", ledger.EventReverse, ledger.EventHold} {
		id := fmt.Sprintf("t-%d", i)
		w.pay(event{id, id, "shop-1", []string{"5000.00", "100.5", "30", "7"}[i], []string{"10.50", "0", "0", "1"}[i]})
		if moved != "" {
			w.moveEntry(id, moved)
		}
	}
	ref := w.settle(key, orderOf1000)

	lines := w.read(key, "/v1/accounts/shop-1/statement").list("lines")
	entry := func(i int) fields { return lines[i]["entry"].(map[string]any) }
	for i, want := range []struct{ direction, amount, fee, status, txn, balance string }{
		{"credit", "4989.50", "10.50", "confirmed", "t-0", "4989.50"},
		{"credit", "100.50", "0.00", "provisional", "t-1", "5090.00"},
		{"credit", "30.00", "0.00", "reversed", "t-2", "5120.00"},
		{"debit", "30.00", "0.00", "reversed", "t-2", "5090.00"},
		{"credit", "6.00", "1.00", "needs_review", "t-3", "5096.00"},
		{"debit", "1000.00", "0.00", "provisional", "", "4090.00"},
	} {
		lines[i].has(t, fields{"runningBalance": want.balance})
		entry(i).has(t, fields{
			"Direction": want.direction, "Amount": want.amount, "Fee": want.fee, "Status": want.status, "ProviderTxnRef": want.txn, "CreatedAt": w.now(),
		})
	}
	entry(0).has(t, fields{"Narration": "Rent & more", "TransferRef": nil, "ReversalOf": nil})
	entry(3).has(t, fields{"ReversalOf": entry(2)["ID"]})
	entry(5).has(t, fields{"TransferRef": ref})
	require.NotEqual(t, entry(0)["TransactionGroupID"], entry(5)["TransactionGroupID"])
	// 4989.50 + 100.50 - 1000.00
	w.read(key, "/v1/accounts/shop-1/balance").has(t, fields{"balance": "4090.00"})
}

func TestFieldsOfATransfer(t *testing.T) {
	spec.Shows(t, "field.transfer.ref.generated", "field.transfer.ref.handle", "field.transfer.created", "field.transfer.updated")
	w := setup(t)
	m, key := w.funded("5000.00")
	accepted := w.now()
	const mine = "AJO00000000000000000000000000000000"
	ref := w.settle(key, strings.Replace(orderOf1000, "{", `{"merchantTxRef":"`+mine+`",`, 1))
	require.NotEqual(t, mine, ref)
	w.do("GET", "/v1/transfers/"+mine, "", key...).refused(404, "transfer not found")
	id := testenv.Value[string](w.Env, `SELECT id::text FROM transfers`)
	w.do("GET", "/v1/transfers/"+id, "", key...).refused(404, "transfer not found")
	w.read(key, "/v1/transfers/"+ref).has(t, fields{"createdAt": accepted, "updatedAt": accepted, "accountRef": "shop-1", "accountId": w.accountID(m, "shop-1")})
	w.Clock.Advance(time.Minute)
	w.advance(ref)
	w.read(key, "/v1/transfers/"+ref).has(t, fields{"createdAt": accepted, "updatedAt": w.now()})
}

// A dead letter has the time at which the payment's event came, not that of its posting or its end.
func TestFieldsOfADeadLetter(t *testing.T) {
	spec.Shows(t, "field.deadletter.url", "field.deadletter.created", "field.deadletter.next")
	w := setup(t)
	m := w.onboard()
	key := m.withKey()
	w.do("POST", "/v1/accounts", `{"externalRef":"shop-1","name":"Ada Obi","callbackUrl":"https://example.com/own"}`, key...).ok(201, nil)
	received := w.now()
	w.send(event{"r-1", "t-1", "shop-1", "5000.00", "0"}).ok(200, nil)
	w.Clock.Advance(time.Minute)
	_, err := w.opts.Payments.Post(context.Background(), testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events`))
	require.NoError(t, err)
	w.Exec(`UPDATE deliveries SET status = 'dead_letter', attempt_count = 6, last_error = 'HTTP 500'`)
	letters := w.read(key, "/v1/webhooks/dead-letters").list("deadLetters")
	require.Len(t, letters, 1)
	letters[0].has(t, fields{"CallbackURL": "https://example.com/own", "CreatedAt": received, "NextRetryAt": nil})
}

// An event that found no account, with the times at which it came and was looked at.
func TestFieldsOfAnInboundEvent(t *testing.T) {
	spec.Shows(t, "field.inbound.id", "field.inbound.txn", "field.inbound.received", "field.inbound.processed")
	w := setup(t)
	m := w.onboard()
	received := w.now()
	w.send(event{"r-1", "t-1", "nobody", "5000.00", "0"}).ok(200, nil)
	w.Clock.Advance(time.Minute)
	id := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events`)
	_, err := w.opts.Payments.Post(context.Background(), id)
	require.NoError(t, err)
	events := w.read(m.withSession(), "/auth/misdirected").list("events")
	require.Len(t, events, 1)
	events[0].has(t, fields{"ID": id.String(), "ProviderTxnRef": "t-1", "ReceivedAt": received, "ProcessedAt": w.now()})
}
