package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fee"
	"ajo/internal/money"
)

// price sets what the platform takes, and waits until it starts.
func (w *world) price(m member, prices ...fee.Price) {
	w.T.Helper()
	for _, p := range prices {
		if p.On != fee.OnVAT {
			p.TenantID = m.id
		}
		_, err := w.opts.Prices.Set(context.Background(), p, audit.By{Actor: "cli:ada", Reason: "a contract"})
		require.NoError(w.T, err)
	}
	w.Clock.Advance(fee.Lead)
}

// The specification's answers stay as they are, also their bytes where a tenant has no price; a
// tenant's price stands beside them.
func TestFeesOfATenantWithAPrice(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	require.NotContains(t, w.ask("GET", "/v1/fees/calculate?amount=4990", "", 200, key), "platform_fees")
	most := money.Must("100.00")
	w.price(m, fee.Price{On: fee.OnPayment, Percent: money.MustRate("1"), Flat: money.Must("5.00"), Cap: &most}, fee.Price{On: fee.OnVAT, Percent: money.MustRate("7.5")})
	since := w.Clock.Now().UTC().Format(time.RFC3339Nano)
	payment := map[string]any{
		"percent": "1", "flat": "5.00", "minimum": "0.00", "cap": "100.00", "valid_from": since, "vat_percent": "7.5", "fee": "55.15", "vat": "4.14",
	}
	w.ask("GET", "/v1/fees/calculate?amount=4990", "", 200, key).has(t, fields{
		"receive_amount": "4990.00", "provider_fee": "25.00", "send_amount": "5015.00", "platform_fees": map[string]any{"payment": payment, "payout": nil},
	})
	w.price(m, fee.Price{On: fee.OnPayout, Flat: money.Must("10.00")})
	got := w.ask("GET", "/v1/fees/calculate?net=1", "", 200, key)
	got.has(t, fields{"net": "1.00", "fee": "10.00", "gross": "11.00"})
	of := got["platform_fees"].(map[string]any)
	require.Equal(t, []any{"0.93", "0.07"}, []any{of["payment"].(map[string]any)["fee"], of["payment"].(map[string]any)["vat"]}, "no more than arrives")
	require.Equal(t, []any{"10.00", "0.75"}, []any{of["payout"].(map[string]any)["fee"], of["payout"].(map[string]any)["vat"]})
	require.NotContains(t, w.ask("GET", "/v1/fees/calculate?amount=4990", "", 200, w.onboard().withKey()), "platform_fees", "another tenant")
}
