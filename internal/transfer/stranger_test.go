package transfer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/idempotency"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// stranger is a bank that answers every submission and every question about a payout with a record
// of another reference: what an adapter would not pass on, and what the use case must not believe
// either.
func (b *bundle) stranger() testenv.BankWith {
	another := func(p *provider.Payout) { p.Ref = "somebody-elses-reference" }
	return testenv.BankWith{Bank: b.client, AfterPay: another, AfterPayout: another}
}

// The name of another account's holder is no name: nothing is submitted to it, nobody is shown it,
// and it is not kept for whom it belongs to.
func TestAnotherAccountsHolder(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	bank := b.stranger()
	bank.AfterLookup = func(h *provider.Holder) { h.AccountNumber = "9999999999" }
	own := b.service(func(o *transfer.Options) { o.Bank = bank })
	p := b.settle("100.00")
	for range 5 {
		b.untilDue(p)
		require.Error(t, own.Advance(b.ctx, p.ID))
	}
	got := b.get(p.MerchantTxRef)
	require.Equal(t, []any{transfer.Pending, 0}, []any{got.Status, got.AttemptCount})
	require.Nil(t, got.AccountName)
	require.Zero(t, b.bank.Calls(payCall))
	for range 2 {
		h, err := own.Lookup(b.ctx, got.BankCode, got.AccountNumber)
		require.ErrorIs(t, err, transfer.ErrOtherHolder)
		require.Equal(t, provider.Holder{}, h)
	}
	named := order("10.00")
	named.AccountName = new("Amina Bello")
	_, err := own.Settle(b.ctx, b.tenant, "shop", named, idempotency.Request{})
	require.ErrorIs(t, err, transfer.ErrOtherHolder, "nor does it pass for the name that must match")
	require.Equal(t, transfer.Success, b.run(p).Status)
	b.paid(p)
}

// Another's record ends nothing, moves no money, is no acknowledgement, and leaves neither a fee
// nor a difference; before the end and after it.
func TestAnotherReferencesRecord(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	stranger := b.service(func(o *transfer.Options) { o.Bank = b.stranger() })
	p := b.settle("100.00")
	ask := func(n int) {
		for range n {
			b.untilDue(p)
			_ = stranger.Advance(b.ctx, p.ID)
		}
	}
	untouched := func(status transfer.Status) {
		t.Helper()
		got := b.get(p.MerchantTxRef)
		require.Equal(t, status, got.Status)
		require.Nil(t, got.ProviderFee)
		require.Equal(t, 1, got.AttemptCount)
		require.Equal(t, "f f", row[string](b, p, "(acknowledged_at IS NOT NULL)::text::char || ' ' || (difference <> '')::text::char"))
	}
	ask(12)
	untouched(transfer.Processing)
	b.money("0.00", "credit 100.00 confirmed", "debit 100.00 provisional")
	require.Contains(t, row[string](b, p, "last_error"), "somebody-elses-reference")
	_, err := stranger.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{}, byHand)
	require.NoError(t, err, "it is no word against a person's either")
	_, err = b.client.Pay(b.ctx, provider.NewPayout{Ref: "AJO-lost", Amount: p.Amount, BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada"})
	require.NoError(t, err)
	require.ErrorIs(t, stranger.Adopt(b.ctx, "AJO-lost", b.account, byHand), transfer.ErrBank, "nor a payout that the books lack")
	ask(1)
	untouched(transfer.Failed)
	b.money("100.00", "credit 100.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed")
}
