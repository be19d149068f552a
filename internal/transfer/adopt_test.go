package transfer_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// paysOutside has the bank pay under a reference, as a database knew it that is lost.
func (b *bundle) paysOutside(ref, amount string) {
	b.T.Helper()
	_, err := b.client.Pay(b.ctx, provider.NewPayout{Ref: ref, Amount: money.Must(amount), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores", Narration: "rent"})
	require.NoError(b.T, err)
}

// A payout that only the bank has is taken in on the account that its reference names, once, though
// the balance does not cover it, and ends as the bank says.
func TestAdopt(t *testing.T) {
	b := setup(t)
	by := audit.By{Actor: "cli:ada", Reason: "restored"}
	b.fund("60.00")
	ref := "AJO" + hex.EncodeToString(b.account[8:]) + "0123456789abcdef"
	adopt := func(ref string, account uuid.UUID) error {
		return b.svc.Adopt(b.ctx, ref, account, by)
	}
	require.ErrorIs(t, adopt(ref, uuid.Nil), transfer.ErrNotPaid)
	b.paysOutside(ref, "100.00")
	require.NoError(t, adopt(ref, uuid.New()), "the reference names the account")
	require.ErrorIs(t, adopt(ref, uuid.Nil), transfer.ErrKnown)
	b.money("-40.00", "credit 60.00 confirmed", "debit 100.00 provisional")
	got := b.run(b.get(ref))
	require.Equal(t, transfer.Success, got.Status)
	b.money("-40.00", "credit 60.00 confirmed", "debit 100.00 confirmed")
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM transfers WHERE bank_code = '058' AND account_number = '0123456789' AND narration = 'rent' AND attempt_count = 1`))
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfers.adopt' AND target = 'transfer:' || $1`, ref))
	require.Equal(t, 1, b.bank.Calls(payCall))

	b.paysOutside("BY-HAND-7", "5.00")
	require.ErrorIs(t, adopt("BY-HAND-7", uuid.Nil), transfer.ErrNoAccount)
	require.NoError(t, adopt("BY-HAND-7", b.account))
	b.paysOutside("BY-HAND-8", "5.00")
	_, err := b.bank.EndPayout("BY-HAND-8", fakebank.StatusRefund)
	require.NoError(t, err)
	require.ErrorIs(t, adopt("BY-HAND-8", b.account), transfer.ErrNotPaid)
	b.bank.Faults.SetDown(fakebank.DownClose)
	require.ErrorIs(t, adopt("BY-HAND-9", b.account), transfer.ErrBank)
}

// A settlement whose kept answer is gone, and whose transfer is there, is not made again; one whose
// transfer is gone too gets the reference that the bank knows.
func TestSettleAgainWithoutTheKeptAnswer(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	settle := func(amount string) (transfer.Settled, error) {
		return b.svc.Settle(b.ctx, b.tenant, "shop", order(amount), b.key("rent of may", order(amount)))
	}
	forget := func() { b.Exec(`DELETE FROM idempotency_keys`) }
	first, err := settle("100.00")
	require.NoError(t, err)
	ref := accepted(t, first).MerchantTxRef
	require.Equal(t, hex.EncodeToString(b.account[8:]), ref[3:19])
	forget()
	again, err := settle("100.00")
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer, again.Answer)
	forget()
	_, err = settle("200.00")
	require.ErrorIs(t, err, idempotency.ErrReused)
	b.money("900.00", "credit 1000.00 confirmed", "debit 100.00 provisional")

	b.Clock.Advance(idempotency.Keep + time.Hour)
	forget()
	anew, err := settle("100.00")
	require.NoError(t, err)
	require.False(t, anew.Replayed)
	require.NotEqual(t, ref, accepted(t, anew).MerchantTxRef, "the key may be used anew")

	other, err := b.svc.Settle(b.ctx, b.tenant, "shop", order("1.00"), idempotency.Request{})
	require.NoError(t, err)
	require.Regexp(t, `^AJO[0-9a-f]{32}$`, accepted(t, other).MerchantTxRef)
}
