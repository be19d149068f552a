package transfer_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

const allSettlements = "{settlement.succeeded,settlement.failed,settlement.refunded}"

// Each end of a transfer is published once to who chose it, by whichever way it comes; and so is a
// refund after it.
func TestChosenEventsOfASettlement(t *testing.T) {
	for name, c := range map[string]struct {
		rule fakebank.Rule
		end  func(*bundle, transfer.Transfer) // what the bank does after the first end
		want []string
	}{
		"paid":      {want: []string{"settlement.succeeded success"}},
		"rejected":  {rule: pays(fakebank.Reject, 1), want: []string{"settlement.failed failed"}},
		"no holder": {rule: names(fakebank.NotFound, 1), want: []string{"settlement.failed failed"}},
		"given back later": {end: func(b *bundle, p transfer.Transfer) {
			_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
			require.NoError(b.T, err)
			b.untilDue(p)
			b.step(p)
		}, want: []string{"settlement.succeeded success", "settlement.refunded refunded"}},
	} {
		for _, chosen := range []string{allSettlements, "{payment.confirmed}", "{}"} {
			t.Run(name+" "+chosen, func(t *testing.T) {
				b := setup(t)
				b.Subscribe(b.tenant, chosen)
				b.fund("100.00")
				if c.rule.On != "" {
					b.bank.Faults.Set(c.rule)
				}
				p := b.run(b.settle("100.00"))
				if c.end != nil {
					c.end(b, p)
				}
				b.Clock.Advance(30 * time.Minute)
				_ = b.svc.Advance(b.ctx, p.ID) // what is asked again publishes nothing again
				want := c.want
				if chosen != allSettlements {
					want = []string{}
				}
				require.Equal(t, want, b.Published(p.ID))
				b.ended(b.get(p.MerchantTxRef))
				found, err := invariant.Verify(b.ctx, b.Pool)
				require.NoError(t, err)
				require.Empty(t, slices.DeleteFunc(found, func(f ledger.Finding) bool { return f.Check == invariant.CheckCreditEvent }), "the tests' money has no events")
			})
		}
	}
}

// A transfer that never gets cover ends in its claim, and is published as failed; one that was
// given back before anybody heard that it was paid is published as refunded only.
func TestOtherEndsArePublished(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, allSettlements)
	var enqueued []uuid.UUID
	t.Cleanup(work.EnqueueWith(b.Pool, func(items []work.Item) {
		for _, m := range items {
			if m.Kind == work.Deliver {
				enqueued = append(enqueued, m.ID)
			}
		}
	}))
	c := b.credit("100.00")
	unfunded := b.settle("100.00")
	b.step(unfunded)
	b.MoveCredit(c, ledger.EventReverse)
	b.run(unfunded)
	require.Equal(t, []string{"settlement.failed failed"}, b.Published(unfunded.ID))
	require.Len(t, enqueued, 1)

	b.fund("50.00")
	b.bank.Faults.Set(pays(fakebank.DropAfter, 1))
	p := b.settle("50.00")
	b.step(p)
	_, err := b.bank.EndPayout(p.MerchantTxRef, fakebank.StatusRefund)
	require.NoError(t, err)
	b.run(p)
	require.Equal(t, []string{"settlement.refunded refunded"}, b.Published(p.ID))
	require.Equal(t, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(id ORDER BY id) FROM deliveries`), enqueued)
}

func TestSettlementEventWireForm(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, allSettlements)
	b.Exec(`UPDATE accounts SET callback_url = 'https://account.example/hook' WHERE id = $1`, b.account)
	b.fund("100.00")
	p := b.run(b.settle("99.50"))
	require.Equal(t, `{"eventType":"settlement.succeeded","transactionGroupId":"`+p.ID.String()+`","merchantTxRef":"`+p.MerchantTxRef+
		`","accountRef":"shop","amount":"99.50","currency":"NGN","bankCode":"058","accountNumber":"0123456789","status":"success"}`,
		b.Delivered(`callback_url = 'https://account.example/hook'`)[0].Body)
}

// The event of a refund names the payment, also where its tenant did not order it.
func TestEventOfARefundNamesThePayment(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, allSettlements)
	_, entry := b.received("100.00", &payer)
	p := b.run(b.refunded(entry, "40.00"))
	require.Equal(t, transfer.Success, p.Status)
	require.Equal(t, `{"eventType":"settlement.succeeded","transactionGroupId":"`+p.ID.String()+`","merchantTxRef":"`+p.MerchantTxRef+
		`","accountRef":"shop","amount":"40.00","currency":"NGN","bankCode":"058","accountNumber":"0123456789","status":"success","refundOf":"`+entry.String()+`"}`,
		b.Delivered(`true`)[0].Body)
}

// Steps at once by two processes, and a lost answer to the end's commit: one event.
func TestAnEndIsPublishedOnce(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, allSettlements)
	b.fund("400.00")
	lost := b.LostCommits()
	slow := &testenv.BankWith{Bank: b.client, AfterPay: func(*provider.Payout) { lost.LoseCommits(1) }}
	losing := b.service(func(o *transfer.Options) { o.Pool, o.Bank = lost.Pool, slow })
	p := b.settle("100.00")
	require.Error(t, losing.Advance(b.ctx, p.ID))
	require.Zero(t, lost.CommitsLeft())
	b.Clock.Advance(work.Term)
	b.run(p)
	require.Equal(t, []string{"settlement.succeeded success"}, b.Published(p.ID))

	other := b.service()
	for range 3 {
		q := b.settle("100.00")
		var all sync.WaitGroup
		for _, s := range []*transfer.Service{b.svc, other, b.svc, other} {
			all.Go(func() { _ = s.Advance(b.ctx, q.ID) })
		}
		all.Wait()
		b.run(q)
		require.Equal(t, []string{"settlement.succeeded success"}, b.Published(q.ID))
	}
}

// Who listens is shown each end, chosen or not, with a URL or without.
func TestListenersAreShownSettlements(t *testing.T) {
	b := setup(t)
	b.Exec(`UPDATE tenants SET listening_until = $2 WHERE id = $1`, b.tenant, b.Clock.Now().Add(time.Hour))
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	require.Empty(t, b.Published(p.ID))
	require.Equal(t, []string{"settlement.succeeded"}, testenv.Value[[]string](b.Env, `SELECT array_agg(event_type) FROM listen_events WHERE tenant_id = $1`, b.tenant))
}

// A tenant that has chosen nothing costs no statement.
func TestNoChoiceNoStatement(t *testing.T) {
	b := setup(t)
	pool, sent := b.Recorded()
	svc := b.service(func(o *transfer.Options) { o.Pool = pool })
	cost := func() int {
		t.Helper()
		b.fund("100.00")
		p := b.settle("100.00")
		sent()
		_ = svc.Advance(b.ctx, p.ID)
		require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
		return len(sent())
	}
	cost() // the first payout with a fee makes the system accounts' rows
	none := cost()
	b.Subscribe(b.tenant, allSettlements)
	require.Equal(t, none+3, cost(), "the choices, the deliveries, and their items")
}

// An endpoint gets the end of a transfer, though its tenant has neither a URL nor chosen anything.
func TestEndpointsGetSettlements(t *testing.T) {
	b := setup(t)
	b.Endpoint(b.tenant, "https://tenant.example/hook", "{settlement.succeeded}")
	b.fund("100.00")
	p := b.run(b.settle("100.00"))
	require.Equal(t, []string{"settlement.succeeded success"}, b.Published(p.ID))
}

// What the bank gives back and then pays after all, and what an operator books so, is published
// each time: by the debit that it is about, as the statement has it. So is a sum that is another
// than was ordered, or than was published before.
func TestPaidAgainIsPublishedAgain(t *testing.T) {
	b := setup(t)
	b.Subscribe(b.tenant, allSettlements)
	b.fund("100.00")
	b.bank.Faults.Set(with(pays(fakebank.Refund, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
	p := b.settle("100.00")
	b.asked(p, 2)
	require.Equal(t, []string{"settlement.succeeded success", "settlement.refunded refunded"}, b.Published(p.ID))
	b.bank.Faults.Set(status(fakebank.StatusSuccess))
	resolve := func(to transfer.Resolution) uuid.UUID {
		_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, to, byHand)
		require.NoError(t, err)
		b.agree()
		return row[uuid.UUID](b, p, "debit_group")
	}
	again := resolve(transfer.Resolution{Paid: true})
	require.Equal(t, []string{"settlement.succeeded success"}, b.Published(again))
	b.bank.Faults.Clear() // its record says refunded, as before
	require.Equal(t, again, resolve(transfer.Resolution{}))
	require.Equal(t, []string{"settlement.succeeded success", "settlement.refunded refunded"}, b.Published(again))
	for _, c := range []struct{ sum, says string }{
		{"60.00", `"status":"success","paidAmount":"60.00"}`}, {"70.00", `"status":"success","paidAmount":"70.00"}`}, {"100.00", `"status":"success"}`},
	} {
		b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) { p.Status, p.Amount = fakebank.StatusSuccess, money.Must(c.sum) })
		published := b.Delivered(`transaction_group_id = $1`, resolve(paidSum(c.sum)))
		require.Len(t, published, 1, c.sum)
		require.Contains(t, published[0].Body, `"amount":"100.00"`)
		require.Contains(t, published[0].Body, c.says)
	}
	require.Equal(t, 7, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries`))
}
