package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/api/client"
	"ajo/internal/audit"
	"ajo/internal/fee"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/internal/signature"
)

// wire is the way of a Client's calls. It keeps what was called, and the last answer, and holds
// both to the document.
type wire struct {
	w      *world
	called map[string]bool // "GET /v1/accounts/shop-1"
	answer []byte
}

// RoundTrip is http.RoundTripper's.
func (x *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if x.answer, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	x.called[req.Method+" "+req.URL.EscapedPath()] = true
	x.w.holdToDocument(req, string(sent), reply{x.w.T, resp.StatusCode, resp.Header, string(x.answer)})
	resp.Body = io.NopCloser(bytes.NewReader(x.answer))
	return resp, nil
}

// connect is the Go client with the member's key.
func (w *world) connect(m member) (*client.Client, *wire) {
	w.T.Helper()
	x := &wire{w: w, called: map[string]bool{}}
	c, err := client.New(client.Options{URL: w.url + "/", Key: m.key, HTTP: &http.Client{Transport: x}})
	require.NoError(w.T, err)
	return c, x
}

// whole requires that a decoded answer has all that the service sent: encoded again, it is the same
// JSON. An unknown field, a null that became "" or a name that is misspelt are lost on the way, and
// found here. What a method took out of an object has the name that it had there.
func whole[T any](x *wire, within string) func(T, error) T {
	return func(got T, err error) T {
		x.w.T.Helper()
		require.NoError(x.w.T, err)
		var v any = got
		if within != "" {
			v = map[string]any{within: got}
		}
		b, err := json.Marshal(v)
		require.NoError(x.w.T, err)
		require.JSONEq(x.w.T, string(x.answer), string(b))
		return got
	}
}

// Every endpoint under /v1 has a method, and each decodes a real answer of this service whole.
func TestClientHasEveryEndpoint(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	c, x := w.connect(m)
	ctx := context.Background()
	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com/cb', '{}', 'dead_letter', 6, 'HTTP 500', $4)`,
		"0190c0de-0000-7000-8000-000000000002", m.id, w.accountID(m, "shop-1"), w.Clock.Now()) // old enough for the list of events

	account, page := whole[client.Account](x, ""), whole[client.AccountPage](x, "")
	most := money.Must("5000.00")
	_, err := w.opts.TenantLimits.SetPayouts(ctx, m.id, time.Time{}, limit.Payouts{MaxTransfer: &most, MaxAccountDay: &most, MaxTenantDay: &most}, audit.By{Actor: "cli:ada", Reason: "a contract"})
	require.NoError(t, err)
	until, name := w.Clock.Now().Add(time.Hour), "Ada N. Obi"
	once := account(c.OpenAccount(ctx, client.NewAccount{
		ExternalRef: "ord%2F 1?#ü", Name: "Ada Obi", BVN: "22233344455", CallbackURL: "https://example.com/cb", ExpectedAmount: "12.50", ExpiresAt: &until, Mode: "onetime",
	}))
	require.Equal(t, once, account(c.Account(ctx, "ord%2F 1?#ü")), "a reference that is not fit for a path")
	require.Equal(t, "onetime https://example.com/cb 12.50", fmt.Sprint(once.Type, " ", *once.CallbackURL, " ", *once.ExpectedAmount))
	require.Equal(t, name, account(c.UpdateAccount(ctx, "shop-1", client.AccountChanges{Name: &name})).BankAccountName)
	require.Len(t, page(c.ListAccounts(ctx, client.AccountFilter{}, client.Page{})).Accounts, 2)
	require.Len(t, page(c.ListAccounts(ctx, client.AccountFilter{Search: "hop-", Status: "active"}, client.Page{})).Accounts, 1)
	require.Equal(t, "expired", account(c.ExpireAccount(ctx, once.ID)).Status)
	require.Len(t, whole[[]client.HistoryEntry](x, "history")(c.History(ctx, once.ID)), 2)

	orders, transfer := whole[client.Accepted](x, ""), whole[client.Transfer](x, "")
	order := client.Order{Amount: "1000.00", BankCode: "058", AccountNumber: "0123456789", Narration: "rent & <more>"}
	accepted := orders(c.Settle(ctx, "shop-1", order, client.IdempotencyKey("order-1")))
	require.Equal(t, accepted, orders(c.Settle(ctx, "shop-1", order, client.IdempotencyKey("order-1"))), "the same, and no second one")
	require.Equal(t, "4000.00", whole[client.Balance](x, "")(c.Balance(ctx, "shop-1")).Balance)
	require.Equal(t, "4000.00", whole[client.Funds](x, "")(c.TenantBalance(ctx)).Balance)
	lines := whole[client.Statement](x, "")(c.Statement(ctx, "shop-1", client.Page{})).Lines
	require.Len(t, lines, 2)
	require.Equal(t, accepted.MerchantTxRef, *lines[1].Entry.TransferRef)
	require.Equal(t, "4000.00", lines[1].RunningBalance)
	require.False(t, transfer(c.Transfer(ctx, accepted.MerchantTxRef)).Ended())
	transfers := whole[client.TransferPage](x, "")
	require.Len(t, transfers(c.ListTransfers(ctx, client.TransferFilter{AccountRef: "shop-1", Status: "pending"}, client.Page{Limit: 1})).Transfers, 1)
	require.Empty(t, transfers(c.ListTransfers(ctx, client.TransferFilter{Status: "failed"}, client.Page{})).Transfers)
	require.NotEmpty(t, whole[[]client.Bank](x, "banks")(c.Banks(ctx)))
	require.Equal(t, "0123456789", whole[client.Holder](x, "")(c.Lookup(ctx, "058", "0123456789")).AccountNumber)
	beneficiary := whole[client.Beneficiary](x, "")
	landlord := beneficiary(c.SaveBeneficiary(ctx, client.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789", Label: "Landlord"}))
	require.Equal(t, landlord, beneficiary(c.SaveBeneficiary(ctx, client.NewBeneficiary{BankCode: "058", AccountNumber: "0123456789"})))
	require.Equal(t, "Rent", beneficiary(c.RenameBeneficiary(ctx, landlord.ID, "Rent")).Label)
	require.Equal(t, "Rent", beneficiary(c.Beneficiary(ctx, landlord.ID)).Label)
	require.Len(t, whole[client.BeneficiaryPage](x, "")(c.ListBeneficiaries(ctx, client.Page{})).Beneficiaries, 1)
	require.Equal(t, "1.00", orders(c.Settle(ctx, "shop-1", client.Order{Amount: "1.00", Beneficiary: landlord.ID}, client.IdempotencyKey("order-2"))).Amount)
	require.Equal(t, landlord.ID, beneficiary(c.RemoveBeneficiary(ctx, landlord.ID)).ID)
	require.Equal(t, client.Quote{ReceiveAmount: "4990.00", ProviderFee: "25.00", SendAmount: "5015.00"}, whole[client.Quote](x, "")(c.Fee(ctx, "4990.00")))
	w.price(m, fee.Price{On: fee.OnPayout, Percent: money.MustRate("1")})
	require.Equal(t, "49.90", whole[client.Quote](x, "")(c.Fee(ctx, "4990")).PlatformFees.Payout.Fee)

	require.Equal(t, "1001.00", whole[client.Limits](x, "")(c.Limits(ctx)).Payouts.Today)
	hold := whole[client.Hold](x, "")
	held := hold(c.PlaceHold(ctx, "shop-1", client.NewHold{Amount: "1.00", Reason: "a deposit"}, client.IdempotencyKey("hold-1")))
	require.Equal(t, held, hold(c.Hold(ctx, held.ID)))
	require.Len(t, whole[client.HoldPage](x, "")(c.ListHolds(ctx, "shop-1", "open", client.Page{})).Holds, 1)
	require.Equal(t, "released", hold(c.ReleaseHold(ctx, held.ID)).Status)

	w.pay(event{"r-back", "t-back", w.accountID(m, "shop-1"), "100.00", "0"})
	lines = whole[client.Statement](x, "")(c.Statement(ctx, "shop-1", client.Page{})).Lines
	credit := lines[len(lines)-1].Entry.ID
	w.confirmFrom("0123456789", "058", "AMINA BELLO")
	refund := whole[client.Refund](x, "")
	back := refund(c.RefundEntry(ctx, credit, "10.00", client.IdempotencyKey("refund-1")))
	require.Equal(t, back, refund(c.RefundEntry(ctx, credit, "10.00", client.IdempotencyKey("refund-1"))))
	require.Equal(t, []string{credit, "10.00"}, []string{back.RefundOf, back.Amount})
	require.Equal(t, credit, *transfer(c.Transfer(ctx, back.MerchantTxRef)).RefundOf)

	payments := whole[client.PaymentPage](x, "")
	require.Empty(t, payments(c.ListPayments(ctx, client.PaymentFilter{Search: "nobody", AccountRef: "shop-1", Amount: "1", Status: "reversed", From: "2026-01-01", To: "2026-01-02"}, client.Page{})).Payments)
	paid := payments(c.ListPayments(ctx, client.PaymentFilter{Search: "AMINA"}, client.Page{})).Payments
	require.Equal(t, []string{credit, "0123456789"}, []string{paid[0].ID, paid[0].SenderAccount})
	require.Equal(t, back.MerchantTxRef, whole[client.PaymentTimeline](x, "")(c.Payment(ctx, credit)).Timeline[4].Reference)

	customer := whole[client.Customer](x, "")
	require.Len(t, whole[client.CustomerPage](x, "")(c.ListCustomers(ctx, client.CustomerFilter{}, client.Page{})).Customers, 2)
	require.Empty(t, whole[client.CustomerPage](x, "")(c.ListCustomers(ctx, client.CustomerFilter{Search: "shop", KYCStatus: "approved"}, client.Page{})).Customers)
	require.Equal(t, "4455", *customer(c.Customer(ctx, once.CustomerID)).BVNLast4)
	require.Equal(t, "ADA OBI", customer(c.RenameCustomer(ctx, once.CustomerID, "ADA OBI")).Name)
	require.Equal(t, "approved", whole[client.KYC](x, "")(c.SubmitNIN(ctx, once.CustomerID, ninOfAda)).KYCStatus)
	require.Equal(t, once.ID, account(c.CustomerAccount(ctx, once.CustomerID)).ID)

	w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, created_at, delivered_at)
		VALUES ('0190c0de-0000-7000-8000-000000000001', $1, $2, $2, 'payment.received', 'https://example.com/cb', '{}', 'delivered', $3, $3)`, m.id, w.accountID(m, "shop-1"), w.Clock.Now())
	require.Len(t, whole[client.EventPage](x, "")(c.ListEvents(ctx, client.Page{Limit: 5})).Events, 2)
	require.Len(t, whole[client.DeadLetterPage](x, "")(c.ListDeadLetters(ctx, client.Page{})).DeadLetters, 1)
	require.NoError(t, c.SetWebhookURL(ctx, "https://example.com/hook"))
	require.Regexp(t, "^[0-9a-f]{64}$", whole[string](x, "webhookSecret")(c.WebhookSecret(ctx)))
	shown := whole[client.ShownEndpoint](x, "")
	added := shown(c.AddWebhookEndpoint(ctx, client.EndpointChange{URL: "https://example.com/2", AccountRefs: &[]string{"shop-1"}}))
	all := []string(nil)
	changed := whole[client.WebhookEndpoint](x, "")(c.ChangeWebhookEndpoint(ctx, added.Endpoint.ID, client.EndpointChange{AccountRefs: &all, Paused: new(true)}))
	require.Nil(t, changed.AccountRefs)
	require.NotNil(t, changed.PausedAt)
	require.NotEqual(t, added.WebhookSecret, shown(c.RotateEndpointSecret(ctx, changed.ID)).WebhookSecret)
	again := whole[client.Delivery](x, "")(c.ResendEvent(ctx, w.accountID(m, "shop-1"), "payment.received", changed.ID))
	require.Equal(t, changed.ID, *again.EndpointID)
	endpoints, err := c.WebhookEndpoints(ctx)
	require.NoError(t, err)
	require.Len(t, endpoints, 1)
	require.NoError(t, c.RemoveWebhookEndpoint(ctx, changed.ID))

	account(c.OpenAccount(ctx, client.NewAccount{ExternalRef: "shop-3", Name: "Bola Ade"}))
	book := whole[client.BookTransfer](x, "")
	moved := book(c.Move(ctx, "shop-1", client.BookOrder{ToAccountRef: "shop-3", Amount: "1.00", Narration: "change"}, client.IdempotencyKey("move-1")))
	require.Equal(t, moved, book(c.Move(ctx, "shop-1", client.BookOrder{ToAccountRef: "shop-3", Amount: "1.00", Narration: "change"}, client.IdempotencyKey("move-1"))))

	_, err = c.ReceiveTestPayment(ctx, client.NewTestPayment{AccountRef: "shop-1", Amount: "1.00"})
	require.ErrorContains(t, err, errLiveOnly.Msg)

	for _, r := range Routes {
		if strings.HasPrefix(r.Path, "/v1/") && !x.has(r) {
			t.Errorf("package client has no method for %s %s, or it is not called here", r.Method, r.Path)
		}
	}
}

// has reports whether the route was called, and not merely another one that looks like it.
func (x *wire) has(r Route) bool {
	form := regexp.MustCompile("^" + r.Method + " " + pathParameter.ReplaceAllString(r.Path, "[^/]+") + "$")
	for called := range x.called {
		own := true
		for _, other := range Routes {
			own = own && (called != other.Method+" "+other.Path || other.Path == r.Path)
		}
		if own && form.MatchString(called) {
			return true
		}
	}
	return false
}

// The iterators go through a list to its end, stop where their caller does, and end with what went
// wrong.
func TestClientGoesThroughLists(t *testing.T) {
	w := setup(t)
	m, _ := w.funded("5000.00")
	c, x := w.connect(m)
	ctx := context.Background()
	for _, ref := range []string{"shop-2", "shop-3"} {
		_, err := c.OpenAccount(ctx, client.NewAccount{ExternalRef: ref, Name: "Ada Obi"})
		require.NoError(t, err)
	}
	w.pay(event{"r-2", "t-2", w.accountID(m, "shop-1"), "1.00", "0"})
	order := client.Order{Amount: "1.00", BankCode: "058", AccountNumber: "0123456789"}
	for range 3 {
		_, err := c.Settle(ctx, "shop-1", order)
		require.NoError(t, err)
		w.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
			VALUES ($1, $2, $3, $1, 'payment.received', 'https://example.com/cb', '{}', 'dead_letter', 6, 'HTTP 500', $4)`,
			uuid.Must(uuid.NewV7()), m.id, w.accountID(m, "shop-1"), w.Clock.Now())
	}
	for range 3 {
		_, err := c.PlaceHold(ctx, "shop-1", client.NewHold{Amount: "1.00", Reason: "a deposit"})
		require.NoError(t, err)
	}
	two := client.Page{Limit: 2}
	require.Len(t, all(t, c.Holds(ctx, "shop-1", "", two), func(h client.Hold) string { return h.ID }), 3)
	require.Equal(t, []string{"shop-3", "shop-2", "shop-1"}, all(t, c.Accounts(ctx, client.AccountFilter{}, two), func(a client.Account) string { return a.AccountRef }))
	require.Equal(t, []string{"shop-3", "shop-2", "shop-1"}, all(t, c.Customers(ctx, client.CustomerFilter{}, two), func(c client.Customer) string { return c.ExternalRef }))
	require.Equal(t, []string{"5000.00", "1.00", "1.00", "1.00", "1.00"}, all(t, c.Lines(ctx, "shop-1", two), func(l client.Line) string { return l.Entry.Amount }))
	require.Len(t, all(t, c.Transfers(ctx, client.TransferFilter{AccountRef: "shop-1"}, two), func(t client.Transfer) string { return t.Status }), 3)
	require.Equal(t, []string{"1.00", "5000.00"}, all(t, c.Payments(ctx, client.PaymentFilter{AccountRef: "shop-1"}, client.Page{Limit: 1}), func(p client.Payment) string { return p.Amount }))
	require.Len(t, all(t, c.DeadLetters(ctx, two), func(d client.DeadLetter) string { return d.ID }), 3)

	x.answer = nil
	for a, err := range c.Accounts(ctx, client.AccountFilter{}, two) {
		require.NoError(t, err)
		require.Equal(t, "shop-3", a.AccountRef)
		break
	}
	require.Contains(t, string(x.answer), `"AccountRef":"shop-2"`, "the first page, and no other")
	n := 0
	for _, err := range c.Accounts(ctx, client.AccountFilter{}, client.Page{After: "nonsense"}) {
		require.Equal(t, 400, client.Status(err))
		n++
	}
	require.Equal(t, 1, n)
}

func all[T any](t *testing.T, items iter.Seq2[T, error], name func(T) string) []string {
	t.Helper()
	var names []string
	for item, err := range items {
		require.NoError(t, err)
		names = append(names, name(item))
	}
	return names
}

// A refusal says its status and text, whatever answered; what is over the limit says when to come
// again.
func TestClientErrors(t *testing.T) {
	w := setup(t)
	m := w.onboard()
	c, _ := w.connect(m)
	ctx := context.Background()
	_, err := c.Account(ctx, "nobody")
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 404, refused.Status)
	require.Equal(t, "account not found", refused.Message)
	require.NotEmpty(t, refused.RequestID)
	require.False(t, refused.Retryable())
	require.ErrorContains(t, err, "404: account not found (request "+refused.RequestID+")")
	_, err = c.Settle(ctx, "nobody", client.Order{})
	require.Equal(t, 400, client.Status(err))

	// A conflict that ends by itself says when to come again, and one that stays does not.
	keyed := client.NewAccount{ExternalRef: "keyed", Name: "Ada Obi"}
	_, err = c.OpenAccount(ctx, keyed, client.IdempotencyKey("first"))
	require.NoError(t, err)
	w.Exec(`INSERT INTO idempotency_keys (tenant_id, key, request_hash, leased_until, created_at)
		SELECT tenant_id, 'running', request_hash, $1, $1 FROM idempotency_keys WHERE key = 'first'`, w.Clock.Now().Add(time.Second))
	_, err = c.OpenAccount(ctx, keyed, client.IdempotencyKey("running"))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 409, refused.Status)
	require.True(t, refused.Retryable())
	require.Equal(t, time.Second, refused.RetryAfter)
	_, err = c.ExpireAccount(ctx, "keyed")
	require.NoError(t, err)
	_, err = c.OpenAccount(ctx, keyed)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 409, refused.Status)
	require.False(t, refused.Retryable())

	// What a server would read as another path is not sent.
	for _, ref := range []string{"", ".", ".."} {
		_, err = c.Balance(ctx, ref)
		require.ErrorContains(t, err, "cannot stand in the path")
		require.Zero(t, client.Status(err))
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Banks(canceled)
	require.ErrorIs(t, err, context.Canceled)

	w.limits("1-M", "100000-M")
	w.serve()
	c, err = client.New(client.Options{URL: w.url, Key: m.key})
	require.NoError(t, err)
	for range 2 {
		_, err = c.ListAccounts(ctx, client.AccountFilter{}, client.Page{})
	}
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 429, refused.Status)
	require.True(t, refused.Retryable())
	require.Greater(t, refused.RetryAfter, time.Duration(0))
	require.LessOrEqual(t, refused.RetryAfter, time.Minute)

	for _, url := range []string{"", "ajo.example", "ftp://ajo.example", "http://", "://"} {
		_, err := client.New(client.Options{URL: url})
		require.Error(t, err, url)
	}
}

// The key goes to the service alone: not along a redirect, and not into what is printed. What is no
// answer of the API is an error with its status.
func TestClientKeepsItsKey(t *testing.T) {
	t.Parallel()
	const key = "ajo_a-key-that-nobody-else-may-see"
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with %q", r.Header.Get("X-API-Key"))
	}))
	defer stranger.Close()
	answers := make(chan http.HandlerFunc, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (<-answers)(w, r) }))
	defer service.Close()
	c, err := client.New(client.Options{URL: service.URL, Key: key, HTTP: &http.Client{}})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", c, *c, *c), key)
	answers <- func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, key, r.Header.Get("X-API-Key"))
		http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
	}
	_, err = c.Banks(context.Background())
	require.Equal(t, 307, client.Status(err))
	answers <- func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>Bad gateway</h1>", http.StatusBadGateway)
	}
	_, err = c.Banks(context.Background())
	require.ErrorContains(t, err, "502: bad gateway")
	answers <- func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<h1>Welcome</h1>") }
	_, err = c.Banks(context.Background())
	var refused *client.Error
	require.Error(t, err)
	require.False(t, errors.As(err, &refused), "no refusal: nobody knows what was done")
}

// A webhook of any type that the document has is read whole.
func TestClientReadsEveryEvent(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(client.Event{})
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(b, &fields))
	for _, op := range description().Webhooks {
		properties := description().Resolve(op.Body.Raw)["properties"].(map[string]any)
		require.NotEmpty(t, properties)
		for name := range properties {
			require.Contains(t, fields, name, "client.Event lacks a field of %s", op.Path)
		}
	}
	h, body := http.Header{}, []byte(`{"eventType":"settlement.failed","transactionGroupId":"g","amount":"5.00"}`)
	signature.Sign(h, []string{"secret"}, "id", time.Now(), body)
	e, err := client.VerifyWebhook(h, body, "secret", 0)
	require.NoError(t, err)
	require.Equal(t, client.Event{EventType: "settlement.failed", TransactionGroupID: "g", Amount: "5.00"}, e)
	require.Equal(t, "settlement.failed g", e.Key())
	_, err = client.VerifyWebhook(http.Header{}, body, "secret", 0)
	require.ErrorIs(t, err, client.ErrUnsigned)
	_, err = client.VerifyWebhook(h, body, "", 0)
	require.ErrorIs(t, err, client.ErrNoSecret)
	signature.Sign(h, []string{"secret"}, "id", time.Now().Add(-time.Minute), body)
	_, err = client.VerifyWebhook(h, body, "secret", 59*time.Second)
	require.ErrorIs(t, err, client.ErrTime)
}
