package fakebank_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// vector is the provider's own example, as decisions.md cites it.
var vector = fakebank.SignedFields{
	EventType: "payment_success", RequestID: "45f2dc2d-d559-4773-bba3-2d5ec17b2e20",
	UserID: "b7b10e81-e57d-41d0-8fdc-f4e23a132bbf", WalletID: "6756ff80aafe04a795f18b38",
	TransactionID: "API-VACT_TRA-B7B10-0435b274-807a-4bc7-8abe-9dbb4548fd7a", Type: "vact_transfer", Time: "2025-09-29T10:51:44Z",
}

func TestSignatureVector(t *testing.T) {
	t.Parallel()
	const secret, stamp, want = "HkatexKDZg7CLWy96q5sfrVHSvtoz92B", "2025-09-29T10:51:44Z", "Kt9095hQxfgmVbx6iz7G2tPhHdbdXgLlyY/mf35sptw="
	require.Equal(t, want, fakebank.Sign(secret, vector, stamp))
	f := vector
	f.ResponseCode = "null"
	require.Equal(t, want, fakebank.Sign(secret, f, stamp), `"null" counts as empty`)
	f.ResponseCode = "00"
	require.NotEqual(t, want, fakebank.Sign(secret, f, stamp))

	for _, code := range []string{``, `,"responseCode":null`, `,"responseCode":""`, `,"responseCode":"null"`} {
		f, err := fakebank.FieldsOf([]byte(`{"event_type":"payment_success","requestId":"` + vector.RequestID + `","data":{
			"merchant":{"userId":"` + vector.UserID + `","walletId":"` + vector.WalletID + `","walletBalance":1},
			"transaction":{"transactionId":"` + vector.TransactionID + `","type":"vact_transfer","time":"` + vector.Time + `"` + code + `}}}`))
		require.NoError(t, err)
		require.Equal(t, want, fakebank.Sign(secret, f, stamp), code)
	}
	_, err := fakebank.FieldsOf([]byte(`[]`))
	require.Error(t, err)
}

func TestEventWire(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url, SignatureHeader: "provider-signature"})
	number := b.open()
	tx := b.pay("5000.00")
	b.flush()
	got := hooks.all()
	require.Len(t, got, 1)
	require.JSONEq(t, `{"event_type":"payment_success","requestId":"`+tx.RequestID+`","data":{
		"merchant":{"userId":"dev-account-0001","walletId":"wallet-dev-account-0001","walletBalance":4975.0},
		"transaction":{"transactionId":"`+tx.ID+`","type":"vact_transfer","time":"2026-03-02T09:30:00Z","responseCode":"",
			"transactionAmount":5000.0,"fee":25.0,"currency":"NGN","aliasAccountReference":"`+ref+`","aliasAccountNumber":"`+number+`","sessionId":"`+tx.SessionID+`",
			"narration":"Transfer from MUSA SALAMI to Halima Stores"},
		"customer":{"senderName":"MUSA SALAMI","accountNumber":"0123456789","bankName":"Wema Bank"}}}`, string(got[0].body))
	require.Equal(t, "2026-03-02T09:30:00Z", got[0].header.Get("provider-timestamp"))
	require.Equal(t, "application/json", got[0].header.Get("Content-Type"))
	require.True(t, got[0].signatureHolds(t, fakebank.DefaultWebhookSecret))
	require.JSONEq(t, string(got[0].body), string(b.EventFor(tx)))

	for code, want := range map[string]string{
		fakebank.ResponseCodeNull: `"responseCode":null`, fakebank.ResponseCodeAbsent: `"currency"`, "null": `"responseCode":"null"`, "00": `"responseCode":"00"`,
	} {
		tx.ResponseCode = code
		require.Contains(t, string(b.EventFor(tx)), want)
		require.Equal(t, code != fakebank.ResponseCodeAbsent, strings.Contains(string(b.EventFor(tx)), "responseCode"))
	}
}

// A webhook that is not taken is sent again under the same requestId, freshly signed, after each of
// the delays.
func TestWebhookRetries(t *testing.T) {
	hooks := receive(t, func(n int) int { return []int{500, 0, 302, 404, 503, 200}[n-1] })
	b := setup(t, fakebank.Options{WebhookURL: hooks.url, TokenTTL: 24 * time.Hour})
	b.open()
	tx := b.pay("100")
	b.flush()
	waits := []time.Duration{2 * time.Minute, 5 * time.Minute, 11 * time.Minute, 24 * time.Minute, 53 * time.Minute}
	for i, d := range waits {
		b.clock.Advance(d - time.Second)
		b.flush()
		require.Len(t, hooks.all(), i+1, "not before its time")
		w, ok := b.WebhookFor(tx.ID)
		require.True(t, ok)
		require.Equal(t, fakebank.HookWaiting, w.State)
		b.clock.Advance(time.Second)
		b.flush()
		require.Len(t, hooks.all(), i+2)
	}
	w, _ := b.WebhookFor(tx.ID)
	require.Equal(t, fakebank.HookDelivered, w.State)
	require.Len(t, w.Attempts, 6)
	require.NotEmpty(t, w.Attempts[1].Error)
	got := hooks.all()
	for _, g := range got {
		require.Equal(t, got[0].body, g.body)
		require.True(t, g.signatureHolds(t, fakebank.DefaultWebhookSecret))
	}
	require.Equal(t, "2026-03-02T11:05:00Z", got[5].header.Get("provider-timestamp"))
}

func TestWebhookIsGivenUp(t *testing.T) {
	hooks := receive(t, func(int) int { return 500 })
	b := setup(t, fakebank.Options{WebhookURL: hooks.url, RetryDelays: []time.Duration{time.Minute}})
	b.open()
	tx := b.pay("100")
	for range 3 {
		b.flush()
		b.clock.Advance(time.Minute)
	}
	b.flush()
	w, _ := b.WebhookFor(tx.ID)
	require.Equal(t, fakebank.HookGivenUp, w.State)
	require.Len(t, hooks.all(), 2)

	require.NoError(t, b.Resend(tx.ID))
	b.flush()
	require.Len(t, hooks.all(), 3)
	require.ErrorIs(t, b.Resend("nobody"), fakebank.ErrNoRecord)
}

// With nobody asking it anything, the bank notices by itself that a clock has reached a retry.
func TestWebhookRetryComesByItself(t *testing.T) {
	hooks := receive(t, func(n int) int { return map[bool]int{true: 200, false: 500}[n > 1] })
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	b.open()
	_, err := b.Pay(t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("100"), Wait: true})
	require.NoError(t, err)
	require.Len(t, hooks.all(), 1, "Wait is for the first attempt")
	b.flush()
	b.clock.Advance(2 * time.Minute)
	testenv.Eventually(t, 30*time.Second, "the second attempt", func() bool { return len(hooks.all()) == 2 }, func() any { return len(hooks.all()) })
}

func TestWebhookFaults(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{})
	b.open()
	lone := b.pay("1")
	b.flush()
	w, _ := b.WebhookFor(lone.ID)
	require.Equal(t, fakebank.HookNoURL, w.State)
	b.SetWebhookURL(hooks.url)
	seen := 0
	fresh := func() []received {
		b.flush()
		all := hooks.all()
		defer func() { seen = len(all) }()
		return all[seen:]
	}
	on := func(r fakebank.Rule) {
		r.On, r.Next = fakebank.OnWebhooks, 1
		b.Faults.Set(r)
	}

	on(fakebank.Rule{Do: fakebank.Missing})
	tx := b.pay("100")
	require.Empty(t, fresh())
	w, _ = b.WebhookFor(tx.ID)
	require.Equal(t, fakebank.HookMissing, w.State)

	on(fakebank.Rule{Do: fakebank.Again, Copies: 2})
	b.pay("100")
	got := fresh()
	require.Len(t, got, 3)
	require.Equal(t, got[0].body, got[1].body)

	on(fakebank.Rule{Do: fakebank.AgainNewID})
	tx = b.pay("100")
	got = fresh()
	require.Len(t, got, 2)
	first, err := fakebank.FieldsOf(got[0].body)
	require.NoError(t, err)
	second, err := fakebank.FieldsOf(got[1].body)
	require.NoError(t, err)
	require.NotEqual(t, first.RequestID, second.RequestID)
	require.Equal(t, tx.ID, first.TransactionID)
	require.Equal(t, tx.ID, second.TransactionID)
	require.True(t, got[0].signatureHolds(t, fakebank.DefaultWebhookSecret) && got[1].signatureHolds(t, fakebank.DefaultWebhookSecret))

	on(fakebank.Rule{Do: fakebank.BadSignature})
	b.pay("100")
	require.False(t, fresh()[0].signatureHolds(t, fakebank.DefaultWebhookSecret))

	b.Faults.Clear()
	b.SetWebhookSecret("the next secret")
	b.pay("100")
	require.True(t, fresh()[0].signatureHolds(t, "the next secret"))
	b.SetWebhookSecret(fakebank.DefaultWebhookSecret)

	on(fakebank.Rule{Do: fakebank.Late, Delay: time.Minute})
	b.pay("100")
	require.Empty(t, fresh())
	b.clock.Advance(time.Minute)
	require.Len(t, fresh(), 1)

	b.Faults.Set(fakebank.Rule{On: fakebank.OnWebhooks, Do: fakebank.Missing, Match: fakebank.PayoutSuccess})
	b.submit("one", "1")
	require.Empty(t, fresh())
	b.pay("100")
	require.Len(t, fresh(), 1)

	_, err = b.Pay(t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must("1"), Silent: true})
	require.NoError(t, err)
	require.Empty(t, fresh())
}

func TestSendEvent(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	event := b.Event(fakebank.PaymentSuccess, fakebank.Transaction{
		ID: "forged", AccountRef: ref, NUBAN: "0123456789", Amount: money.Must("9007199254740993.01"[:15]), Currency: "NGN", Time: start,
	})
	event.Data.Transaction.TransactionAmount = json.RawMessage(`9007199254740993.01`)
	body, err := json.Marshal(event)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, _, err := b.SendEvent(ctx, body, nil)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.True(t, hooks.all()[0].signatureHolds(t, fakebank.DefaultWebhookSecret))
	require.Contains(t, string(hooks.all()[0].body), "9007199254740993.01")

	_, _, err = b.SendEvent(ctx, []byte("not JSON"), http.Header{"Provider-Signature": {"none"}})
	require.NoError(t, err)
	require.Equal(t, "none", hooks.all()[1].header.Get("provider-signature"))
	require.Equal(t, "not JSON", string(hooks.all()[1].body))
}

// A payment is taken back: by record and event, or by its record alone.
func TestReversal(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	b.open()
	loud, silent, third := b.pay("5000.00"), b.pay("5000.00"), b.pay("5000.00")
	_, err := b.Reverse(t.Context(), loud.ID)
	require.NoError(t, err)
	_, err = b.ReverseSilently(t.Context(), silent.ID)
	require.NoError(t, err)
	_, err = b.Reverse(t.Context(), loud.ID)
	require.ErrorIs(t, err, fakebank.ErrState)
	_, err = b.ReverseSilently(t.Context(), "nothing")
	require.ErrorIs(t, err, fakebank.ErrNoRecord)
	b.flush()
	status := map[string]string{}
	for _, tx := range b.Transactions() {
		status[tx.ID] = tx.Status
	}
	require.Equal(t, map[string]string{
		loud.ID: fakebank.StatusRefund, silent.ID: fakebank.StatusRefund, third.ID: fakebank.StatusSuccess,
	}, status)
	var reversals []string
	for _, call := range hooks.all() {
		var e fakebank.Event
		require.NoError(t, json.Unmarshal(call.body, &e))
		if e.EventType == fakebank.PaymentReversal {
			reversals = append(reversals, e.Data.Transaction.TransactionID)
		}
	}
	require.Equal(t, []string{loud.ID}, reversals)
	require.Equal(t, "4975.00", b.Wallet().String())
}

// A payment that was pending arrives once, and only then is its money there.
func TestPendingPaymentArrives(t *testing.T) {
	b := setup(t, fakebank.Options{})
	tx, err := b.Pay(t.Context(), fakebank.Payment{NUBAN: b.open(), Amount: money.Must("5000.00"), Status: fakebank.StatusPending, Silent: true})
	require.NoError(t, err)
	require.Equal(t, "0.00", b.Wallet().String())
	for _, want := range []error{nil, fakebank.ErrState} {
		_, err = b.Arrive(tx.ID)
		require.ErrorIs(t, err, want)
		arrived, _ := b.Transaction(tx.ID)
		require.Equal(t, fakebank.StatusSuccess, arrived.Status)
		require.Equal(t, "4975.00", b.Wallet().String())
	}
	_, err = b.Arrive("nothing")
	require.ErrorIs(t, err, fakebank.ErrNoRecord)
}

// An event may name another payer than the record does, under a signature that holds.
func TestForgedSender(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{WebhookURL: hooks.url})
	number := b.open()
	b.post("/control/pay", `{"nuban":"`+number+`","amount":100,"sender":"DAYO EZE","senderAccount":"2345678901","senderBank":"Zenith Bank",
		"forgedSender":"THIEF","forgedAccount":"1234567890","forgedBank":"OPay","wait":true}`)
	got := hooks.all()
	require.Len(t, got, 1)
	require.True(t, got[0].signatureHolds(t, fakebank.DefaultWebhookSecret))
	require.Contains(t, string(got[0].body), `"customer":{"senderName":"THIEF","accountNumber":"1234567890","bankName":"OPay"}`)
	record := b.do("POST", "/v1/transactions/accounts", `{}`).text
	require.Contains(t, record, `"senderName":"DAYO EZE","accountNumber":"2345678901","bankName":"Zenith Bank","bankCode":"057"`)
	require.NotContains(t, record, "THIEF")
	require.Equal(t, "DAYO EZE", b.do("POST", "/v1/transfers/bank/lookup", `{"accountNumber":"2345678901","bankCode":"057"}`).get("data", "accountName"))
}
