package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// chooseSettlements has settlements delivered to the tenant; nobody delivers here, so the
// deliveries wait.
func (c *crash) chooseSettlements() {
	c.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook',
		webhook_events = '{settlement.succeeded,settlement.failed,settlement.refunded}' WHERE id = $1`, c.tenant)
}

// chooseFees is chooseSettlements for a tenant that bears what the bank takes: the fee that is
// expected at the acceptance is corrected at the end, and given back with what comes back. The
// platform takes its own too.
func (c *crash) chooseFees() {
	c.chooseSettlements()
	c.bearsFees()
	c.price("payout", "0.20")
}

// platformTakes is the price with its VAT, rounded half up.
const platformTakes = "0.22"

// price has the platform take a flat fee, and VAT of 7.5 % on it: what the deaths leave of them is
// recomputed when the books are checked.
func (c *crash) price(on, flat string) {
	c.Exec(`INSERT INTO prices (id, tenant_id, charged_on, percent, flat, minimum, valid_from, created_at, actor, reason)
		SELECT gen_random_uuid(), '00000000-0000-0000-0000-000000000000', charged_on, percent, flat, 0, '2020-01-02', '2020-01-01', 'cli:ada', 'list 7'
		FROM (VALUES ($1::text, 0, $2::text::numeric), ('vat', 7.5, 0)) AS v (charged_on, percent, flat)`, on, flat)
}

// settlement asks for four settlements, which between them come to every end: one is paid at once;
// one is paid and nobody hears of it; one is rejected; one is paid, and the money is given back. A
// worker that dies with the rejection unrecorded has it submitted again: in the long form it is
// rejected till it is given up, which takes a second of asynq's for each of fifteen steps; in the
// short one it is paid then.
func (c *crash) settlement(n int) unit {
	account := fmt.Sprintf("shop-%d", n)
	c.fund(account, c.funds())
	number := func(kind int) string { return fmt.Sprintf("%d%09d", kind, n) }
	rejection := fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject, Match: number(3)}
	if c.want == 1 {
		rejection.Next = 1
	}
	c.bank.Faults.Add(
		fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Match: number(2), Next: 1},
		rejection,
	)
	payouts := make([]*payout, 4)
	for i := range payouts {
		payouts[i] = &payout{account: account, accountNumber: number(i + 1), amount: money.FromKobo(int64(i+1) * 10_00)}
	}
	ends, givenBack := []string{"success", "success", "failed", "success"}, false
	return func() bool {
		done := c.another()
		for i, p := range payouts {
			if p.ref == "" {
				if ok, err := c.order(p); err != nil || !ok {
					require.NoError(c.t, err)
					return false
				}
			}
			status := c.statusOf(p.ref)
			// its submissions were all lost to deaths, and the bank knows of none
			if status == "failed" && c.attempts(p.ref) == maxSubmissions {
				ends[i] = status
			}
			if status == "success" && i == 2 && c.want == 1 && c.attempts(p.ref) > 1 {
				ends[i] = status
			}
			done = done && status == ends[i]
		}
		if done && !givenBack && ends[3] == "success" {
			_, err := c.bank.EndPayout(payouts[3].ref, fakebank.StatusRefund)
			require.NoError(c.t, err)
			ends[3], givenBack, done = "refunded", true, false
		}
		return done
	}
}

// another reports whether the payouts beside those of the units have ended, where there are any. If
// deaths took all payouts before the bank had one, its "not found" is doubted after five times,
// until it is known to have a payout: as in a service that goes on, there is another one then, and
// one more if that was lost too.
func (c *crash) another() bool {
	none := c.deaths() > 0 && len(c.bank.Paid()) == 0
	for _, p := range c.others {
		if p.ref == "" {
			_, err := c.order(p)
			require.NoError(c.t, err)
			return false
		}
		none = none && c.attempts(p.ref) > 0
	}
	if n := len(c.others); none && n < 5 {
		if n == 0 {
			c.fund("another", c.funds())
		}
		c.others = append(c.others, &payout{account: "another", accountNumber: fmt.Sprintf("5%d00000000", n), amount: money.Must("1.00")})
		return false
	}
	done := true
	for _, p := range c.others {
		done = c.paidOrLost(p.ref) && done
	}
	return done
}

// maxSubmissions is after how many of them a payout that the bank does not know fails.
const maxSubmissions = 5

// paidOrLost reports whether a payout has ended: it was paid, or each of its submissions was lost
// to a death before the bank had it, and it failed.
func (c *crash) paidOrLost(ref string) bool {
	switch status := c.statusOf(ref); {
	case status == "failed" && c.attempts(ref) == maxSubmissions:
		if !slices.Contains(c.lost, ref) {
			c.lost = append(c.lost, ref)
		}
		return true
	default:
		return status == "success"
	}
}

// checkSettlements compares the transfers with the bank's payouts: each destination is paid once at
// most.
func (c *crash) checkSettlements(units int) {
	c.t.Helper()
	c.checkPayouts()
	require.Equal(c.t, 4*units+len(c.others), c.count(`SELECT count(*) FROM transfers`))
	require.Zero(c.t, c.count(`
		SELECT count(*) FROM transfers t
		WHERE (SELECT array_agg(event_type ORDER BY event_type) FROM deliveries WHERE transaction_group_id = t.id) IS DISTINCT FROM
			CASE status WHEN 'success' THEN '{settlement.succeeded}' WHEN 'failed' THEN '{settlement.failed}'
				WHEN 'refunded' THEN '{settlement.refunded,settlement.succeeded}' END::text[]`), "each end is published once")
	for n := 1; n <= units && c.want == 1; n++ {
		left := c.funds()
		for _, p := range c.bank.Paid() {
			if !strings.HasSuffix(p.AccountNumber, fmt.Sprintf("%09d", n)) {
				continue
			}
			if left = left.Sub(p.Amount); c.bears {
				left = left.Sub(chargesOf(p)).Sub(money.Must(platformTakes))
			}
		}
		require.Equal(c.t, left.String(), c.balanceOf(fmt.Sprintf("shop-%d", n)))
	}
}

// funds are what a unit of settlements has: what it pays out, and what the bank may take for it.
func (c *crash) funds() money.Amount {
	if c.bears {
		return money.Must("1000.00")
	}
	return money.Must("100.00")
}
