package payment

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
)

// An entry that an operator has corrected counts the rest of what the bank gave back a part of:
// only where the record says so of a part that is not as large as the rest.
func TestWhatIsTheRestOfAPayment(t *testing.T) {
	t.Parallel()
	id, before := uuid.New(), money.Must("5000.00")
	record := provider.Transaction{
		ID: "T-1", Status: provider.Refunded, Amount: money.Must("100.00"), Fee: money.Must("25.00"), Currency: money.Currency, AccountNumber: "0123456789", AccountRef: id.String(),
	}
	for name, c := range map[string]struct {
		counts string // gross
		before *money.Amount
		change func(*provider.Transaction)
		want   bool
	}{
		"the rest":                    {"4900.00", &before, func(*provider.Transaction) {}, true},
		"another sum":                 {"4800.00", &before, func(*provider.Transaction) {}, false},
		"all of it":                   {"5000.00", &before, func(*provider.Transaction) {}, false},
		"no replacement":              {"4900.00", nil, func(*provider.Transaction) {}, false},
		"another fee":                 {"4900.00", &before, func(x *provider.Transaction) { x.Fee = money.Must("10.00") }, false},
		"the bank says success":       {"4900.00", &before, func(x *provider.Transaction) { x.Status = provider.Success }, false},
		"the bank says failed":        {"4900.00", &before, func(x *provider.Transaction) { x.Status = provider.Failed }, false},
		"no part":                     {"5000.00", &before, func(x *provider.Transaction) { x.Amount = money.Zero }, false},
		"less than no part":           {"5100.00", &before, func(x *provider.Transaction) { x.Amount = money.Must("100.00").Neg() }, false},
		"a part as large as the rest": {"2500.00", &before, func(x *provider.Transaction) { x.Amount = money.Must("2500.00") }, false},
	} {
		x := record
		c.change(&x)
		e := Entry{Before: c.before, booked: booked{
			TxnRef: record.ID, Amount: money.Must(c.counts), Fee: record.Fee, Currency: record.Currency, AccountNumber: record.AccountNumber, AccountID: id,
		}}
		require.Equal(t, c.want, e.IsRest(x), name)
	}
}

// A record of the bank's list is posted only if it is a payment: of more than its fee, in naira, to
// an account that it names.
func TestWhichRecordsAreUnfit(t *testing.T) {
	t.Parallel()
	sound := provider.Transaction{ID: "T-1", Amount: money.Must("25.01"), Fee: money.Must("25.00"), Currency: money.Currency, AccountNumber: "0123456789"}
	for why, change := range map[string]func(*provider.Transaction){
		"":                                       func(*provider.Transaction) {},
		"the currency is \"USD\", not NGN":       func(x *provider.Transaction) { x.Currency = "USD" },
		reasonAmount:                             func(x *provider.Transaction) { x.Amount = x.Fee },
		"it names no account":                    func(x *provider.Transaction) { x.AccountNumber = "" },
		"its id begins or ends with white space": func(x *provider.Transaction) { x.ID += " " },
	} {
		x := sound
		change(&x)
		require.Equal(t, why, Unfit(x))
	}
	x := sound
	x.Amount = money.Must("24.99")
	require.Equal(t, reasonAmount, Unfit(x))
	x = sound
	x.AccountNumber, x.AccountRef = "", "customer-1"
	require.Empty(t, Unfit(x))
}

// The true sum of a payment is above its fee, which may be none, and is not the event's.
func TestWhichCorrectionsAreValid(t *testing.T) {
	t.Parallel()
	v := Review{GrossAmount: money.Must("5000.00"), Fee: money.Must("25.00")}
	for _, c := range []struct {
		amount, fee money.Amount
		want        error
	}{
		{money.Must("5000.00"), money.Must("24.99"), nil},
		{money.Must("4999.99"), money.Must("25.00"), nil},
		{money.Must("10.00"), money.Zero, nil},
		{money.Must("0.01"), money.Zero, nil},
		{money.Must("5000.00"), money.Must("25.00"), ErrSameSums},
		{money.Must("10.00"), money.Must("10.00"), ErrSums},
		{money.Must("10.00"), money.Must("10.01"), ErrSums},
		{money.Must("10.00"), money.Must("0.01").Neg(), ErrSums},
		{money.Zero, money.Zero, ErrSums},
	} {
		require.Equal(t, c.want, Correction{c.amount, c.fee}.Validate(v), "%s %s", c.amount, c.fee)
	}
}
