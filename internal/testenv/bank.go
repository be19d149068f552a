package testenv

import (
	"cmp"
	"testing"
	"time"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/provider/nomba"
)

// Bank starts a fake bank on the test's clock. It ends with the test.
func (e *Env) Bank(o fakebank.Options) *fakebank.Bank {
	e.T.Helper()
	o.Clock = e.Clock
	return StartBank(e.T, o)
}

// StartBank starts a fake bank that ends with t. It waits long for the answer to an event: a busy
// machine is no silent service.
func StartBank(t testing.TB, o fakebank.Options) *fakebank.Bank {
	t.Helper()
	o.WebhookTimeout = cmp.Or(o.WebhookTimeout, time.Minute)
	b := fakebank.New(o)
	_, err := b.Start("")
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

// BankClient speaks to a fake bank as the service does, but neither limits its calls nor, unless
// change says so, repeats them. It waits long for an answer: a busy machine is no silent bank.
func BankClient(t testing.TB, bank *fakebank.Bank, c clock.Clock, change ...func(*nomba.Options)) *nomba.Client {
	t.Helper()
	o := nomba.Options{
		URL: bank.URL(), AccountID: fakebank.DefaultAccountID, ClientID: fakebank.DefaultClientID, ClientSecret: fakebank.DefaultClientSecret,
		Clock: c, Timeout: time.Minute, Retries: -1, RequestsPerSec: -1, PostsPerSec: -1,
	}
	for _, f := range change {
		f(&o)
	}
	client, err := nomba.New(o)
	must(t, err)
	return client
}
