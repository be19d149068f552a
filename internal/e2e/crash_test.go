package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/failpoint"
	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
)

// At each point of a settlement (before and after every commit, ring and call of the bank) the process that comes there is
// killed, and started again. Four settlements are under way, which between them pass every point: one is paid at once; one
// is paid and nobody hears of it; one is rejected; one is paid, and the money is given back. All end right, each destination
// is paid once at most, and the books agree. A point that nobody passes fails the test.
func TestKilledAtEachPointOfASettlement(t *testing.T) {
	for _, point := range pointsOf("transfer/", "tasks/") {
		t.Run(point, func(t *testing.T) {
			c := newCrash(t, point, "settle")
			c.fund("shop", money.Must("100.00"))
			c.bank.Faults.Set(
				fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.DropAfter, Match: "2000000002", Next: 1},
				fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject, Match: "3000000003"},
			)
			paid, unheard := c.settle("1000000001", "10.00"), c.settle("2000000002", "20.00")
			rejected, refunded := c.settle("3000000003", "30.00"), c.settle("4000000004", "40.00")
			c.waitFor(refunded, "success")
			_, err := c.bank.EndPayout(refunded.ref, fakebank.StatusRefund)
			require.NoError(t, err)
			c.waitFor(paid, "success")
			c.waitFor(unheard, "success")
			c.waitFor(rejected, "failed")
			c.waitFor(refunded, "refunded")
			c.checkPayouts()
			require.Equal(t, "70.00", c.balanceOf("shop"))
			c.wasPassed()
		})
	}
}

// The same for everything before a settlement: a one-time account is opened, paid its exact amount, and so expires and is
// closed at the bank; the payment is stored, posted, told and confirmed; another account expires at the tenant's word. There
// is one of each in the end, here and at the bank.
func TestKilledAtEachPointOfAPayment(t *testing.T) {
	for _, point := range pointsOf("account/", "payment/", "webhook/") {
		t.Run(point, func(t *testing.T) {
			c := newCrash(t, point, "")
			e := newEndpoint(t)
			c.Exec(`UPDATE tenants SET webhook_url = $2 WHERE id = $1`, c.tenant, e.URL)
			order := c.open(`{"externalRef":"order","name":"Ada Obi","mode":"onetime","expectedAmount":5000}`)
			shop := c.open(`{"externalRef":"shop","name":"Ada Obi"}`)
			c.pay(order.BankAccountNumber, "5000.00")
			c.until("the payment to be posted, told and confirmed", func() bool { return c.progress() == progress{1, 1, 1, 1} })
			c.until("the other account to expire", func() bool {
				a, err := request("POST", c.apiURL+"/v1/accounts/shop/expire", nil, http.Header{"X-Api-Key": {c.key}})
				return err == nil && (a.status == 200 || a.status == 422) // 422: it had expired, and the answer was lost
			})
			c.until("both accounts to be closed at the bank", func() bool {
				return c.count(`SELECT count(*) FROM accounts WHERE closed_at IS NOT NULL AND next_attempt_at IS NULL`) == 2
			})
			for _, a := range []account{order, shop} {
				there, ok := c.bank.Account(a.BankAccountNumber)
				require.True(t, ok)
				require.True(t, there.Closed)
			}
			require.Len(t, c.bank.Accounts(), 2)
			require.Equal(t, 2, c.count(`SELECT count(*) FROM accounts`))
			require.Equal(t, 2, c.count(`SELECT count(*) FROM account_history WHERE to_status = 'expired'`))
			require.Len(t, e.groups(), 1, "told of one payment, at least once")
			require.Equal(t, "4975.00", c.balanceOf(order.ID))
			findings, err := invariant.Verify(context.Background(), c.Pool)
			require.NoError(t, err)
			require.Empty(t, findings)
			c.wasPassed()
		})
	}
}

// pointsOf are the points whose names begin so.
func pointsOf(prefixes ...string) (points []string) {
	for _, p := range failpoint.Points {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
			points = append(points, p)
		}
	}
	return points
}

// Every point belongs to one of the two tests above.
func TestEveryPointIsTried(t *testing.T) {
	require.Equal(t, len(failpoint.Points), len(pointsOf("transfer/", "tasks/"))+len(pointsOf("account/", "payment/", "webhook/")))
}

// crash is a settler whose processes die once, at the point, and are started again.
type crash struct {
	*settler
	point  string
	queues string
	worker *process
	ended  string // what the processes said that died
}

func newCrash(t *testing.T, point, queues string) *crash {
	t.Helper()
	c := &crash{settler: newSettler(t), point: point, queues: queues}
	c.settings["AJO_FAILPOINT"] = point
	c.startAPI()
	c.worker = c.startWorker(queues)
	delete(c.settings, "AJO_FAILPOINT")
	return c
}

// tend starts again what has died; the leases that it has left run out at once.
func (c *crash) tend() {
	c.t.Helper()
	if !c.api.ended() && !c.worker.ended() {
		return
	}
	for _, table := range []string{"accounts", "idempotency_keys", "inbound_events", "deliveries"} {
		c.Exec(`UPDATE ` + table + ` SET leased_until = now() WHERE leased_until > now()`)
	}
	if c.api.ended() {
		c.ended += string(c.api.out.all())
		c.startAPI()
	}
	if c.worker.ended() {
		c.ended += string(c.worker.out.all())
		c.worker = c.startWorker(c.queues)
	}
}

// until waits for the condition, and tends meanwhile.
func (c *crash) until(what string, ok func() bool) {
	c.t.Helper()
	c.eventually(what, func() bool {
		c.tend()
		return ok()
	})
}

func (c *crash) wasPassed() {
	c.t.Helper()
	require.Contains(c.t, c.ended, "failpoint: ends at "+c.point, "nobody came there")
}

// open opens an account, asking under one key until it is there.
func (c *crash) open(body string) (a account) {
	c.t.Helper()
	c.until("the account", func() bool {
		got, err := request("POST", c.apiURL+"/v1/accounts", json.RawMessage(body), http.Header{"X-Api-Key": {c.key}, "Idempotency-Key": {body}})
		if err != nil || got.status != 201 {
			require.True(c.t, err != nil || got.status == 409, "%d %s", got.status, got.body)
			return false
		}
		got.into(c.t, &a)
		return true
	})
	return a
}

func (c *crash) settle(accountNumber, amount string) *payout {
	c.t.Helper()
	p := &payout{account: "shop", accountNumber: accountNumber, amount: money.Must(amount)}
	c.until("the settlement to be accepted", func() bool {
		ok, err := c.order(p)
		require.NoError(c.t, err)
		return ok
	})
	return p
}

func (c *crash) waitFor(p *payout, status string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the transfer is %s, not %s\n%s", c.statusOf(p.ref), status, c.unended())
		}
	}()
	c.until("the transfer to "+p.accountNumber+" to be "+status, func() bool { return c.statusOf(p.ref) == status })
}

// balanceOf is the account's balance as the API tells it.
func (s *settler) balanceOf(ref string) string {
	s.t.Helper()
	var b struct{ AccountRef, Balance, Currency string }
	s.send("GET", "/v1/accounts/"+ref+"/balance", nil, map[string][]string{"X-Api-Key": {s.key}}).into(s.t, &b)
	return strings.TrimSpace(b.Balance)
}

// A point that is not there stops a process at its start, with the setting's name; in production the setting is ignored.
func TestFailpointsAreNotForProduction(t *testing.T) {
	w := newWorld(t)
	w.settings["AJO_FAILPOINT"] = "transfer/nowhere"
	refused := runToEnd(t, w.dir, w.settings, "worker")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.out, "AJO_FAILPOINT")
	w.settings["AJO_ENV"], w.settings["AJO_SMTP_URL"] = "production", "smtps://mail.example"
	w.settings["AJO_PROVIDER_URL"] = "https://bank.example"
	w.startWorker("settle")
}
