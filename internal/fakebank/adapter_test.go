package fakebank_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/identity"
	"ajo/internal/identity/dojah"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
)

// The adapter and this bank were written apart, from the same description of the wire: here they
// meet.
func TestTheAdapterUnderstandsThisBank(t *testing.T) {
	b := setup(t, fakebank.Options{TokenTTL: 24 * time.Hour})
	var bank provider.Bank
	bank, err := nomba.New(nomba.Options{
		URL: b.url, AccountID: fakebank.DefaultAccountID, ClientID: fakebank.DefaultClientID, ClientSecret: fakebank.DefaultClientSecret,
		Clock: b.clock, Timeout: time.Minute, Retries: -1, RequestsPerSec: -1, PostsPerSec: -1,
	})
	require.NoError(t, err)
	ctx := t.Context()

	expires := start.Add(time.Hour)
	a, err := bank.CreateAccount(ctx, provider.NewAccount{Ref: ref, Name: "Halima & Sons", ExpectedAmount: new(money.Must("5000.50")), ExpiresAt: &expires})
	require.NoError(t, err)
	ours, _ := b.Account(ref)
	require.Equal(t, ours.NUBAN, a.Number)
	require.Equal(t, expires, *ours.ExpiresAt)
	again, err := bank.CreateAccount(ctx, provider.NewAccount{Ref: ref, Name: "Halima & Sons"})
	require.NoError(t, err)
	require.Equal(t, a.Number, again.Number)

	tx, err := b.Pay(ctx, fakebank.Payment{AccountRef: ref, Amount: money.Must("5000.50")})
	require.NoError(t, err)
	seen, err := bank.Transaction(ctx, tx.ID)
	require.NoError(t, err)
	require.Equal(t, []any{tx.ID, provider.Success, "5000.50", "25.00", "NGN", a.Number, ref, tx.Time},
		[]any{seen.ID, seen.Status, seen.Amount.String(), seen.Fee.String(), seen.Currency, seen.AccountNumber, seen.AccountRef, seen.Time})
	for _, do := range []fakebank.Action{fakebank.NotFound, fakebank.NotFoundCode, fakebank.Empty} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: do})
		_, err = bank.Transaction(ctx, tx.ID)
		require.ErrorIs(t, err, provider.ErrUnknown, do)
	}
	b.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.WrongRecord})
	_, err = bank.Transaction(ctx, tx.ID)
	require.Error(t, err)
	require.NotErrorIs(t, err, provider.ErrUnknown)
	b.Faults.Clear()

	for range 60 {
		b.pay("100")
	}
	var found []provider.Transaction
	for cursor := ""; ; {
		page, err := bank.Transactions(ctx, start, start.Add(time.Minute), cursor)
		require.NoError(t, err)
		found = append(found, page.Transactions...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Len(t, found, 61)

	banks, err := bank.Banks(ctx)
	require.NoError(t, err)
	require.Len(t, banks, len(fakebank.Banks))
	h, err := bank.Lookup(ctx, "058", "0123456789")
	require.NoError(t, err)
	require.Equal(t, "AMINA BELLO", h.AccountName)
	_, err = bank.Lookup(ctx, "058", "0001234567")
	var rejection *provider.Rejection
	require.True(t, errors.As(err, &rejection) || errors.Is(err, provider.ErrUnknown), err)

	payout := provider.NewPayout{
		Amount: money.Must("10.5"), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ajo", Narration: "n",
	}
	outcome := func(ref string, do fakebank.Action, delay time.Duration) (provider.Payout, error) {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: do, Delay: delay, Next: 1})
		payout.Ref = ref
		return bank.Pay(ctx, payout)
	}
	p, err := outcome("paid", fakebank.Paid, 0)
	require.NoError(t, err)
	require.Equal(t, provider.Success, p.Status)
	p, err = outcome("processing", fakebank.Processing, time.Minute)
	require.NoError(t, err)
	require.Equal(t, provider.Pending, p.Status)
	_, err = outcome("reject", fakebank.Reject, 0)
	require.ErrorAs(t, err, &rejection)
	for _, do := range []fakebank.Action{fakebank.Drop, fakebank.DropAfter, fakebank.Fail, fakebank.FailAfter, fakebank.Garbage, fakebank.Refuse, fakebank.Duplicate} {
		_, err = outcome(string(do), do, 0)
		require.Error(t, err, do)
		require.NotErrorAs(t, err, new(*provider.Rejection), do)
	}
	b.clock.Advance(time.Minute)
	p, err = bank.Payout(ctx, "processing")
	require.NoError(t, err)
	require.Equal(t, provider.Success, p.Status)
	_, err = bank.Payout(ctx, string(fakebank.Drop))
	require.ErrorIs(t, err, provider.ErrUnknown)

	require.NoError(t, bank.CloseAccount(ctx, ref))
	require.NoError(t, bank.CloseAccount(ctx, ref))
	ours, _ = b.Account(ref)
	require.True(t, ours.Closed)
}

func TestTheAdapterUnderstandsThisNINService(t *testing.T) {
	b := setup(t, fakebank.Options{IdentityAppID: "app", IdentityKey: "key"})
	service, err := dojah.New(dojah.Options{URL: b.url, AppID: "app", Key: "key"})
	require.NoError(t, err)
	check := func(nin, name string) identity.Result {
		result, err := service.CheckNIN(t.Context(), nin, name)
		require.NoError(t, err)
		return result
	}
	require.Equal(t, identity.Match, check(fakebank.SandboxNIN, fakebank.SandboxFirstName+" "+fakebank.SandboxLastName))
	require.Equal(t, identity.Match, check(fakebank.OtherFormNIN, "Chidi Okeke"))
	require.Equal(t, identity.Mismatch, check(fakebank.SandboxNIN, "Chidi Okeke"))
	require.Equal(t, identity.NoSuch, check("70000000000", "Chidi Okeke"))
	for _, do := range []fakebank.Action{fakebank.Fail, fakebank.Drop, fakebank.Garbage, fakebank.Refuse} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnNIN, Do: do})
		_, err := service.CheckNIN(t.Context(), fakebank.SandboxNIN, "Chidi Okeke")
		require.ErrorIs(t, err, identity.ErrUnavailable, do)
	}
}
