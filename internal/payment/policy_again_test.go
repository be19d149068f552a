package payment_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/testenv"
)

// saidOf is what the only event of that type about a payment says of the policy.
func (b *policies) saidOf(event string, id uuid.UUID) string {
	b.T.Helper()
	var body struct{ Policy string }
	events := b.Delivered(`event_type = $1 AND transaction_group_id = $2`, event, id)
	require.Len(b.T, events, 1)
	require.NoError(b.T, json.Unmarshal([]byte(events[0].Body), &body))
	return body.Policy
}

// A payment was released, then corrected to another sum, which its policy holds, taken back by the
// bank and restored: what was released of the first sum, or of another payment, is not released of
// this one. Once the tenant releases it, its events say nothing of the policy.
func TestWhatWasReleasedOfAnotherSum(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	other, _ := b.pays("3900.00")
	b.release(other)
	id, txn := b.pays("4000.00")
	b.release(id)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("3900.00") })
	b.toTheEnd(id, 1)
	const held = "policy 3875.00 under: NGN 3900.00 of NGN 5000.00 expected"
	corrected, err := b.svc.Correct(b.ctx, id, sums("3900.00", "25.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, held, b.hold(corrected.Replacement))
	require.Equal(t, "hold", b.saidOf("payment.confirmed", corrected.Replacement))

	b.takenBack(corrected.Replacement, txn)
	require.Empty(t, b.hold(corrected.Replacement))
	restored := b.restored(corrected.Replacement, txn)
	require.Equal(t, held, b.hold(restored.Replacement))
	require.Equal(t, "hold", b.saidOf("payment.received", restored.Replacement))
	b.release(restored.Replacement)
	b.toTheEnd(restored.Replacement, 10)
	require.Empty(t, b.saidOf("payment.confirmed", restored.Replacement))
	b.left() // the invariants hold
}

// All of a payment went back to its sender by its account's policy, the bank took the payment back,
// and it is restored: its events say so, whatever the account expects and its policy says by then.
func TestARestoredPaymentThatWentBackSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		change account.Changes
		price  bool
	}{
		"as it was":              {},
		"another amount":         {account.Changes{ExpectedAmount: new(money.Must("4000.00"))}, false},
		"no policy":              {account.Changes{Policy: &account.Policy{}}, false},
		"another policy":         {account.Changes{Policy: &account.Policy{Under: account.Hold}}, false},
		"no policy, and a price": {account.Changes{Policy: &account.Policy{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, account.Policy{Under: account.Refund})
			if c.price {
				b.price("1", "0", b.Clock.Now())
			}
			id, txn := b.pays("4000.00")
			b.toTheEnd(id, 10)
			sent := b.sent()
			require.Equal(t, []string{map[bool]string{false: "success 3975.00", true: "success 3932.00"}[c.price] + " 058 0123456789 true"}, sent)
			b.takenBack(id, txn)
			if c.change != (account.Changes{}) {
				_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", c.change, byHand)
				require.NoError(t, err)
			}
			r := b.restored(id, txn)
			b.toTheEnd(r.Replacement, 10)
			require.Empty(t, b.hold(r.Replacement))
			require.Equal(t, "0.00", b.left())
			require.Equal(t, sent, b.sent(), "nothing goes back once more")
			require.Equal(t, []string{"refund", "refund"}, []string{b.saidOf("payment.received", r.Replacement), b.saidOf("payment.confirmed", r.Replacement)})
		})
	}
}

// A payment was released, then corrected to another sum, which its policy holds, and a refund of it
// fails: all that the policy held is held again, as nothing was released of that sum.
func TestRefundOfAnotherSumThatFails(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 10)
	id, txn := b.pays("4000.00")
	b.release(id)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("3900.00") })
	b.toTheEnd(id, 1)
	corrected, err := b.svc.Correct(b.ctx, id, sums("3900.00", "25.00"), byHand)
	require.NoError(t, err)
	require.Contains(t, b.hold(corrected.Replacement), "policy 3875.00 under")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.FailLater, Next: 1})
	require.NoError(t, b.refundByHand(corrected.Replacement, "1000.00"))
	require.Contains(t, b.hold(corrected.Replacement), "policy 2875.00 under")
	require.Equal(t, []string{"failed 1000.00 058 0123456789 false"}, b.sent())
	require.Equal(t, "policy 3875.00 not refunded: the bank could not complete the transfer", b.hold(corrected.Replacement))
	require.Equal(t, "4975.00", b.left())
}

// A payment that has gone back is restored, and then the bank says that it failed after all: it is
// reversed, and its event says nothing of a refund.
func TestARestoredPaymentThatWentBackIsDenied(t *testing.T) {
	b := setupPolicy(t, account.Policy{Under: account.Hold})
	other, _ := b.pays("5000.00")
	b.toTheEnd(other, 10)
	id, txn := b.pays("4000.00")
	b.toTheEnd(id, 10)
	require.NoError(t, b.refundByHand(id, ""))
	b.sent()
	b.takenBack(id, txn)
	r := b.restored(id, txn)
	require.Empty(t, b.hold(r.Replacement))
	b.taken(txn, "PAYMENT_FAILED")
	b.toTheEnd(r.Replacement, 1)
	require.Empty(t, b.saidOf("payment.reversed", r.Replacement))
	require.Equal(t, "1000.00", b.left())
}

// A payment shows what was refunded of it and what is being refunded: a refund that failed is
// neither, and one that is under way is not refunded yet.
func TestWhatIsRefundedOfAPayment(t *testing.T) {
	b := setupPolicy(t, account.Policy{})
	id, _ := b.pays("5000.00")
	b.toTheEnd(id, 10)
	is := func(refunded, being string) {
		t.Helper()
		shown, err := b.svc.Timeline(b.ctx, b.tenant, id)
		require.NoError(t, err)
		require.Equal(t, []string{refunded, being}, []string{shown.Refunded.String(), shown.BeingRefunded.String()})
	}
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject, Next: 1})
	require.NoError(t, b.refundByHand(id, "500.00"))
	is("0.00", "500.00")
	require.Equal(t, []string{"failed 500.00 058 0123456789 false"}, b.sent())
	is("0.00", "0.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Next: 1, Delay: 1000 * time.Hour})
	require.NoError(t, b.refundByHand(id, "1000.00"))
	require.Equal(t, "processing 1000.00 058 0123456789 false", b.sent()[1])
	is("0.00", "1000.00")
	_, err := b.bank.EndPayout(testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers WHERE status = 'processing'`), fakebank.StatusSuccess)
	require.NoError(t, err)
	require.Equal(t, "success 1000.00 058 0123456789 false", b.sent()[1])
	is("1000.00", "0.00")
}
