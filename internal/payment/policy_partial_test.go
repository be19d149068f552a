package payment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// resolved books what a person has found out about the only refund: what the bank has paid of it;
// empty: nothing.
func (b *policies) resolved(paid string) error {
	b.T.Helper()
	ref := testenv.Value[string](b.Env, `SELECT merchant_tx_ref FROM transfers`)
	to := transfer.Resolution{}
	if paid != "" {
		to.Paid, to.Amount = true, new(money.Must(paid))
	}
	_, err := b.transfers.Resolve(b.ctx, ref, to, audit.By{Actor: "cli:ada", Reason: "the bank wrote"})
	return err
}

// A refund by policy of which the bank gives a part back: what came back is held again, once, in
// the transaction that books it. Whatever the bank says next, held is what has not gone back, and
// nothing of it is free before the tenant says so.
func TestPolicyRefundThatComesBackInPart(t *testing.T) {
	for _, ended := range []bool{true, false} {
		t.Run(fmt.Sprint("ended ", ended), func(t *testing.T) {
			b := setupPolicy(t, account.Policy{Under: account.Refund})
			rule := fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "975.00", Next: 1}
			if !ended { // the bank answers nothing that ends it
				rule = fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: 1000 * time.Hour, Next: 1}
			}
			b.bank.Faults.Set(rule)
			id, _ := b.pays("4000.00")
			b.toTheEnd(id, 5)
			require.Equal(t, []string{map[bool]string{true: "success", false: "processing"}[ended] + " 3975.00 058 0123456789 true"}, b.sent())
			b.Clock.Set(b.Clock.Now().Add(time.Hour)) // no lease stands
			require.Empty(t, b.hold(id))
			require.Equal(t, "0.00", b.left())

			// It dies before the commit: nothing is booked, and nothing is held.
			b.Exec(`ALTER TABLE audit_log ADD CONSTRAINT dies CHECK (action <> 'transfers.resolve') NOT VALID`)
			require.ErrorContains(t, b.resolved("3000.00"), "dies")
			require.Empty(t, b.hold(id))
			require.Equal(t, "0.00", b.left())
			b.Exec(`ALTER TABLE audit_log DROP CONSTRAINT dies`)

			const part = "policy 975.00 not refunded: NGN 3000.00 of NGN 3975.00 went back"
			require.NoError(t, b.resolved("3000.00"))
			require.Equal(t, part, b.hold(id))
			require.Equal(t, "0.00", b.left())
			// It died after the commit, so it is said again.
			require.ErrorIs(t, b.resolved("3000.00"), transfer.ErrAgrees)
			require.Equal(t, part, b.hold(id))
			require.NoError(t, b.transfers.RefundByPolicy(b.ctx, id))
			b.sent()
			require.Equal(t, part, b.hold(id))
			require.Equal(t, "0.00", b.left())

			require.NoError(t, b.resolved("3500.00"))
			require.Equal(t, "policy 475.00 not refunded: NGN 3500.00 of NGN 3975.00 went back", b.hold(id))
			require.Equal(t, "0.00", b.left())
			require.NoError(t, b.resolved(""))
			require.Equal(t, "policy 3975.00 not refunded: the bank did not pay the transfer", b.hold(id))
			require.Equal(t, "0.00", b.left())
			require.NoError(t, b.resolved("3000.00"))
			require.Equal(t, part, b.hold(id))
			require.Equal(t, "0.00", b.left())

			// What the tenant releases is free, and stays so when more comes back.
			b.release(id)
			require.Equal(t, "975.00", b.left())
			require.NoError(t, b.resolved("2900.00"))
			require.Equal(t, "policy 100.00 not refunded: NGN 2900.00 of NGN 3975.00 went back", b.hold(id))
			require.Equal(t, "975.00", b.left())
		})
	}
}

// The bank gave a part of a payment back, and a person has corrected the payment to the rest: that
// can be refunded, and is not taken for a payment that was taken back as a whole.
func TestRestOfAPaymentIsRefunded(t *testing.T) {
	for name, silent := range map[string]bool{"the record names its sender": false, "it does later": true} {
		t.Run(name, func(t *testing.T) {
			b := setupPolicy(t, account.Policy{Over: account.Hold})
			id, txn := b.pays("5000.00")
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = fakebank.StatusRefund, money.Must("100.00") })
			b.toTheEnd(id, 3)
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = silent })
			c, err := b.svc.Correct(b.ctx, id, payment.Correction{Amount: money.Must("4900.00"), Fee: money.Must("25.00")}, byHand)
			require.NoError(t, err)
			require.Equal(t, silent, c.NoSender != "", c.NoSender)
			if silent {
				require.ErrorIs(t, b.refundByHand(c.Replacement, ""), transfer.ErrNoRecord)
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = false })
				s, err := b.svc.Sender(b.ctx, c.Replacement)
				require.NoError(t, err)
				require.NoError(t, b.svc.RecordSender(b.ctx, c.Replacement, s, byHand))
			}
			require.NoError(t, b.refundByHand(c.Replacement, ""))
			require.Equal(t, []string{"success 4875.00 058 0123456789 false"}, b.sent())
			require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM recalls`))
			require.Equal(t, "0.00", b.left())
		})
	}
}

// All of it went back since: what is left is not refunded.
func TestRestOfAPaymentThatIsTakenBack(t *testing.T) {
	b := setupPolicy(t, account.Policy{Over: account.Hold})
	id, txn := b.pays("5000.00")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.Amount = fakebank.StatusRefund, money.Must("100.00") })
	b.toTheEnd(id, 3)
	c, err := b.svc.Correct(b.ctx, id, payment.Correction{Amount: money.Must("4900.00"), Fee: money.Must("25.00")}, byHand)
	require.NoError(t, err)
	require.NoError(t, b.refundByHand(c.Replacement, ""))
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("5000.00") })
	_, err = b.svc.Sender(b.ctx, c.Replacement)
	require.ErrorContains(t, err, "the bank says refunded")
	paid := len(b.bank.Paid())
	b.sent()
	require.Len(t, b.bank.Paid(), paid)
	require.Equal(t, "open", testenv.Value[string](b.Env, `SELECT status FROM recalls`))
}
