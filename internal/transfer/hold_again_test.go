package transfer_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// refundedBy makes a refund of a payment: all that its policy holds, if that is to be refunded, or
// the amount, as the tenant asks.
func (b *bundle) refundedBy(source ledger.HoldSource, group, entry uuid.UUID, amount string) transfer.Transfer {
	b.T.Helper()
	if source != ledger.HeldForRefund {
		return b.refunded(entry, amount)
	}
	require.NoError(b.T, b.svc.RefundByPolicy(b.ctx, group))
	return b.get(testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE refund_of = $1`, entry))
}

// openHold is the open hold of a payment: its source and amount.
func (b *bundle) openHold(entry uuid.UUID) string {
	b.T.Helper()
	return testenv.Value[string](b.Env, `SELECT coalesce((SELECT source || ' ' || amount FROM holds WHERE entry_id = $1 AND status = 'open'), '')`, entry)
}

// unasked is the bundle whose use cases cannot ask the bank.
func (b *bundle) unasked() *bundle {
	own := *b
	own.svc = b.service(func(o *transfer.Options) { o.Bank = nil })
	return &own
}

var refunders = map[string]ledger.HoldSource{"by the tenant": ledger.HeldByPolicy, "by the policy": ledger.HeldForRefund}

// A refund of held money fails, so the money is held again; and the bank has paid it after all:
// then nothing of it is held any more.
func TestRefundThatWasPaidAfterAll(t *testing.T) {
	for name, source := range refunders {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			group, entry := b.received("100.00", &payer)
			b.holdFor(source, entry, "100.00")
			b.bank.Faults.Set(with(pays(fakebank.PaidLate, 1), func(r *fakebank.Rule) { r.Delay = time.Minute }))
			p := b.refundedBy(source, group, entry, "100.00")
			require.Empty(t, b.openHold(entry))
			b.asked(p, 2)
			require.Equal(t, transfer.Failed, b.get(p.MerchantTxRef).Status)
			require.Equal(t, "policy 100.00", b.openHold(entry))
			b.resolved(p, true)
			require.Empty(t, b.openHold(entry))
			require.Equal(t, "0.00", b.shown(false).Available.String())
			b.agree()
		})
	}
}

// Of a refund that has left, the bank has paid more than was ordered. One that the policy made
// takes that of what is held of the payment since; one that the tenant made takes nothing of it.
func TestRefundOfMoreThanWasOrdered(t *testing.T) {
	for name, source := range refunders {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			group, entry := b.received("200.00", &payer)
			b.holdFor(source, entry, "100.00")
			p := b.run(b.refundedBy(source, group, entry, "100.00"))
			require.Equal(t, transfer.Success, p.Status)
			require.Empty(t, b.openHold(entry))
			b.hold(entry, "50.00")
			_, err := b.unasked().svc.Resolve(b.ctx, p.MerchantTxRef, paidSum("110.00"), byHand)
			require.NoError(t, err)
			require.Equal(t, map[ledger.HoldSource]string{ledger.HeldByPolicy: "policy 50.00", ledger.HeldForRefund: "policy 40.00"}[source], b.openHold(entry))
			b.agree()
		})
	}
}

// A part of a refund by policy has come back, and is held; what the bank takes less of its fee and
// of the taxes later is held with it, and so is the fee that was reserved, if there is none.
func TestChargesGivenBackAfterAPartOfARefund(t *testing.T) {
	for name, c := range map[string]struct {
		rule     fakebank.Action
		fee, vat string
		later    []func(*fakebank.Payout)
		holds    []string
	}{
		"taxes, then fee": {
			fakebank.Paid, "4.00", "1.50",
			[]func(*fakebank.Payout){func(p *fakebank.Payout) { p.VAT = money.Must("0.50") }, func(p *fakebank.Payout) { p.Fee = money.Must("2.00") }},
			[]string{"policy 41.00", "policy 43.00"},
		},
		"the reserved fee": {
			fakebank.NoFee, "0.00", "0.00",
			[]func(*fakebank.Payout){func(p *fakebank.Payout) { p.FeeUnsaid = false }},
			[]string{"policy 50.00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bearerBundle(t, c.fee, c.vat)
			group, entry := b.received("110.00", &payer)
			b.holdFor(ledger.HeldForRefund, entry, "110.00")
			b.bank.Faults.Set(pays(c.rule, 1))
			p := b.run(b.refundedBy(ledger.HeldForRefund, group, entry, ""))
			require.Equal(t, []any{transfer.Success, "100.00"}, []any{p.Status, p.Amount.String()})
			b.bank.SetPayout(p.MerchantTxRef, func(p *fakebank.Payout) {
				p.Status, p.Back = fakebank.StatusRefund, new(money.Must("40.00"))
			})
			b.asked(p, 1)
			_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, paidSum("60.00"), byHand)
			require.NoError(t, err)
			require.Equal(t, "policy 40.00", b.openHold(entry))
			free := b.shown(false).Available.String()
			for i, change := range c.later {
				b.bank.SetPayout(p.MerchantTxRef, change)
				b.asked(p, 1)
				require.Equal(t, c.holds[i], b.openHold(entry))
				require.Equal(t, free, b.shown(false).Available.String())
			}
			b.agree()
		})
	}
}

// The tenant has released all of a payment, and its customer's limit holds a part of it: when a
// refund comes back, nothing is held again, and the limit's hold stays what it is.
func TestLimitsHoldStaysWhenARefundComesBack(t *testing.T) {
	b := setup(t)
	_, entry := b.received("100.00", &payer)
	b.hold(entry, "100.00")
	p := b.run(b.refunded(entry, "60.00"))
	resolve := func(paid bool) {
		t.Helper()
		_, err := b.unasked().svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: paid}, byHand)
		require.NoError(t, err)
	}
	release := func(amount string) {
		t.Helper()
		require.Equal(t, "policy "+amount, b.openHold(entry))
		id := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE entry_id = $1 AND status = 'open'`, entry)
		_, err := b.accounts().ReleaseHold(b.ctx, b.tenant, id, byHand, idempotency.Request{})
		require.NoError(t, err)
	}
	release("40.00")
	resolve(false)
	release("60.00")
	resolve(true)
	b.holdFor(ledger.HeldByLimit, entry, "10.00")
	resolve(false)
	require.Equal(t, "limit 10.00", b.openHold(entry))
}
