package transfer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/transfer"
)

// What the bank certainly knows is what it has paid: no newer transfer that failed or is under way.
func TestWhatTheBankCertainlyKnows(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	known := func() (string, provider.Destination) {
		ref, err := transfer.KnownPayout(b.ctx, b.Pool)
		require.NoError(t, err)
		to, err := transfer.KnownDestination(b.ctx, b.Pool)
		require.NoError(t, err)
		return ref, to
	}
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.FailLater})
	require.Equal(t, transfer.Failed, b.run(b.settle("10.00")).Status)
	ref, to := known()
	require.Empty(t, ref)
	require.Empty(t, to)
	b.bank.Faults.Set()
	paid := b.run(b.settle("20.00"))
	b.settle("30.00")
	ref, to = known()
	require.Equal(t, paid.MerchantTxRef, ref)
	require.Equal(t, provider.Destination{BankCode: paid.BankCode, AccountNumber: paid.AccountNumber}, to)
}

// Where an adopted payout went may be unknown: then its destination is no account that the bank
// knows, although the payout is one.
func TestAnAdoptedPayoutIsNoKnownDestination(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	paid := b.run(b.settle("20.00"))
	require.Equal(t, transfer.Success, paid.Status)
	for ref, unknown := range map[string]func(*fakebank.Payout){
		"BY-HAND-7": func(p *fakebank.Payout) { p.BankCode, p.AccountNumber = "", "" },
		"BY-HAND-8": func(p *fakebank.Payout) { p.BankCode = "" },
		"BY-HAND-9": func(p *fakebank.Payout) { p.AccountNumber = "" },
	} {
		b.paysOutside(ref, "5.00")
		b.bank.SetPayout(ref, unknown)
		require.NoError(t, b.svc.Adopt(b.ctx, ref, b.account, byHand))
		require.Equal(t, transfer.Success, b.run(b.get(ref)).Status)
		newest, err := transfer.KnownPayout(b.ctx, b.Pool)
		require.NoError(t, err)
		require.Equal(t, ref, newest)
		to, err := transfer.KnownDestination(b.ctx, b.Pool)
		require.NoError(t, err)
		require.Equal(t, provider.Destination{BankCode: paid.BankCode, AccountNumber: paid.AccountNumber}, to, ref)
	}
}

// What only a person says is paid, the bank may not know.
func TestAPersonsWordIsNoKnownPayout(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	paid := b.run(b.settle("20.00"))
	b.bank.Faults.Set(lags(365 * 24 * time.Hour))
	p := b.settle("30.00")
	b.asked(p, 1)
	_, err := b.svc.Resolve(b.ctx, p.MerchantTxRef, transfer.Resolution{Paid: true}, byHand)
	require.NoError(t, err)
	require.Equal(t, transfer.Success, b.get(p.MerchantTxRef).Status)
	ref, err := transfer.KnownPayout(b.ctx, b.Pool)
	require.NoError(t, err)
	require.Equal(t, paid.MerchantTxRef, ref)
}
