package nomba_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/testenv"
)

// The fake bank and this adapter were written apart from one description of the wire; here the
// adapter is held against every fault that the bank can play.

const accountRef = "0198c0de-0000-7000-8000-0000000000aa"

type bundle struct {
	*fakebank.Bank
	*nomba.Client
	clock *clock.Fake
}

func setup(t *testing.T, change ...func(*nomba.Options)) bundle {
	t.Helper()
	c := clock.NewFake(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	bank := testenv.StartBank(t, fakebank.Options{Clock: c, Seed: 1, PayoutDelay: time.Minute, PayoutFee: money.Must("20")})
	quick := func(o *nomba.Options) { o.Retries, o.RetryWait = nomba.DefaultRetries, time.Microsecond }
	return bundle{bank, testenv.BankClient(t, bank, c, append([]func(*nomba.Options){quick}, change...)...), c}
}

// is says how a call must end: "ok", "unknown", "rejected" or "unclear".
func is(t *testing.T, want string, err error) {
	t.Helper()
	var rejection *provider.Rejection
	var unclear *nomba.Error
	switch want {
	case "ok":
		require.NoError(t, err)
	case "unknown":
		require.ErrorIs(t, err, provider.ErrUnknown)
	case "rejected":
		require.ErrorAs(t, err, &rejection)
	default:
		require.ErrorAs(t, err, &unclear)
	}
}

func (b bundle) open(t *testing.T) provider.Account {
	t.Helper()
	a, err := b.CreateAccount(t.Context(), provider.NewAccount{Ref: accountRef, Name: "Adé"})
	require.NoError(t, err)
	return a
}

func payout(ref string) provider.NewPayout {
	return provider.NewPayout{
		Ref: ref, Amount: money.Must("5000.10"), BankCode: "058", AccountNumber: "0554772814", AccountName: "ADA OBI", SenderName: "Shop",
	}
}

func TestFakeBankAccounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		do   fakebank.Action
		next int // calls struck
		want string
		made bool
	}{
		{fakebank.Normal, 1, "ok", true},
		{fakebank.DropAfter, 1, "ok", true}, // found by reference
		{fakebank.FailAfter, 1, "ok", true},
		{fakebank.NoNumber, 1, "ok", true},
		{fakebank.Empty, 1, "ok", true},
		{fakebank.NoNumber, 0, "unclear", true}, // nor by reference
		{fakebank.Drop, 1, "unclear", false},
		{fakebank.Fail, 1, "unclear", false},
		{fakebank.Garbage, 1, "unclear", false},
		{fakebank.Refuse, 1, "unclear", false}, // code 01
		{fakebank.Drop, 0, "unclear", false},
		{fakebank.FailAfter, 0, "unclear", true},
	} {
		t.Run(fmt.Sprint(tt.do, tt.next), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: tt.do, Next: tt.next})
			got, err := b.CreateAccount(t.Context(), provider.NewAccount{Ref: accountRef, Name: "Adé"})
			is(t, tt.want, err)
			made, ok := b.Account(accountRef)
			require.Equal(t, tt.made, ok)
			if tt.want == "ok" {
				require.Equal(t, provider.Account{Ref: accountRef, Number: made.NUBAN, Name: "Nomba/Ade Account", BankName: fakebank.BankName}, got)
			}
			b.Faults.Clear()
			again := b.open(t) // the next attempt with the reference finishes it
			require.Len(t, b.Accounts(), 1)
			require.Equal(t, b.Accounts()[0].NUBAN, again.Number)
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.CreateAccount(t.Context(), provider.NewAccount{Ref: accountRef, Name: "Adé", BVN: "123"})
		is(t, "rejected", err)
	})
}

func TestFakeBankCloseAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	is(t, "unknown", b.CloseAccount(t.Context(), accountRef))
	b.open(t)
	for _, do := range []fakebank.Action{fakebank.Fail, fakebank.DropAfter, fakebank.Refuse} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: do, Next: 1})
		is(t, "ok", b.CloseAccount(t.Context(), accountRef))
	}
	a := b.open(t)
	require.True(t, a.Closed)
	b.Faults.Set(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Garbage})
	is(t, "unclear", b.CloseAccount(t.Context(), accountRef))
	b.Faults.SetDown(fakebank.DownClose)
	is(t, "unclear", b.CloseAccount(t.Context(), accountRef))
}

func TestFakeBankTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.open(t)
	tx, err := b.Bank.Pay(t.Context(), fakebank.Payment{AccountRef: accountRef, Amount: money.Must("5000.50"), SenderName: "MUSA BELLO", Narration: "rent"})
	require.NoError(t, err)
	for _, tt := range []struct {
		do    fakebank.Action
		value string
		next  int
		want  string
		check func(provider.Transaction) bool
	}{
		{fakebank.Normal, "", 0, "ok", func(got provider.Transaction) bool {
			return got.ID == tx.ID && got.Status == provider.Success && got.Amount.Equal(tx.Amount) && got.Fee.Equal(tx.Fee) &&
				got.Currency == "NGN" && got.AccountNumber == a.Number && got.AccountRef == accountRef && got.SenderName == "MUSA BELLO" &&
				got.Narration == "rent" && got.Time.Equal(tx.Time)
		}},
		{fakebank.Fail, "", 2, "ok", nil},
		{fakebank.Drop, "", 2, "ok", nil},
		{fakebank.NotFound, "", 0, "unknown", nil},
		{fakebank.NotFoundCode, "", 0, "unknown", nil},
		{fakebank.Empty, "", 0, "unknown", nil},
		{fakebank.Refuse, "", 0, "unknown", nil}, // code 01
		{fakebank.WrongRecord, "", 0, "unclear", nil},
		{fakebank.Garbage, "", 0, "unclear", nil},
		{fakebank.Fail, "", 0, "unclear", nil},
		{fakebank.Drop, "", 0, "unclear", nil},
		{fakebank.FailAfter, "", 0, "unclear", nil},
		{fakebank.AlterStatus, "PENDING_BILLING", 0, "ok", func(got provider.Transaction) bool { return got.Status == provider.Pending }},
		{fakebank.AlterStatus, "PAYMENT_FAILED", 0, "ok", func(got provider.Transaction) bool { return got.Status == provider.Failed }},
		{fakebank.AlterStatus, "REFUND", 0, "ok", func(got provider.Transaction) bool { return got.Status == provider.Refunded }},
		{fakebank.AlterStatus, "LOST", 0, "ok", func(got provider.Transaction) bool { return got.Status == provider.Pending }},
		{fakebank.AlterAmount, "", 0, "ok", func(got provider.Transaction) bool { return got.Amount.String() == "5001.50" }},
		{fakebank.AlterAmount, "5,000.50", 0, "unclear", nil},
		{fakebank.AlterAmount, "5000.505", 0, "unclear", nil},
		{fakebank.AlterFee, "", 0, "ok", func(got provider.Transaction) bool { return got.Fee.Equal(tx.Fee.Add(money.Must("1"))) }},
		{fakebank.AlterFee, "-1", 0, "unclear", nil},
		{fakebank.AlterCurrency, "", 0, "ok", func(got provider.Transaction) bool { return got.Currency == "USD" }},
		{fakebank.AlterAccount, "", 0, "ok", func(got provider.Transaction) bool { return got.AccountNumber != a.Number }},
	} {
		t.Run(string(tt.do)+tt.value, func(t *testing.T) {
			b.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: tt.do, Value: tt.value, Next: tt.next})
			got, err := b.Client.Transaction(t.Context(), tx.ID)
			is(t, tt.want, err)
			if tt.check != nil {
				require.True(t, tt.check(got), "%+v", got)
			}
		})
	}
	b.Faults.Clear()
	_, err = b.Client.Transaction(t.Context(), "API-VACT_TRA-nobody")
	is(t, "unknown", err)
	_, err = b.Reverse(t.Context(), tx.ID)
	require.NoError(t, err)
	got, err := b.Client.Transaction(t.Context(), tx.ID)
	is(t, "ok", err)
	require.Equal(t, provider.Refunded, got.Status)
}

func TestFakeBankTransactions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.open(t)
	from := b.clock.Now()
	want := map[string]bool{}
	for i := range 120 {
		tx, err := b.Bank.Pay(t.Context(), fakebank.Payment{AccountRef: accountRef, Amount: money.Must("100"), Silent: true})
		require.NoError(t, err)
		if i < 110 {
			want[tx.ID] = true
		}
		if i%10 == 0 {
			_, err := b.Client.Pay(t.Context(), payout(fmt.Sprint("payout-", i)))
			require.NoError(t, err)
		}
		if i == 109 {
			b.clock.Advance(time.Hour) // the rest is behind the range
			continue
		}
		b.clock.Advance(500 * time.Millisecond)
	}
	to := from.Add(time.Hour)
	var last time.Time
	pages := 0
	for cursor := ""; ; pages++ {
		if pages == 1 {
			b.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail, Next: 2})
		}
		page, err := b.Client.Transactions(t.Context(), from.Add(300*time.Millisecond), to, cursor)
		require.NoError(t, err)
		require.Empty(t, page.Unreadable)
		for _, tx := range page.Transactions {
			require.True(t, want[tx.ID], "twice, or not asked for")
			delete(want, tx.ID)
			require.False(t, tx.Time.Before(last))
			last = tx.Time
			require.Equal(t, "100.00 10.00", tx.Amount.String()+" "+tx.Fee.String())
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Empty(t, want, "none is missing")
	require.Equal(t, 2, pages)
	for _, do := range []fakebank.Action{fakebank.NotFound, fakebank.Empty, fakebank.Garbage, fakebank.Drop} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: do})
		_, err := b.Client.Transactions(t.Context(), from, to, "")
		is(t, "unclear", err)
	}
}

func TestFakeBankBanksAndLookup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	list, err := b.Banks(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list)
	b.Faults.Set(fakebank.Rule{On: fakebank.OnBanks, Do: fakebank.Results}, fakebank.Rule{On: fakebank.OnLookup, Do: fakebank.Fail, Next: 1})
	same, err := b.Banks(t.Context())
	require.NoError(t, err)
	require.Equal(t, list, same)
	h, err := b.Lookup(t.Context(), "058", "0554772814")
	require.NoError(t, err)
	require.Equal(t, "0554772814", h.AccountNumber)
	require.NotEmpty(t, h.AccountName)
	_, err = b.Lookup(t.Context(), "999999", "0554772814")
	is(t, "rejected", err)
	for do, want := range map[fakebank.Action]string{
		fakebank.NotFound: "rejected", fakebank.NotFoundCode: "unclear", fakebank.Empty: "unclear", fakebank.Garbage: "unclear",
		fakebank.Drop: "unclear", fakebank.Fail: "unclear",
	} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnLookup, Do: do})
		_, err = b.Lookup(t.Context(), "058", "0554772814")
		is(t, want, err)
	}
}

func TestFakeBankPayouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		do    fakebank.Action
		code  string
		want  string          // of Pay
		state provider.Status // of Pay, where it is ok
		after string          // of Payout at once
		end   provider.Status // of Payout after the payout delay
	}{
		{fakebank.Paid, "", "ok", provider.Success, "ok", provider.Success},
		{fakebank.Pending, "", "ok", provider.Pending, "ok", provider.Success},
		{fakebank.Processing, "", "ok", provider.Pending, "ok", provider.Success},
		{fakebank.FailLater, "", "ok", provider.Pending, "ok", provider.Failed},
		{fakebank.Refund, "", "ok", provider.Success, "ok", provider.Refunded},
		{fakebank.Reject, "06", "rejected", "", "unknown", ""},
		{fakebank.Reject, "02", "rejected", "", "unknown", ""},
		{fakebank.Reject, "400", "rejected", "", "unknown", ""},
		{fakebank.Reject, "01", "unclear", "", "unknown", ""},
		{fakebank.Reject, "77", "unclear", "", "unknown", ""},
		{fakebank.Refuse, "05", "rejected", "", "unknown", ""},
		{fakebank.Duplicate, "06", "unclear", "", "ok", provider.Success},
		{fakebank.Duplicate, "99", "unclear", "", "ok", provider.Success},
		{fakebank.WrongRecord, "", "unclear", "", "ok", provider.Success},
		{fakebank.DropAfter, "", "unclear", "", "ok", provider.Success},
		{fakebank.FailAfter, "", "unclear", "", "ok", provider.Success},
		{fakebank.Drop, "", "unclear", "", "unknown", ""},
		{fakebank.Fail, "", "unclear", "", "unknown", ""},
		{fakebank.Garbage, "", "unclear", "", "unknown", ""},
	} {
		t.Run(string(tt.do)+tt.code, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: tt.do, Code: tt.code, Next: 1})
			got, err := b.Client.Pay(t.Context(), payout("ref-1"))
			is(t, tt.want, err)
			require.Equal(t, tt.state, got.Status)
			require.Equal(t, 1, b.Calls("POST /v2/transfers/bank"), "submitted once, whatever came back")
			_, err = b.Client.Payout(t.Context(), "ref-1")
			is(t, tt.after, err)
			if tt.end == "" {
				require.Empty(t, b.Payouts())
				return
			}
			b.clock.Advance(time.Minute)
			got, err = b.Client.Payout(t.Context(), "ref-1")
			require.NoError(t, err)
			require.Equal(t, tt.end, got.Status)
			require.Equal(t, []string{"ref-1", "5000.10", "20.00"}, []string{got.Ref, got.Amount.String(), got.Fee.String()})

			repeat, err := b.Client.Pay(t.Context(), payout("ref-1")) // answered with the original
			require.NoError(t, err)
			require.Equal(t, got.ID, repeat.ID)
			other := payout("ref-1")
			other.Amount = money.Must("1")
			_, err = b.Client.Pay(t.Context(), other) // refused as a duplicate
			is(t, "unclear", err)
			require.Len(t, b.Payouts(), 1)
		})
	}
}

func TestFakeBankPayoutStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Client.Pay(t.Context(), payout("ref-1"))
	require.NoError(t, err)
	for do, want := range map[fakebank.Action]string{
		fakebank.Normal: "ok", fakebank.NotFound: "unknown", fakebank.NotFoundCode: "unknown", fakebank.Empty: "unknown",
		fakebank.WrongRecord: "unclear", fakebank.Garbage: "unclear", fakebank.Fail: "unclear", fakebank.Drop: "unclear",
	} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: do})
		_, err := b.Client.Payout(t.Context(), "ref-1")
		is(t, want, err)
	}
	for value, want := range map[string]provider.Status{
		"SUCCESS": provider.Success, "PAYMENT_SUCCESSFUL": provider.Success, "PAYMENT_FAILED": provider.Failed, "REFUND": provider.Refunded,
		"NEW": provider.Pending, "PENDING_PAYMENT": provider.Pending, "?": provider.Pending,
	} {
		b.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.AlterStatus, Value: value})
		p, err := b.Client.Payout(t.Context(), "ref-1")
		require.NoError(t, err)
		require.Equal(t, want, p.Status, value)
	}
	b.Faults.Clear()
	// A refusal while the bank cannot say whether it knows the reference is not definite.
	b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Refuse, Code: "06"}, fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.Fail})
	_, err = b.Client.Pay(t.Context(), payout("ref-2"))
	is(t, "unclear", err)
}

func TestFakeBankPayoutThatIsSlow(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *nomba.Options) { o.PayTimeout = 50 * time.Millisecond })
	b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.SlowAfter, Delay: time.Minute})
	_, err := b.Client.Pay(t.Context(), payout("ref-1"))
	is(t, "unclear", err)
	p, err := b.Client.Payout(t.Context(), "ref-1")
	require.NoError(t, err)
	require.Equal(t, provider.Pending, p.Status)
}

func TestFakeBankTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const issue = "POST /v1/auth/token/issue"
	_, err := b.Client.Pay(t.Context(), payout("ref-1"))
	require.NoError(t, err)
	b.RevokeTokens()
	_, err = b.Client.Pay(t.Context(), payout("ref-2"))
	require.NoError(t, err)
	require.Equal(t, 2, b.Calls(issue))
	b.clock.Advance(31 * time.Minute)
	_, err = b.Banks(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, b.Calls(issue))
	b.RevokeTokens()
	b.Faults.Set(fakebank.Rule{On: fakebank.OnToken, Do: fakebank.Fail})
	_, err = b.Client.Pay(t.Context(), payout("ref-3"))
	is(t, "unclear", err)
	b.Faults.Clear()
	b.Faults.SetDown(fakebank.DownAnswer)
	_, err = b.Client.Pay(t.Context(), payout("ref-4"))
	is(t, "unclear", err)
	require.Len(t, b.Payouts(), 2)
	b.Faults.Clear()

	stranger := setup(t, func(o *nomba.Options) { o.ClientSecret = "wrong" })
	_, err = stranger.Client.Pay(t.Context(), payout("ref-1"))
	is(t, "unclear", err)
	require.Zero(t, stranger.Calls("POST /v2/transfers/bank"))
}
