package e2e

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// holding holds all confirmed money of an account, has a settlement wait that only the release
// covers, releases, and has it paid. Each request is repeated with its key until it is answered.
func (c *crash) holding(n int) unit {
	account := fmt.Sprintf("shop-%d", n)
	c.credit(c.fund(account, money.Must("100.00")), money.Must("50.00")) // and 50.00 that stay provisional
	p := &payout{account: account, accountNumber: fmt.Sprintf("1%09d", n), amount: money.Must("50.00")}
	var hold struct{ ID, Status string }
	var released time.Time
	// once reports whether the request was answered with the status.
	once := func(status int, path string, body any) bool {
		a, ok := c.ask("POST", path, body, map[string]string{"X-Api-Key": c.key, "Idempotency-Key": path})
		if !ok || a.status == http.StatusConflict || a.status >= 500 {
			return false
		}
		require.Equal(c.t, status, a.status, "%s", a.body)
		a.into(c.t, &hold)
		return true
	}
	return func() bool {
		switch {
		case hold.ID == "":
			once(http.StatusCreated, "/v1/accounts/"+account+"/holds", map[string]string{"amount": "100.00", "reason": "a deposit"})
		case p.ref == "":
			_, err := c.order(p)
			require.NoError(c.t, err)
		case hold.Status == "open":
			// Asked for, it may have been released and paid without an answer: nothing waits then.
			if released.IsZero() && c.count(`SELECT count(*) FROM transfers WHERE merchant_tx_ref = $1 AND last_error LIKE 'waits%'`, p.ref) == 0 {
				return false // the worker has not found yet that it lacks cover
			}
			released = time.Now()
			once(http.StatusOK, "/v1/holds/"+hold.ID+"/release", nil)
		default:
			if c.statusOf(p.ref) == "success" {
				c.t.Logf("paid %s after the release was asked for", time.Since(released).Round(time.Millisecond))
				return true
			}
		}
		return false
	}
}

// checkHolds: each request had its effect once, and what was released was paid once.
func (c *crash) checkHolds(units int) {
	c.t.Helper()
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM holds`))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM holds WHERE status = 'released'`))
	require.Len(c.t, c.bank.Paid(), units)
	testenv.FindsNothing(c.t, c.Pool, ledger.Verify)
}
