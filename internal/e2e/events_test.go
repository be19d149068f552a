package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// event is a genuine event that the bank has not sent: its body and the headers that it is signed
// with.
type event struct {
	tx      fakebank.Transaction
	body    []byte
	headers http.Header
}

// genuine makes a payment at the bank whose event the test sends itself.
func (p *paid) genuine() event {
	p.t.Helper()
	e := event{tx: p.payment(fakebank.Payment{NUBAN: p.nuban, Amount: money.Must("5000.00"), Silent: true})}
	e.body = p.bank.EventFor(e.tx)
	var err error
	e.headers, err = p.bank.SignedHeaders(e.body)
	require.NoError(p.t, err)
	return e
}

// sends posts a body to the webhook, which must be answered 200 with an empty object whatever it
// is.
func (p *paid) sends(body []byte, headers http.Header) {
	p.t.Helper()
	status, said, err := p.bank.SendEvent(context.Background(), body, headers)
	require.NoError(p.t, err)
	require.Equal(p.t, 200, status, "%s", body)
	require.JSONEq(p.t, `{}`, string(said))
}

// headersWith are headers with another signature; empty values leave the header out.
func headersWith(signature, timestamp string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	if signature != "" {
		h.Set(fakebank.DefaultSignatureHeader, signature)
	}
	if timestamp != "" {
		h.Set(fakebank.DefaultTimestampHeader, timestamp)
	}
	return h
}

func (p *paid) forged() int {
	p.t.Helper()
	return p.count(`SELECT count(*) FROM inbound_events WHERE category = 'sig_invalid' AND status = 'failed' AND NOT authentic`)
}

// A hundred copies of one event at once, and then as many of the same payment under other request
// ids: one posting, one delivery.
func TestHundredCopiesAtOnce(t *testing.T) {
	p := newWorld(t).settle()
	p.startWorker("ingest,confirm,expire,settle")
	p.startWorker("deliver=128")
	e := p.genuine()
	var copies sync.WaitGroup
	for range 100 {
		copies.Go(func() { p.sends(e.body, e.headers) })
	}
	for i := range 100 {
		again := p.bank.Event(fakebank.PaymentSuccess, e.tx)
		again.RequestID = fmt.Sprintf("%s-%d", again.RequestID, i)
		body, err := json.Marshal(again)
		require.NoError(t, err)
		copies.Go(func() { p.sends(body, nil) })
	}
	copies.Wait()
	p.txs = p.bank.Transactions()
	p.waitForEnd(1)
	p.checkBooks(p.endpoint)
	require.Len(t, p.endpoint.received(), 1)
	require.Equal(t, 1, p.count(`SELECT count(*) FROM inbound_events`))
}

// Forged events with a real one's ids come first, in every form. They are answered 200, kept as
// forged, and block nothing.
func TestForgedEventsBlockNothing(t *testing.T) {
	p := newWorld(t).settle()
	p.startWorker("")
	e, other := p.genuine(), p.genuine()
	genuine, timestamp := e.headers.Get(fakebank.DefaultSignatureHeader), e.headers.Get(fakebank.DefaultTimestampHeader)
	fields, err := fakebank.FieldsOf(e.body)
	require.NoError(t, err)
	forgeries := []http.Header{
		headersWith("", ""),
		headersWith("", timestamp),
		headersWith(genuine, ""),
		headersWith("AAAA", timestamp),
		headersWith(base64.StdEncoding.EncodeToString(make([]byte, 32)), timestamp),
		headersWith(other.headers.Get(fakebank.DefaultSignatureHeader), timestamp),
		headersWith(fakebank.Sign("another-secret", fields, timestamp), timestamp),
		headersWith(fakebank.Sign("", fields, timestamp), timestamp),
		headersWith(genuine, "2020-01-01T00:00:00Z"),
		headersWith(genuine+"=", timestamp),
	}
	for _, h := range forgeries {
		p.sends(e.body, h)
	}
	for _, body := range []string{"", "{", "null", "[]", `{"event_type":"payment_success"}`, "\xff\xfe", strings.Repeat("[", 10_000)} {
		p.sends([]byte(body), headersWith(genuine, timestamp))
	}
	forged := len(forgeries) + 7
	require.Equal(t, forged, p.forged())
	require.Equal(t, progress{}, p.progress())

	p.sends(e.body, e.headers)
	p.sends(other.body, other.headers)
	p.sends(e.body, headersWith("AAAA", timestamp))
	p.waitForEnd(2)
	p.checkBooks(p.endpoint)
	require.Equal(t, forged+1, p.forged())
}

// The signed string of one genuine event is cut at other colons, in all the ways there are: the
// signature holds for each, and none is believed. Nor is a body whose keys occur twice, in any
// spelling. The event itself still posts.
func TestRecutAndDoubledKeys(t *testing.T) {
	p := newWorld(t).settle()
	p.startWorker("")
	e := p.genuine()
	f, err := fakebank.FieldsOf(e.body)
	require.NoError(t, err)
	timestamp := e.headers.Get(fakebank.DefaultTimestampHeader)
	nine := []string{f.EventType, f.RequestID, f.UserID, f.WalletID, f.TransactionID, f.Type, f.Time, f.ResponseCode, timestamp}
	all := cuts(strings.Split(strings.Join(nine, ":"), ":"), len(nine))
	require.Len(t, all, 495, "twelve colons, of which eight are the joints")
	sent := 0
	for _, c := range all {
		if strings.Join(c, "\n") == strings.Join(nine, "\n") {
			continue
		}
		body := recut(t, e.body, c)
		require.True(t, signatureHolds(p.settings["AJO_PROVIDER_WEBHOOK_SECRET"], body, c[8], e.headers.Get(fakebank.DefaultSignatureHeader)))
		p.sends(body, headersWith(e.headers.Get(fakebank.DefaultSignatureHeader), c[8]))
		sent++
	}
	for _, body := range doubled(string(e.body)) {
		require.NotEqual(t, string(e.body), body)
		require.True(t, json.Valid([]byte(body)), body)
		p.sends([]byte(body), e.headers)
		sent++
	}
	require.Equal(t, sent, p.forged())
	require.Equal(t, progress{}, p.progress())

	p.sends(e.body, e.headers)
	p.waitForEnd(1)
	p.checkBooks(p.endpoint)
}

// cuts are all the ways to join the parts into n groups, in their order.
func cuts(parts []string, n int) [][]string {
	if n == 1 {
		return [][]string{{strings.Join(parts, ":")}}
	}
	var all [][]string
	for i := 1; i <= len(parts)-n+1; i++ {
		for _, rest := range cuts(parts[i:], n-1) {
			all = append(all, append([]string{strings.Join(parts[:i], ":")}, rest...))
		}
	}
	return all
}

// recut is the body with other signed values; everything else stays as it was.
func recut(t *testing.T, body []byte, c []string) []byte {
	t.Helper()
	var e fakebank.Event
	require.NoError(t, json.Unmarshal(body, &e))
	e.EventType, e.RequestID, e.Data.Merchant.UserID, e.Data.Merchant.WalletID = c[0], c[1], c[2], c[3]
	tx := &e.Data.Transaction
	tx.TransactionID, tx.Type, tx.Time = c[4], c[5], c[6]
	code, err := json.Marshal(c[7])
	require.NoError(t, err)
	tx.ResponseCode = code
	tx.TransactionAmount = json.RawMessage("999999.00")
	b, err := json.Marshal(e)
	require.NoError(t, err)
	return b
}

// signatureHolds checks the forgery itself: a body that did not even have a valid signature would
// prove nothing.
func signatureHolds(key string, body []byte, timestamp, signature string) bool {
	f, err := fakebank.FieldsOf(body)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprint(mac, strings.Join([]string{
		f.EventType, f.RequestID, f.UserID, f.WalletID, f.TransactionID, f.Type, f.Time, f.ResponseCode, timestamp,
	}, ":"))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)) == signature
}

// doubled are bodies with a key that occurs twice, or twice but for its case, before or after the
// genuine one.
func doubled(body string) []string {
	first := func(key, extra string) string { return strings.Replace(body, `"`+key+`":`, extra+`,"`+key+`":`, 1) }
	return []string{
		first("transactionAmount", `"TRANSACTIONAMOUNT":999999`),
		first("transactionAmount", `"transactionAmount":999999`),
		first("transactionAmount", `"transactionamount":999999`),
		first("transactionAmount", `"transact\u0069onAmount":999999`),
		first("fee", `"transactionAmount":999999`),
		first("aliasAccountReference", `"aliasaccountreference":"x"`),
		first("requestId", `"REQUESTID":"x"`),
		first("event_type", `"Event_Type":"payment_failed"`),
		first("data", `"DATA":{}`),
		first("merchant", `"transaction":{"transactionAmount":999999}`),
		first("narration", `"currency":"USD"`),
		first("walletId", `"walletid":"x"`),
		string(bytes.TrimSuffix([]byte(body), []byte("}"))) + `,"Data":{"transaction":{"transactionAmount":999999}}}`,
	}
}
