package api

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/freeze"
)

// What a tenant sees of a freeze: a settlement is accepted, waits and leaves when the freeze is
// lifted, or is refused where new ones are; nothing is available meanwhile, and the balance stays.
func TestFreezeAsATenantSeesIt(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	account := uuid.MustParse(w.accountID(m, "shop-1"))
	freezes := freeze.Service{Pool: w.Pool, Clock: w.Clock}
	by := audit.By{Actor: "cli:test", Reason: "a ticket"}
	begin := func(n freeze.New) (lift func()) {
		f, err := freezes.Begin(t.Context(), n, by)
		require.NoError(t, err)
		return func() {
			_, err := freezes.Lift(t.Context(), f.ID, by)
			require.NoError(t, err)
		}
	}
	funds := func(balance, available string) {
		t.Helper()
		w.do("GET", "/v1/accounts/shop-1/balance", "", key...).ok(200, nil).
			has(`{"accountRef":"shop-1","balance":"` + balance + `","available":"` + available + `","provisional":"0.00","held":"0.00","currency":"NGN"}`)
	}
	funds("5000.00", "5000.00")

	lift := begin(freeze.New{Scope: freeze.Payouts})
	ref := w.settle(key, orderOf1000)
	w.advance(ref)
	var got struct{ Status string }
	w.do("GET", "/v1/transfers/"+ref, "", key...).ok(200, &got)
	require.Equal(t, "pending", got.Status)
	require.Empty(t, w.bank.Payouts())
	funds("4000.00", "0.00")
	lift()
	w.advance(ref)
	w.do("GET", "/v1/transfers/"+ref, "", key...).ok(200, &got)
	require.Equal(t, "success", got.Status)
	funds("4000.00", "4000.00")

	lift = begin(freeze.New{Scope: freeze.Account, Subject: account, Requests: true})
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, key...).refused(409, "account is frozen")
	funds("4000.00", "0.00")
	lift()
	require.NotEqual(t, ref, w.settle(key, orderOf1000))
}
