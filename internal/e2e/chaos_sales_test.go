package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// sales is what comes in while a run of many payouts goes on: payments to one-time accounts, whose
// numbers the bank issues again, and payments that pay for payouts and are then taken back.
type sales struct {
	number  int
	changed bool // the bank signs with the next secret
	paid    []sale
	tills   []*till
	waited  int // payouts whose money was taken back before they left
	done    chan error
}

// sale is a payment and the reference of the account that it was made to.
type sale struct{ account, tx string }

// till is an account whose money the bank takes back, when a payout has been asked for.
type till struct {
	*payout
	nuban string
}

// tillFate is that of payouts against money that is taken back: what has not left waits for other
// money.
var tillFate = fate{name: "money that is taken back", end: "success"}

// opens draws how much comes in, and has the bank issue numbers again.
func (c *payoutChaos) opens(n int) {
	c.sales = sales{number: max(4, n/50), done: make(chan error, 1)}
	c.bank.Faults.Add(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue})
	for i := range max(2, n/100) {
		p := &payout{account: fmt.Sprintf("till-%d", i), accountNumber: fmt.Sprintf("8%09d", i), amount: money.FromKobo(200_00 + c.rng.Int64N(500_00))}
		c.sales.tills = append(c.sales.tills, &till{payout: p})
		// so that the bank has mostly taken the money back before the payout leaves
		c.bank.Faults.Add(fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Fail, Match: p.accountNumber, Next: 5})
		c.payouts, c.fates[p.accountNumber] = append(c.payouts, p), tillFate
	}
}

// sells makes the payments, one after the other, and asks for the payouts against those that are
// taken back.
func (c *payoutChaos) sells() {
	err := func() error {
		for i := range max(c.sales.number, len(c.sales.tills)) {
			if i < c.sales.number {
				if err := c.sell(i); err != nil {
					return err
				}
			}
			if i < len(c.sales.tills) {
				if err := c.takeBack(c.sales.tills[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	c.sales.done <- err
}

// sell opens a one-time account and has it paid what it expects, which ends it.
func (c *payoutChaos) sell(i int) error {
	ref := fmt.Sprintf("sale-%d", i)
	a, err := c.opened(fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi","mode":"onetime","expectedAmount":5000}`, ref))
	if err != nil {
		return err
	}
	return c.pays(ref, a.BankAccountNumber, money.Must("5000.00"), nil)
}

// takeBack pays for a payout, asks for it, and takes the payment back, which had been confirmed.
func (c *payoutChaos) takeBack(t *till) error {
	a, err := c.opened(fmt.Sprintf(`{"externalRef":%q,"name":"Ada Obi"}`, t.account))
	if err != nil {
		return err
	}
	t.nuban = a.BankAccountNumber
	if err := c.pays(t.account, t.nuban, t.amount, &money.Zero); err != nil {
		return err
	}
	for ok := false; !ok; {
		if ok, err = c.order(t.payout); err != nil {
			return err
		}
	}
	_, err = c.bank.Reverse(context.Background(), c.sales.paid[len(c.sales.paid)-1].tx)
	return err
}

// pays makes a payment, and returns when it is confirmed. A nil fee is the bank's usual one.
func (c *payoutChaos) pays(account, nuban string, gross money.Amount, fee *money.Amount) error {
	tx, err := c.bank.Pay(context.Background(), fakebank.Payment{NUBAN: nuban, Amount: gross, Fee: fee})
	if err != nil {
		return err
	}
	c.sales.paid = append(c.sales.paid, sale{account, tx.ID})
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var confirmed bool
		err := c.Pool.QueryRow(context.Background(), `
			SELECT EXISTS (SELECT FROM inbound_events e JOIN ledger_entries l ON l.transaction_group_id = e.id WHERE e.provider_txn_ref = $1 AND l.status = 'confirmed')`, tx.ID).Scan(&confirmed)
		if err != nil || confirmed {
			return err
		}
		if time.Since(begin) > 2*healLimit {
			return fmt.Errorf("payment %s to %s is not confirmed after %s: %s", tx.ID, account, 2*healLimit, c.unfinished())
		}
	}
}

// opened asks for an account under one key until there is one.
func (c *payoutChaos) opened(body string) (a account, err error) {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got, err := request("POST", c.apiURL+"/v1/accounts", json.RawMessage(body), http.Header{"X-Api-Key": {c.key}, "Idempotency-Key": {body}})
		switch {
		case err == nil && got.status == http.StatusCreated:
			return a, json.Unmarshal(got.body, &a)
		case err == nil && got.status < 500 && got.status != http.StatusConflict, time.Since(begin) > 2*healLimit:
			return a, fmt.Errorf("an account for %s: %d %s, %v", body, got.status, got.body, err)
		}
	}
}

// startAt runs the API on an address that stays, so that it can be replaced.
func (c *payoutChaos) startAt() {
	c.t.Helper()
	c.settings["AJO_HTTP_ADDR"] = freeAddress(c.t)
	c.startAPI()
}

// changeSecret has the bank sign with another secret from now on: the API is replaced by one that
// knows the new secret beside the previous one, then the bank changes.
func (c *payoutChaos) changeSecret() {
	c.t.Helper()
	c.settings["AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS"] = c.settings["AJO_PROVIDER_WEBHOOK_SECRET"]
	c.settings["AJO_PROVIDER_WEBHOOK_SECRET_PREVIOUS_UNTIL"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	c.settings["AJO_PROVIDER_WEBHOOK_SECRET"] = nextSecret
	c.keepSecret("bank's next webhook secret", nextSecret)
	c.api.Kill()
	c.api = c.run("api")
	c.api.logged("the API listens")
	c.bank.SetWebhookSecret(nextSecret)
	c.sales.changed = true
}

// closes waits for the end of the sales, and pays for what was taken back.
func (c *payoutChaos) closes() {
	c.t.Helper()
	require.NoError(c.t, <-c.sales.done)
	require.True(c.t, c.sales.changed)
	for _, t := range c.sales.tills {
		if c.statusOf(t.ref) == "pending" {
			c.sales.waited++
		}
		require.NoError(c.t, c.pays(t.account, t.nuban, t.amount, &money.Zero))
	}
}

// checkSales: each payment is posted once, on the account that it was made to, and as the bank's
// record says; every event of the bank was believed, whichever secret it was signed with.
func (c *payoutChaos) checkSales(n int) {
	c.t.Helper()
	c.eventually("the end of all checks and recalls", func() bool {
		return c.count(`SELECT count(*) FROM work WHERE kind IN ('ingest', 'confirm') AND due_at < now() + interval '1 hour'`)+c.count(`SELECT count(*) FROM recalls WHERE status = 'open'`) == 0
	})
	taken := 0
	for _, s := range c.sales.paid {
		tx, _ := c.bank.Transaction(s.tx)
		status := "confirmed"
		if tx.Status == fakebank.StatusRefund {
			status = "reversed"
			taken++
		}
		require.Equal(c.t, fmt.Sprintf("credit %s %s on %s", tx.Amount.Sub(tx.Fee), status, s.account), testenv.Value[string](c.Env, `
			SELECT coalesce(string_agg(format('%s %s %s on %s', l.direction, l.amount, l.status, a.account_ref), ', '), 'nothing')
			FROM ledger_entries l JOIN accounts a ON a.id = l.account_id WHERE l.provider_txn_ref = $1 AND l.reversal_of IS NULL`, s.tx))
	}
	require.Equal(c.t, len(c.sales.tills), taken)
	require.Zero(c.t, c.count(`SELECT count(*) FROM inbound_events WHERE NOT authentic`))
	again := c.count(`SELECT count(*) FROM (SELECT FROM accounts WHERE bank_account_number IS NOT NULL GROUP BY bank_account_number HAVING count(*) > 1) AS n`)
	if n >= longRun {
		require.Positive(c.t, again, "no number was issued again")
		require.Positive(c.t, c.sales.waited, "no payout waited for other money")
	}
	c.t.Logf("%d payments, %d of them taken back, %d numbers issued again, the secret changed; %d payouts waited for other money",
		len(c.sales.paid), taken, again, c.sales.waited)
}
