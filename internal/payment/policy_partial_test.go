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
