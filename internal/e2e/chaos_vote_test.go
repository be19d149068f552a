package e2e

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/money"
)

// needsApproval is the sum above which two members must approve a payout of the run.
const needsApproval = "1000.00"

// rejectedFate is that of payouts that a member rejects: the bank hears nothing of them.
var rejectedFate = fate{name: "rejected by a member", end: "failed"}

// vote is what members say about a payout, and when: one approves, and then another approves or
// rejects.
type vote struct {
	first, second int
	rejects       bool
	after         [2]time.Duration
}

func (c *payoutChaos) draws() vote {
	v := vote{first: c.rng.IntN(3), rejects: c.rng.IntN(3) == 0}
	v.second = (v.first + 1 + c.rng.IntN(2)) % 3
	for i := range v.after {
		v.after[i] = time.Duration(c.rng.IntN(2000)) * time.Millisecond
	}
	return v
}

// decide says what the members say. What has no answer is said again. Before the last word the bank
// must not know of it.
func (c *payoutChaos) decide(ref string, v vote) error {
	last := "approve"
	if v.rejects {
		last = "reject"
	}
	for i, s := range []struct {
		member int
		what   string
	}{{v.first, "approve"}, {v.second, last}} {
		if err := clock.Sleep(context.Background(), v.after[i]); err != nil {
			return err
		}
		if _, early := c.bank.Payout(ref); early {
			return fmt.Errorf("%s: the bank has it before the second decision", ref)
		}
		for {
			a, err := request("POST", c.apiURL+"/auth/transfers/"+ref+"/"+s.what, nil, http.Header{"Cookie": {"service_session=" + sessionToken(s.member)}})
			if err != nil || a.status >= 500 {
				continue
			}
			if a.status != http.StatusOK {
				return fmt.Errorf("%s %s: %d %s", s.what, ref, a.status, a.body)
			}
			break
		}
	}
	return nil
}

// checkVotes: the bank was asked for no payout before two members had approved it, and for none
// that one has rejected, whose money is back.
func (c *payoutChaos) checkVotes() {
	c.t.Helper()
	rejected := 0
	for p, v := range c.asked {
		_, paid := c.bank.Payout(p.ref)
		if v.rejects {
			rejected++
			require.False(c.t, paid, p.ref)
			require.Equal(c.t, "failed", c.statusOf(p.ref))
			require.Zero(c.t, c.attempts(p.ref))
			require.Equal(c.t, 1, c.count(`SELECT count(*) FROM ledger_entries WHERE transfer_ref = $1 AND direction = 'debit' AND status = 'reversed' AND kind = ''`, p.ref))
		}
	}
	for _, p := range c.bank.Payouts() {
		if p.Amount.Cmp(money.Must(needsApproval)) > 0 {
			require.Equal(c.t, 2, c.count(`
				SELECT count(*) FROM transfer_approvals a JOIN transfers t ON t.id = a.transfer_id
				WHERE t.merchant_tx_ref = $1 AND a.decision = 'approve' AND t.approved_at IS NOT NULL`, p.Ref))
		}
	}
	require.Equal(c.t, 2*len(c.asked), c.count(`SELECT count(*) FROM transfer_approvals`))
	require.Equal(c.t, len(c.asked), c.count(`SELECT count(*) FROM transfers WHERE approvals_needed = 2`))
	c.t.Logf("%d payouts needed approvals, %d of them were rejected", len(c.asked), rejected)
}
