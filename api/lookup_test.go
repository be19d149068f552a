package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/spec"
	"ajo/internal/transfer"
)

// doubtful has the transfers doubt the bank's "not found", as those of the live service do.
func (w *world) doubtful() {
	w.opts.Transfers.Bank = provider.Doubt(provider.DoubtOptions{
		Bank: w.opts.Transfers.Bank, Clock: w.Clock, Log: w.opts.Log,
		Known: provider.KnownRecords{Destination: func(ctx context.Context) (provider.Destination, error) { return transfer.KnownDestination(ctx, w.Pool) }},
	})
}

// Of a service that has paid nobody yet: however many codes of no bank are looked up, each is not
// found, and the bank is not asked; and however many unknown numbers, as long as the bank finds an
// account that it has found before. A bank that finds nobody is not believed.
func TestManyUnknownBanksAndNumbers(t *testing.T) {
	spec.Shows(t, "endpoint.lookup.404")
	w := setup(t)
	w.doubtful()
	_, key := w.funded("10.00")
	const lookupCall = "POST /v1/transfers/bank/lookup"
	look := func(code, number string) reply {
		return w.do("POST", "/v1/transfers/lookup", fmt.Sprintf(`{"bankCode":%q,"accountNumber":%q}`, code, number), key...)
	}
	for n := range 10 {
		look(fmt.Sprint(990+n%5), "0123456789").refused(404, "destination account not found")
	}
	require.Zero(t, w.bank.Calls(lookupCall))
	look("058", "0123456789").ok(200, nil)
	for range 2 {
		for n := range 10 {
			look("058", fmt.Sprintf("000%07d", n)).refused(404, "destination account not found")
		}
		look("058", "0123456789").ok(200, nil) // the kept name
	}

	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.NotFound})
	for range 4 {
		look("058", "0123456788").refused(404, "destination account not found")
	}
	const unchecked = "provider error: the destination account could not be checked"
	look("058", "0123456788").refused(502, unchecked)
	w.do("POST", "/v1/accounts/shop-1/settle", strings.Replace(orderOf1000, "0123456789", `0123456788","accountName":"Amina Bello`, 1), key...).refused(502, unchecked)
	w.do("POST", "/v1/beneficiaries", `{"bankCode":"058","accountNumber":"0123456788"}`, key...).refused(502, unchecked)
	w.bank.Faults.Clear()
	w.Clock.Advance(10 * time.Second)
	look("058", "0000000001").refused(404, "destination account not found")
}

// Before any look-up has found somebody there is nothing to prove "not found" by. The bank has
// answered all the same, and the refusal does not say otherwise.
func TestUnknownNumbersBeforeAnyIsFound(t *testing.T) {
	w := setup(t)
	w.doubtful()
	m := w.onboard()
	for _, path := range []string{"/v1/transfers/lookup", "/auth/transfers/lookup"} {
		h := m.withKey()
		if strings.HasPrefix(path, "/auth") {
			h = m.withSession()
		}
		for range 2 {
			w.do("POST", path, `{"bankCode":"058","accountNumber":"0000000001"}`, h...).refused(404, "destination account not found")
		}
	}
	for path, h := range map[string]header{"/v1/transfers/lookup": m.withKey(), "/auth/transfers/lookup": m.withSession(), "/auth/beneficiaries": m.withSession()} {
		w.do("POST", path, `{"bankCode":"058","accountNumber":"0000000001"}`, h...).refused(502, "provider error: the destination account could not be checked")
	}
}
