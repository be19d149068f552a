package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/limit"
	"ajo/internal/money"
)

// A tenant sees its limits and what is used of them, and a refusal says the rest. The key of a
// refused request is free for another try.
func TestLimitsOfATenant(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	none := fields{"maxTransfer": nil, "maxAccountDay": nil, "maxTenantDay": nil, "today": "0.00", "left": nil}
	require.EqualValues(t, none, w.ask("GET", "/v1/limits", "", 200, key)["payouts"])
	most := money.Must("1500.00")
	_, err := w.opts.TenantLimits.SetPayouts(context.Background(), m.id, time.Time{}, limit.Payouts{MaxTenantDay: &most}, audit.By{Actor: "cli:ada", Reason: "a contract"})
	require.NoError(t, err)
	w.settle(key, orderOf1000)
	order := append(header(key), "Idempotency-Key", "second")
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, order...).
		refused(400, "amount is above the limit maxTenantDay: NGN 1500.00 a day, NGN 500.00 left")
	st := w.ask("GET", "/v1/limits", "", 200, key)
	require.Equal(t, w.Clock.Now().Add(time.Hour).UTC().Format(time.DateOnly), st["day"])
	require.EqualValues(t, fields{"maxTransfer": nil, "maxAccountDay": nil, "maxTenantDay": "1500.00", "today": "1000.00", "left": "500.00"}, st["payouts"])
	w.Clock.Advance(24 * time.Hour)
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, order...).ok(202, nil)
}
