package payment_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// setupBorne is setupPolicy for a tenant that bears the fee of its payouts: 10.00 is expected, and
// the bank takes the fee given, so that of a payment's 3,975.00 the policy pays 3,965.00 back.
func setupBorne(t *testing.T, fee string) *policies {
	t.Helper()
	b := setupPolicy(t, account.Policy{Under: account.Refund}, money.Must(fee))
	b.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, b.tenant)
	return b
}

// free gives the account money that no policy holds.
func (b *policies) free(amount string) {
	b.T.Helper()
	id, _ := b.pays("5000.00")
	b.toTheEnd(id, 5)
	b.Exec(`UPDATE tenants SET payout_fee_by = 'platform' WHERE id = $1`, b.tenant)
	order := transfer.Order{Amount: money.Must("4975.00").Sub(money.Must(amount)).String(), BankCode: "058", AccountNumber: "9876543210"}
	_, err := b.transfers.Settle(b.ctx, b.tenant, "customer-1", order, idempotency.Request{})
	require.NoError(b.T, err)
	b.sent()
	b.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, b.tenant)
	require.Equal(b.T, amount, b.left())
}

// A refund by policy whose fee the tenant bears, and that fails or comes back: what the policy held
// is held again, with the fee that was reserved, less what the bank keeps. Of the account's other
// money nothing is held, and the fee takes no more of it than there is.
func TestPolicyRefundComesBackWithItsFee(t *testing.T) {
	for name, c := range map[string]struct {
		fee   string // the bank's
		fault fakebank.Action
		free  string // other money of the account
		held  string
		left  string
	}{
		"it fails":                         {"20.00", fakebank.FailLater, "0.00", "3975.00", "0.00"},
		"it fails, beside other money":     {"20.00", fakebank.FailLater, "5.00", "3975.00", "5.00"},
		"it is refused":                    {"20.00", fakebank.Reject, "0.00", "3975.00", "0.00"},
		"it comes back":                    {"20.00", fakebank.Refund, "0.00", "3975.00", "0.00"},
		"it comes back, a higher fee too":  {"20.00", fakebank.Refund, "30.00", "3975.00", "30.00"},
		"it comes back without its fee":    {"20.00", fakebank.RefundKept, "30.00", "3965.00", "20.00"},
		"the fee is kept":                  {"10.00", fakebank.FailKept, "0.00", "3965.00", "0.00"},
		"a higher fee is kept":             {"20.00", fakebank.FailKept, "0.00", "3965.00", "0.00"},
		"a higher fee, and other money":    {"20.00", fakebank.FailKept, "7.00", "3965.00", "0.00"},
		"a lower fee is kept":              {"4.00", fakebank.FailKept, "0.00", "3971.00", "0.00"},
		"a lower fee, beside other money":  {"4.00", fakebank.FailKept, "7.00", "3971.00", "7.00"},
		"it is paid, and the fee is lower": {"4.00", "", "0.00", "", "6.00"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupBorne(t, c.fee)
			if c.free != "0.00" {
				b.free(c.free)
			}
			if c.fault != "" {
				b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: c.fault, Delay: time.Second, Next: 1})
			}
			id, _ := b.pays("4000.00")
			require.Contains(t, b.hold(id), "refund 3975.00 under")
			b.toTheEnd(id, 5)
			sent := b.sent()
			require.Contains(t, sent[len(sent)-1], " 3965.00 058 0123456789 true", "less the expected 10.00")
			if c.held == "" {
				require.Empty(t, b.hold(id))
			} else {
				require.Contains(t, b.hold(id), "policy "+c.held+" not refunded: ")
			}
			require.Equal(t, c.left, b.left())
		})
	}
}

// Whatever a person finds out about the refund, one after the other: held is what has not gone back
// and the bank has not taken.
func TestPolicyRefundWithItsFeeIsResolved(t *testing.T) {
	b := setupBorne(t, "4.00")
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: 1000 * time.Hour, Next: 1})
	id, _ := b.pays("4000.00")
	b.toTheEnd(id, 5)
	require.Equal(t, []string{"processing 3965.00 058 0123456789 true"}, b.sent())
	b.Clock.Set(b.Clock.Now().Add(time.Hour)) // no lease stands
	for _, to := range []struct{ paid, hold, left string }{
		{"3000.00", "policy 971.00 not refunded: NGN 3000.00 of NGN 3965.00 went back", "0.00"},
		{"3500.00", "policy 471.00 not refunded: NGN 3500.00 of NGN 3965.00 went back", "0.00"},
		{"", "policy 3975.00 not refunded: the bank did not pay the transfer", "0.00"},
		{"3000.00", "policy 975.00 not refunded: NGN 3000.00 of NGN 3965.00 went back", "0.00"},
		{"3965.00", "", "6.00"}, // the fee is taken of the rest
		{"", "policy 3969.00 not refunded: the bank did not pay the transfer", "6.00"},
	} {
		require.NoError(t, b.resolved(to.paid), to.paid)
		require.Equal(t, to.hold, b.hold(id))
		require.Equal(t, to.left, b.left())
	}
}

// A database that was restored from before a refund by policy: adopted, it is one by policy again,
// with its fee, and so is what comes back of it.
func TestAdoptedPolicyRefundComesBack(t *testing.T) {
	for _, bears := range []bool{true, false} {
		for _, end := range []string{"paid", "returned"} {
			t.Run(end+map[bool]string{true: ", the tenant bears the fee"}[bears], func(t *testing.T) {
				b := setupBorne(t, "10.00")
				amount := "3965.00"
				if !bears {
					b.Exec(`UPDATE tenants SET payout_fee_by = 'platform' WHERE id = $1`, b.tenant)
					amount = "3975.00"
				}
				id, txn := b.pays("4000.00")
				b.toTheEnd(id, 1)
				ref := b.policyRef(txn.ID)
				_, err := b.client().Pay(b.ctx, provider.NewPayout{
					Ref: ref, Amount: money.Must(amount), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores", Narration: "Refund",
				})
				require.NoError(t, err)
				require.NoError(t, b.transfers.Adopt(b.ctx, ref, uuid.Nil, audit.By{Actor: "cli:ada", Reason: "restored"}))
				require.Empty(t, b.hold(id))
				require.Equal(t, "0.00", b.left())
				require.NoError(t, b.transfers.RefundByPolicy(b.ctx, id))
				require.Equal(t, []string{"success " + amount + " 058 0123456789 true"}, b.sent())
				require.Equal(t, "0.00", b.left())
				if end != "returned" {
					return
				}
				_, err = b.bank.EndPayout(ref, fakebank.StatusRefund)
				require.NoError(t, err)
				b.Clock.Advance(time.Hour)
				_, err = b.transfers.Expedite(b.ctx, ref)
				require.NoError(t, err)
				require.Equal(t, []string{"refunded " + amount + " 058 0123456789 true"}, b.sent())
				require.Contains(t, b.hold(id), "policy 3975.00 not refunded: ")
				require.Equal(t, "0.00", b.left())
			})
		}
	}
}

// policyRef is the reference of the refund that the policy makes of a payment.
func (b *policies) policyRef(txnRef string) string {
	b.T.Helper()
	sum := sha256.Sum256([]byte(txnRef))
	key, err := idempotency.NewRequest(b.tenant, "refund by policy: "+hex.EncodeToString(sum[:]), "", "", nil)
	require.NoError(b.T, err)
	own, _ := key.Name()
	return "AJR" + hex.EncodeToString(b.account[8:]) + hex.EncodeToString(sum[:4]) + hex.EncodeToString(own[:4])
}

// A refund by policy takes all that was held, with the fee that the tenant bears: the payment is
// taken back by the bank and restored, and nothing of it is left to hold or to refund.
func TestARestoredPaymentWasRefundedWithItsFee(t *testing.T) {
	b := setupBorne(t, "4.00")
	b.free("4900.00")
	id, txn := b.pays("4000.00")
	b.toTheEnd(id, 10)
	sent := b.sent()
	require.Equal(t, "success 3965.00 058 0123456789 true", sent[len(sent)-1])
	left := b.left()
	b.takenBack(id, txn)
	b.Clock.Advance(time.Hour)
	r := b.restored(id, txn)
	require.Empty(t, b.hold(r.Replacement))
	b.toTheEnd(r.Replacement, 10)
	require.Empty(t, b.hold(r.Replacement))
	require.Equal(t, left, b.left())
	require.Equal(t, sent, b.sent())
}
