package account_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// A split has at most twenty shares, of other active accounts of the tenant, each with one way to
// say how much, and percentages up to a hundred in all.
func TestSharesOfASplit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Account(b.tenant, "shop")
	for i := range 21 {
		b.Account(b.tenant, fmt.Sprintf("party-%d", i))
	}
	b.expired("expired")
	split := func(shares ...account.NewShare) (*account.Split, error) {
		a, err := b.svc.Update(b.ctx, b.tenant, "shop", account.Changes{Split: &shares}, byHand)
		return a.Split, err
	}
	party := func(i int, s account.NewShare) account.NewShare {
		s.AccountRef = fmt.Sprintf("party-%d", i)
		return s
	}
	percent := func(p string) account.NewShare { return account.NewShare{Percent: p} }
	amount := func(a string) account.NewShare { return account.NewShare{Amount: a} }
	rest := account.NewShare{Remainder: true}
	var many []account.NewShare
	for i := range 21 {
		many = append(many, party(i, amount("0.01")))
	}
	const noPercent, noAmount = "percent must be a decimal string above 0 and up to 100, with at most four decimals", "amount must be a decimal string above zero"
	for want, shares := range map[string][]account.NewShare{
		"split.shares must have at most 20 shares":                                       many,
		"split.shares[0]." + noPercent:                                                   {party(0, percent("0"))},
		"split.shares[1]." + noPercent:                                                   {party(0, percent("1")), party(1, percent("100.0001"))},
		"split.shares[2]." + noAmount:                                                    {party(0, percent("1")), party(1, percent("1")), party(2, amount("0.00"))},
		"split.shares[1]." + noAmount:                                                    {party(0, percent("1")), party(1, amount("-1.00"))},
		"split.shares[1].remainder must be true of one share alone":                      {party(0, rest), party(1, rest)},
		"split.shares[0].percent amount or remainder: a share needs exactly one of them": {party(0, account.NewShare{})},
		"split.shares[1].percent amount or remainder: a share needs exactly one of them": {party(0, rest), party(1, account.NewShare{Percent: "1", Amount: "1.00"})},
		"split.shares[0].accountRef is no account of yours":                              {{AccountRef: "customer-1", Percent: "1"}},
		"split.shares[0].accountRef must be another account, in one share":               {{AccountRef: "shop", Percent: "1"}},
		"split.shares[1].accountRef must be another account, in one share":               {party(0, percent("1")), party(0, amount("1.00"))},
		"split.shares[1].accountRef is not active":                                       {party(0, percent("1")), {AccountRef: "expired", Percent: "1"}},
		"split.shares: the percentages add up to more than 100":                          {party(0, percent("60")), party(1, percent("40.0001"))},
	} {
		_, err := split(shares...)
		require.EqualError(t, err, want)
		require.Equal(t, errs.Invalid, errs.KindOf(err))
	}
	require.Nil(t, testenv.Value[*string](b.Env, `SELECT split::text FROM accounts WHERE account_ref = 'shop'`))
	got, err := split(many[:20]...)
	require.NoError(t, err)
	require.Len(t, got.Shares, 20)
	got, err = split(party(0, percent("60")), party(1, percent("40")), party(2, amount("0.01")), party(3, rest))
	require.NoError(t, err)
	require.Len(t, got.Shares, 4)
	require.Equal(t, "0.01", got.Shares[2].Amount.String())
	require.Equal(t, money.MustRate("40"), *got.Shares[1].Percent)
	require.Equal(t, []bool{false, false, false, true}, []bool{got.Shares[0].Remainder, got.Shares[1].Remainder, got.Shares[2].Remainder, got.Shares[3].Remainder})
	require.Equal(t, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE account_ref = 'party-3'`), got.Shares[3].AccountID)
	got, err = split()
	require.NoError(t, err)
	require.Nil(t, got)
}

// A change changes what it names, of its own account, while that is active.
func TestChangesOfAnAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.provision(account.NewAccount{ExternalRef: "shop", Name: "Ada Obi", BVN: secret.Redact("22233344455"), Policy: &account.Policy{}})
	require.Nil(t, a.Policy, "one that says nothing is none")
	url, ftp, name, zero, sum := "https://shop.example/hook", "ftp://shop.example", "Bola Ade", money.Zero, money.Must("10.00")
	none := ""
	update := func(ch account.Changes) account.Account {
		t.Helper()
		var got account.Account
		b.Touches(func() {
			var err error
			got, err = b.svc.Update(b.ctx, b.tenant, "shop", ch, byHand)
			require.NoError(t, err)
		}, a.ID.String())
		return got
	}
	for want, ch := range map[error]account.Changes{
		account.ErrNoFields: {},
		errs.New(errs.Invalid, "expectedAmount must be above zero"):               {ExpectedAmount: &zero},
		errs.New(errs.Invalid, "name is required"):                                {Name: &none},
		errs.New(errs.Invalid, "policy.over must be accept, hold or refund"):      {Policy: &account.Policy{Over: "keep"}},
		errs.New(errs.Invalid, "callbackUrl must begin with https:// or http://"): {CallbackURL: &ftp},
	} {
		_, err := b.svc.Update(b.ctx, b.tenant, "shop", ch, byHand)
		require.EqualError(t, err, want.Error())
	}
	require.Equal(t, "Bola Ade", update(account.Changes{Name: &name}).BankAccountName)
	require.Equal(t, "10.00", update(account.Changes{ExpectedAmount: &sum}).ExpectedAmount.String())
	require.Equal(t, url, *update(account.Changes{CallbackURL: &url}).CallbackURL)
	require.Equal(t, account.Hold, update(account.Changes{Policy: &account.Policy{Over: account.Hold}}).Policy.Over)
	got := update(account.Changes{Policy: &account.Policy{}})
	require.Nil(t, got.Policy)
	require.Equal(t, []string{"Bola Ade", "10.00", url}, []string{got.BankAccountName, got.ExpectedAmount.String(), *got.CallbackURL})
	require.Nil(t, update(account.Changes{CallbackURL: &none}).CallbackURL)
	_, err := b.svc.Expire(b.ctx, b.tenant, "shop", account.Ending{Reason: "test"}, idempotency.Request{})
	require.NoError(t, err)
	_, err = b.svc.Update(b.ctx, b.tenant, "shop", account.Changes{Name: &name}, byHand)
	require.ErrorIs(t, err, account.ErrNotActive)
}

// The audit log has an account as it was when it was changed, whatever another change has done
// since it was found.
func TestAChangeBesideAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	require.NoError(t, b.Meanwhile(func(tx pg.Tx) error {
		_, err := tx.Exec(b.ctx, `UPDATE accounts SET callback_url = 'https://other.example' WHERE id = $1`, id)
		return err
	}, func() error {
		_, err := b.svc.Update(b.ctx, b.tenant, "shop", account.Changes{Policy: &account.Policy{Over: account.Hold}}, byHand)
		return err
	}))
	require.Equal(t, "https://other.example https://other.example", testenv.Value[string](b.Env, `
		SELECT concat_ws(' ', detail -> 'before' ->> 'callbackUrl', detail -> 'after' ->> 'callbackUrl') FROM audit_log WHERE action = 'account.change'`))
}

// A policy goes by how much was paid of what was expected, and an account's late payments by their
// own row of it; what it says nothing of is accepted.
func TestWhatAPolicySays(t *testing.T) {
	t.Parallel()
	expected := money.Must("10.00")
	policy := &account.Policy{Exact: account.Hold, Under: account.Refund, Over: account.Accept, Late: account.Refund}
	for _, c := range []struct {
		policy   *account.Policy
		expected *money.Amount
		paid     string
		late     bool
		action   account.Action
		why      string
	}{
		{nil, &expected, "9.99", true, account.Accept, ""},
		{policy, nil, "9.99", false, account.Accept, ""},
		{policy, nil, "9.99", true, account.Refund, "late: made after the account's end"},
		{policy, &expected, "10.00", true, account.Refund, "late: made after the account's end"},
		{policy, &expected, "9.99", false, account.Refund, "under: NGN 9.99 of NGN 10.00 expected"},
		{policy, &expected, "10.00", false, account.Hold, "exact: NGN 10.00 of NGN 10.00 expected"},
		{policy, &expected, "10.01", false, account.Accept, "over: NGN 10.01 of NGN 10.00 expected"},
		{&account.Policy{Late: account.Hold}, &expected, "10.00", false, account.Accept, "exact: NGN 10.00 of NGN 10.00 expected"},
	} {
		action, why := (&account.Target{Policy: c.policy, ExpectedAmount: c.expected}).Decide(money.Must(c.paid), c.late)
		require.Equal(t, []string{string(c.action), c.why}, []string{string(action), why}, "%+v", c)
	}
}
