package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/signature"
	"ajo/internal/testenv"
)

// needApproval has two of three members approve each payout above 10.00.
func (c *crash) needApproval() { c.approvers("10.00") }

// approvers has two of three members approve each payout above a sum; each has a session, whose
// token ends in the member's number.
func (s *settler) approvers(above string) {
	s.Exec(`UPDATE tenants SET payout_approvals = 2, approve_above = $2::numeric WHERE id = $1`, s.tenant, above)
	for i := range 3 {
		id := uuid.New()
		s.Exec(`INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at)
			VALUES ($1, $2, $1::uuid::text || '@tenant.example', 'Ada Obi', 'finance', 'x', now(), now())`, id, s.tenant)
		s.Exec(`INSERT INTO sessions (token_hash, id, tenant_id, member_id, created_at, expires_at) VALUES (sha256($1::text::bytea), gen_random_uuid(), $2, $3, now(), now() + interval '1 day')`,
			sessionToken(i), s.tenant, id)
	}
}

func sessionToken(i int) string { return fmt.Sprintf("%043d", i) }

// approving orders three payouts: one that needs no approval, one that two members approve, and one
// that a member rejects. Decisions without an answer are sent again, and all of them twice.
func (c *crash) approving(n int) unit {
	account := fmt.Sprintf("shop-%d", n)
	c.fund(account, money.Must("100.00"))
	payouts := make([]*payout, 3)
	for i, amount := range []string{"10.00", "20.00", "30.00"} {
		payouts[i] = &payout{account: account, accountNumber: fmt.Sprintf("%d%09d", i+1, n), amount: money.Must(amount)}
	}
	said := map[string]int{} // times that a decision was answered
	say := func(i int, ref, decision string) {
		key := fmt.Sprintf("%d %s", i, ref)
		if said[key] == 2 {
			return
		}
		a, ok := c.ask("POST", "/auth/transfers/"+ref+"/"+decision, nil, map[string]string{"Cookie": "service_session=" + sessionToken(i)})
		if ok && a.status < 500 {
			require.Equal(c.t, http.StatusOK, a.status, "%s", a.body)
			said[key]++
		}
	}
	return func() bool {
		other := c.another()
		for _, p := range payouts {
			if p.ref == "" {
				ok, err := c.order(p)
				require.NoError(c.t, err)
				if !ok {
					return false
				}
			}
		}
		say(0, payouts[1].ref, "approve")
		say(0, payouts[2].ref, "approve")
		say(1, payouts[2].ref, "reject")
		if _, paid := c.bank.Payout(payouts[1].ref); paid {
			require.Positive(c.t, said["1 "+payouts[1].ref]+c.deaths(), "the bank has it before the second approval")
		}
		say(1, payouts[1].ref, "approve")
		return other && c.paidOrLost(payouts[0].ref) && c.paidOrLost(payouts[1].ref) && c.statusOf(payouts[2].ref) == "failed" && len(said) == 4
	}
}

// checkApproved: the bank has what needed no approval and what two have approved, and each decision
// is there once.
func (c *crash) checkApproved(units int) {
	c.t.Helper()
	c.checkPayouts()
	require.Len(c.t, c.bank.Paid(), 2*units+len(c.others)-len(c.lost))
	for _, p := range c.bank.Payouts() {
		require.LessOrEqual(c.t, p.Amount.Cmp(money.Must("20.00")), 0)
		if p.Amount.Cmp(money.Must("10.00")) > 0 {
			require.Equal(c.t, 2, c.count(`
				SELECT count(*) FROM transfer_approvals a JOIN transfers t ON t.id = a.transfer_id WHERE t.merchant_tx_ref = $1 AND a.decision = 'approve' AND a.decided_at <= t.submitted_at`, p.Ref))
		}
	}
	require.Equal(c.t, 4*units, c.count(`SELECT count(*) FROM transfer_approvals`))
	require.Equal(c.t, 4*units, c.count(`SELECT count(*) FROM audit_log WHERE action IN ('transfer.approve', 'transfer.reject')`))
}

// answerByHook has the tenant's own system approve payouts above 10.00 but for those of 30.00.
func (c *crash) answerByHook() {
	c.startAPI()
	a, ok := c.ask("POST", "/auth/webhook-secret", nil, map[string]string{"X-Api-Key": c.key})
	require.True(c.t, ok)
	var made struct{ WebhookSecret string }
	a.into(c.t, &made)
	c.api.Stop(syscall.SIGTERM, 20*time.Second)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ MerchantTxRef, Amount, Nonce string }
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &q) != nil {
			return
		}
		decision := "approve"
		if q.Amount == "30.00" {
			decision = "reject"
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"decision": decision, "signature": signature.Approval(made.WebhookSecret, decision, q.MerchantTxRef, q.Amount, q.Nonce)})
	}))
	c.t.Cleanup(hook.Close)
	c.Exec(`UPDATE tenants SET payout_approvals = 1, approve_above = 10, approval_hook = $2 WHERE id = $1`, c.tenant, hook.URL)
}

// asking orders two payouts, one that the hook approves and one that it rejects.
func (c *crash) asking(n int) unit {
	account := fmt.Sprintf("shop-%d", n)
	c.fund(account, money.Must("100.00"))
	ends := map[*payout]string{
		{account: account, accountNumber: fmt.Sprintf("1%09d", n), amount: money.Must("20.00")}: "success",
		{account: account, accountNumber: fmt.Sprintf("2%09d", n), amount: money.Must("30.00")}: "failed",
	}
	return func() bool {
		done := true
		for p, end := range ends {
			if p.ref == "" {
				_, err := c.order(p)
				require.NoError(c.t, err)
			}
			done = done && p.ref != "" && c.statusOf(p.ref) == end
		}
		return done
	}
}

// checkAsked: the bank has what the hook approved, and each of its decisions is there once.
func (c *crash) checkAsked(units int) {
	c.t.Helper()
	c.checkPayouts()
	require.Len(c.t, c.bank.Payouts(), units)
	require.Equal(c.t, units, testenv.Value[int](c.Env, `
		SELECT count(*) FROM transfer_approvals a JOIN transfers t ON t.id = a.transfer_id WHERE a.decision = 'approve' AND t.amount = 20 AND t.status = 'success'`))
	require.Equal(c.t, 2*units, c.count(`SELECT count(*) FROM transfer_approvals`))
}
