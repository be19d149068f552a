package transfer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/provider"
	"ajo/internal/spec"
	"ajo/internal/transfer"
)

const banksCall = "GET /v1/transfers/banks"

func TestBankList(t *testing.T) {
	b := setup(t)
	r := b.Redis()
	log := b.log.Logger()
	list := transfer.NewBankList(b.client, "bank.example", r, b.Clock, log)
	first, err := list.Banks(b.ctx)
	require.NoError(t, err)
	require.Contains(t, first, provider.BankInfo{Code: "058", Name: "Guaranty Trust Bank"})
	b.Clock.Advance(time.Hour - time.Second)
	again, err := transfer.NewBankList(b.client, "bank.example", r, b.Clock, log).Banks(b.ctx)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 1, b.bank.Calls(banksCall), "kept for an hour, for all processes")
	b.Clock.Advance(time.Second)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnBanks, Do: fakebank.Results})
	_, err = list.Banks(b.ctx)
	require.NoError(t, err)
	require.Equal(t, 2, b.bank.Calls(banksCall), "asked again after an hour")

	b.bank.Faults.SetDown(fakebank.DownAnswer)
	b.Clock.Advance(20 * 24 * time.Hour)
	stale, err := list.Banks(b.ctx)
	require.NoError(t, err)
	require.Equal(t, first, stale, "served while the bank is down, however old")

	require.NoError(t, r.Set(b.ctx, "ajo:banks:bank.example", "not a list", 0).Err())
	_, err = list.Banks(b.ctx)
	require.ErrorIs(t, err, transfer.ErrBank, "nothing kept, and the bank down")
	b.bank.Faults.SetDown(fakebank.Up)
	_, err = list.Banks(b.ctx)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = list.Banks(b.ctx)
	require.NoError(t, err, "without Redis the bank is asked")
}

// otherBank lists one bank of its own.
type otherBank struct{ provider.Bank }

func (otherBank) Banks(context.Context) ([]provider.BankInfo, error) {
	return []provider.BankInfo{{Code: "999", Name: "Other Bank"}}, nil
}

// Another bank beside the same Redis has a list of its own: the first one's would say for an hour
// that the other's codes are of no bank.
func TestEachBankHasItsList(t *testing.T) {
	b := setup(t)
	r, log := b.Redis(), b.log.Logger()
	first := transfer.NewBankList(b.client, "bank.example", r, b.Clock, log)
	own, err := first.Banks(b.ctx)
	require.NoError(t, err)
	other, err := transfer.NewBankList(otherBank{}, "other.example", r, b.Clock, log).Banks(b.ctx)
	require.NoError(t, err)
	require.Equal(t, []provider.BankInfo{{Code: "999", Name: "Other Bank"}}, other)
	again, err := first.Banks(b.ctx)
	require.NoError(t, err)
	require.Equal(t, own, again)
	require.Equal(t, 1, b.bank.Calls(banksCall), "kept")
}

// deafBank never answers.
type deafBank struct{ provider.Bank }

func (deafBank) Banks(ctx context.Context) ([]provider.BankInfo, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Nobody waits long for a silent bank when there is a list to serve.
func TestBankListOfASilentBank(t *testing.T) {
	b := setup(t)
	log := b.log.Logger()
	r := b.Redis()
	first, err := transfer.NewBankList(b.client, "bank.example", r, b.Clock, log).Banks(b.ctx)
	require.NoError(t, err)
	b.Clock.Advance(2 * time.Hour)
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	stale, err := transfer.NewBankList(deafBank{b.client}, "bank.example", r, b.Clock, log).Banks(ctx)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	require.Equal(t, first, stale)
}

func TestLookup(t *testing.T) {
	spec.Shows(t, "endpoint.lookup.404")
	b := setup(t)
	h, err := b.svc.Lookup(b.ctx, "058", "0123456789")
	require.NoError(t, err)
	require.Equal(t, provider.Holder{AccountNumber: "0123456789", AccountName: "AMINA BELLO"}, h)
	for _, c := range []struct {
		code, number string
		want         error
	}{
		{"058", "123", transfer.ErrAccountNumber},
		{"", "0123456789", transfer.ErrBankCode},
		{"xyz", "0123456789", transfer.ErrLookup},
		{"999", "0123456789", transfer.ErrLookup},
		{"058", "0001111111", transfer.ErrLookup},
	} {
		_, err := b.svc.Lookup(b.ctx, c.code, c.number)
		require.ErrorIs(t, err, c.want, "%s %s", c.code, c.number)
	}
	b.bank.Faults.SetDown(fakebank.DownClose)
	b.Clock.Advance(2*time.Minute - time.Second)
	kept, err := b.svc.Lookup(b.ctx, "058", "0123456789")
	require.NoError(t, err, "the name is kept for two minutes")
	require.Equal(t, h, kept)
	for _, c := range [][2]string{{"044", "0123456789"}, {"058", "0123456788"}, {"058", "0001111111"}} {
		_, err = b.svc.Lookup(b.ctx, c[0], c[1])
		require.ErrorIs(t, err, transfer.ErrBank, "%s: another account, and one that the bank does not have, is not kept", c)
	}
	b.Clock.Advance(time.Second)
	_, err = b.svc.Lookup(b.ctx, "058", "0123456789")
	require.ErrorIs(t, err, transfer.ErrBank)
}

// What is kept serves questions, and never a payout: before it pays, the worker asks the bank whose
// the account is.
func TestPayoutAsksForTheNameAnew(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	_, err := b.svc.Lookup(b.ctx, "058", "0123456789")
	require.NoError(t, err)
	before := b.bank.Calls("POST /v1/transfers/bank/lookup")
	_, err = b.svc.Lookup(b.ctx, "058", "0123456789")
	require.NoError(t, err)
	require.Equal(t, before, b.bank.Calls("POST /v1/transfers/bank/lookup"))
	s := b.settle("100.00")
	require.Equal(t, before, b.bank.Calls("POST /v1/transfers/bank/lookup"))
	b.step(s)
	require.Equal(t, before+1, b.bank.Calls("POST /v1/transfers/bank/lookup"))
}
