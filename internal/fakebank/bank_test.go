package fakebank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// start is where every test's clock stands at first.
var start = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

// bundle is a bank on a loopback port, a clock that the test moves, and a caller with a token.
type bundle struct {
	*fakebank.Bank
	t     *testing.T
	clock *clock.Fake
	url   string
	token string
}

func setup(t *testing.T, o fakebank.Options) *bundle {
	t.Helper()
	t.Parallel()
	return run(t, o, clock.NewFake(start))
}

func run(t *testing.T, o fakebank.Options, c *clock.Fake) *bundle {
	t.Helper()
	o.Clock, o.WebhookTimeout = c, time.Minute
	b := &bundle{Bank: fakebank.New(o), t: t, clock: c}
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	var err error
	b.url, err = b.Start("")
	require.NoError(t, err)
	b.login()
	return b
}

func (b *bundle) login() {
	b.t.Helper()
	a := b.call("POST", "/v1/auth/token/issue", `{"grant_type":"client_credentials","client_id":"dev-client","client_secret":"dev-client-secret"}`,
		"accountId", fakebank.DefaultAccountID)
	require.Equal(b.t, 200, a.status, a.text)
	var in struct{ Data map[string]string }
	require.NoError(b.t, json.Unmarshal([]byte(a.text), &in))
	b.token = in.Data["access_token"]
}

// reply is the result of a call; err is set when there was no answer.
type reply struct {
	status int
	text   string
	err    error
}

// get reads a value out of the answer by its path.
func (r reply) get(path ...string) any {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(r.text)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

// do calls with the token.
func (b *bundle) do(method, path, body string) reply {
	b.t.Helper()
	return b.call(method, path, body, "Authorization", "Bearer "+b.token, "accountId", fakebank.DefaultAccountID)
}

// call uses a connection of its own, so that the client never repeats a call by itself.
func (b *bundle) call(method, path, body string, headers ...string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, bytes.NewReader([]byte(body)))
	require.NoError(b.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	if to := resp.Header.Get("Location"); to != "" {
		text = []byte(to)
	}
	return reply{status: resp.StatusCode, text: string(text)}
}

const ref = "0191d5a0-0000-7000-8000-00000000000a"

// open makes a virtual account under ref and returns its number.
func (b *bundle) open() string {
	b.t.Helper()
	a := b.do("POST", "/v1/accounts/virtual", `{"accountRef":"`+ref+`","accountName":"Halima Stores"}`)
	require.Equal(b.t, "00", a.get("code"), a.text)
	return a.get("data", "bankAccountNumber").(string)
}

// pay pays an amount to ref, without waiting for the webhook.
func (b *bundle) pay(amount string) fakebank.Transaction {
	b.t.Helper()
	t, err := b.Pay(b.t.Context(), fakebank.Payment{AccountRef: ref, Amount: money.Must(amount), SenderName: "MUSA SALAMI"})
	require.NoError(b.t, err)
	return t
}

// submit asks for a payout.
func (b *bundle) submit(ref, amount string) reply {
	b.t.Helper()
	return b.do("POST", "/v2/transfers/bank", `{"amount":`+amount+`,"accountNumber":"0123456789","accountName":"AMINA BELLO",
		"bankCode":"058","merchantTxRef":"`+ref+`","senderName":"Ajo","narration":"settlement"}`)
}

func (b *bundle) flush() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	require.NoError(b.t, b.Flush(ctx))
}

// receiver is the service's end of the webhooks: it keeps what it is sent and answers as it is
// told.
type receiver struct {
	url string

	mu     sync.Mutex
	got    []received
	answer func(n int) int // the status of the n-th request, from 1
}

type received struct {
	body   []byte
	header http.Header
}

func (r received) signatureHolds(t *testing.T, secret string) bool {
	t.Helper()
	f, err := fakebank.FieldsOf(r.body)
	require.NoError(t, err)
	return r.header.Get("Provider-Signature") == fakebank.Sign(secret, f, r.header.Get("Provider-Timestamp"))
}

func receive(t *testing.T, answer func(n int) int) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	srv := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, received{body, req.Header.Clone()})
		n := len(r.got)
		r.mu.Unlock()
		status := 200
		if r.answer != nil {
			status = r.answer(n)
		}
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
	}))
	r.url = srv
	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}
