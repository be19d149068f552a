package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// atBank is a fake bank over HTTP with one account, and the service that it sends events to.
type atBank struct {
	t      *testing.T
	bank   *fakebank.Bank
	url    string
	events atomic.Int32
	status atomic.Int32 // what the service answers
}

func newAtBank(t *testing.T) *atBank {
	t.Parallel()
	b := &atBank{t: t}
	b.status.Store(200)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.events.Add(1)
		w.WriteHeader(int(b.status.Load()))
	}))
	t.Cleanup(service.Close)
	b.bank = testenv.StartBank(t, fakebank.Options{WebhookURL: service.URL})
	b.url = b.bank.URL()
	return b
}

func (b *atBank) open(ref string) string {
	b.t.Helper()
	a, err := testenv.BankClient(b.t, b.bank, clock.System).CreateAccount(context.Background(), provider.NewAccount{Ref: ref, Name: "Ada Obi"})
	require.NoError(b.t, err)
	return a.Number
}

func (b *atBank) trigger(args ...string) (string, error) {
	return b.triggerWith(map[string]string{}, args...)
}

func (b *atBank) triggerWith(env map[string]string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newTriggerCmd(newEnvironment(func(name string) string { return env[name] }, b.t.TempDir(), io.Discard))
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"payment", "--bank", b.url}, args...))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

func TestTriggerPayment(t *testing.T) {
	b := newAtBank(t)
	_, err := b.trigger()
	require.ErrorContains(t, err, "the bank has no virtual account that takes payments")
	first := b.open("0198c0de-0000-7000-8000-000000000001")
	out, err := b.trigger("--amount", "10.00")
	require.NoError(t, err, "the only account there is")
	require.Contains(t, out, "paid NGN 10.00 to "+first+" (Ada Obi Account)")
	b.events.Store(0)

	// With several of them, the newest may be another tenant's: nobody is paid by a guess.
	second := b.open("0198c0de-0000-7000-8000-000000000002")
	before := len(b.bank.Transactions())
	_, err = b.trigger("--amount", "10.00")
	require.ErrorContains(t, err, "the bank has 2 accounts that take payments: name one, or set AJO_API_KEY")
	require.ErrorContains(t, err, "--nuban "+second+"   Ada Obi Account\n  --nuban "+first)
	require.Len(t, b.bank.Transactions(), before)

	out, err = b.trigger("--nuban", second, "--amount", "1250.5", "--sender", "Bola\x1b[31m Ade")
	require.NoError(t, err)
	require.Contains(t, out, "Bola [31m Ade paid NGN 1250.50 to "+second+"; the bank keeps a fee of 10.00. Transaction API-VACT_TRA-")
	require.Contains(t, out, "The bank's event payment_success was answered 200.")
	require.EqualValues(t, 1, b.events.Load())

	out, err = b.trigger("--nuban", first)
	require.NoError(t, err)
	require.Contains(t, out, "paid NGN 5000.00 to "+first)

	b.status.Store(503)
	out, err = b.trigger("--nuban", first)
	require.NoError(t, err, "the payment is made, whatever happened to its event")
	require.Contains(t, out, "The bank's event payment_success was refused (answered 503); the bank sends it again.")

	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnWebhooks, Do: fakebank.Missing})
	out, err = b.trigger("--nuban", first)
	require.NoError(t, err)
	require.Contains(t, out, "The bank sends no event")
	b.bank.SetWebhookURL("")
	b.bank.Faults.Clear()
	out, err = b.trigger("--nuban", first)
	require.NoError(t, err)
	require.Contains(t, out, "The bank has no URL to send its event to.")
}

func TestTriggerPaymentRefuses(t *testing.T) {
	b := newAtBank(t)
	before := len(b.bank.Transactions())
	for want, args := range map[string][]string{
		`above zero, such as 1250.50, not "0.00"`:      {"--amount", "0"},
		`a sum of naira, such as 1250.50, not "1.001"`: {"--amount", "1.001"},
		`a sum of naira, such as 1250.50, not "-5"`:    {"--amount", "-5"},
		"the fake bank: no such virtual account":       {"--nuban", "0000000000"},
		"--account needs your API key in AJO_API_KEY":  {"--account", "customer-1"},
		"[account nuban]": {"--account", "customer-1", "--nuban", "0000000000"},
	} {
		_, err := b.trigger(args...)
		require.ErrorContains(t, err, want)
	}
	_, err := b.triggerWith(map[string]string{"AJO_API_KEY": "ajo_test_key"}, "--account", "customer-1")
	require.ErrorContains(t, err, "POST /v1/test/payments")
	require.Len(t, b.bank.Transactions(), before)
	require.NoError(t, b.bank.Close())
	_, err = b.trigger()
	require.ErrorContains(t, err, "connection refused")
}

// With the key, the account is the tenant's own: the one that is named, or its newest.
func TestTriggerPaysTheKeysTenant(t *testing.T) {
	b := newAtBank(t)
	own, other := b.open("0198c0de-0000-7000-8000-000000000001"), b.open("0198c0de-0000-7000-8000-000000000002")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account := `{"ID":"1","BankAccountNumber":"` + own + `","BankAccountName":"Ada Obi"}`
		switch {
		case r.Header.Get("X-API-Key") != "ajo_key":
			w.WriteHeader(401)
		case r.URL.Path == "/v1/accounts/customer-1":
			_, _ = io.WriteString(w, account)
		case r.URL.Path == "/v1/accounts" && r.URL.Query().Get("status") == "active" && r.URL.Query().Get("limit") == "1":
			_, _ = io.WriteString(w, `{"accounts":[`+account+`],"pagination":{"limit":1,"nextCursor":null,"hasMore":false}}`)
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(api.Close)
	env := map[string]string{"AJO_API_KEY": "ajo_key"}
	for _, args := range [][]string{{"--api", api.URL}, {"--api", api.URL, "--account", "customer-1"}} {
		out, err := b.triggerWith(env, args...)
		require.NoError(t, err)
		require.Contains(t, out, "paid NGN 5000.00 to "+own+" (Ada Obi)")
		require.NotContains(t, out, other)
	}
	_, err := b.triggerWith(env, "--api", api.URL, "--account", "nobody")
	require.Error(t, err)
}
