package transfer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// strangersBank answers every question and every submission with a record of another reference:
// what an adapter would not pass on, and what the use case must not believe either.
type strangersBank struct{ provider.Bank }

func (b strangersBank) Pay(ctx context.Context, p provider.NewPayout) (provider.Payout, error) {
	out, err := b.Bank.Pay(ctx, p)
	out.Ref = "somebody-elses-reference"
	return out, err
}

func (b strangersBank) Payout(ctx context.Context, ref string) (provider.Payout, error) {
	out, err := b.Bank.Payout(ctx, ref)
	out.Ref = "somebody-elses-reference"
	return out, err
}

// Another's record ends nothing, moves no money, is no acknowledgement, and leaves neither a fee
// nor a difference; before the end and after it.
func TestAnotherReferencesRecord(t *testing.T) {
	b := setup(t)
	b.fund("100.00")
	stranger := b.service(func(o *transfer.Options) { o.Bank = strangersBank{b.client} })
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
	ask(1)
	untouched(transfer.Failed)
	b.money("100.00", "credit 100.00 confirmed", "debit 100.00 reversed", "credit 100.00 reversed")
}
