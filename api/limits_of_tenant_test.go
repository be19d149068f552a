package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/limit"
	"ajo/internal/money"
	"ajo/ledger"
)

// A tenant sees its limits and what is used of them, and a refusal says the rest. The key of a
// refused request is free for another try.
func TestLimitsOfATenant(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	none := map[string]any{"maxTransfer": nil, "maxAccountDay": nil, "maxTenantDay": nil, "today": "0.00", "left": nil}
	st := w.ask("GET", "/v1/limits", "", 200, key)
	require.Equal(t, none, st["payouts"])
	require.Empty(t, st["tiers"])
	most := money.Must("1500.00")
	_, err := w.opts.TenantLimits.SetPayouts(context.Background(), m.id, time.Time{}, limit.Payouts{MaxTenantDay: &most}, audit.By{Actor: "cli:ada", Reason: "a contract"})
	require.NoError(t, err)
	w.settle(key, orderOf1000)
	order := append(header(key), "Idempotency-Key", "second")
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, order...).
		refused(400, "amount is above the limit maxTenantDay: NGN 1500.00 a day, NGN 500.00 left")
	st = w.ask("GET", "/v1/limits", "", 200, key)
	require.Equal(t, w.Clock.Now().Add(time.Hour).UTC().Format(time.DateOnly), st["day"])
	require.Equal(t, map[string]any{"maxTransfer": nil, "maxAccountDay": nil, "maxTenantDay": "1500.00", "today": "1000.00", "left": "500.00"}, st["payouts"])
	w.Clock.Advance(24 * time.Hour)
	w.do("POST", "/v1/accounts/shop-1/settle", orderOf1000, order...).ok(202, nil)
}

// Money above a limit of the customer's tier is in the balance and held, as its hold says, and the
// tenant cannot release it.
func TestLimitsOfATier(t *testing.T) {
	w := setup(t)
	m, key := w.funded("5000.00")
	most := money.Must("1500.00")
	by := audit.By{Actor: "cli:ada", Reason: "the law"}
	_, err := w.opts.TenantLimits.SetTier(context.Background(), m.id, time.Time{}, limit.Tier{Tier: 1, MaxDeposit: &most}, by)
	require.NoError(t, err)
	require.Equal(t, []any{map[string]any{"tier": json.Number("1"), "maxDeposit": "1500.00", "maxDay": nil, "maxBalance": nil}}, w.ask("GET", "/v1/limits", "", 200, key)["tiers"])
	w.fund(m, "2000.00")
	w.ask("GET", "/v1/accounts/shop-1/balance", "", 200, key).has(t, fields{"balance": "7000.00", "available": "6500.00", "held": "500.00"})
	h := fields(w.ask("GET", "/v1/accounts/shop-1/holds?status=open", "", 200, key)).list("holds")[0]
	require.Equal(t, "500.00 maxDeposit of tier 1: NGN 1500.00 limit", h["amount"].(string)+" "+h["reason"].(string)+" "+h["source"].(string))
	require.NotNil(t, h["entryId"])
	w.do("POST", "/v1/holds/"+h["id"].(string)+"/release", "", key...).refused(422, ledger.ErrHoldOfLimit.Error())
}
