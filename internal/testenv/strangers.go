package testenv

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
)

// OpenAtBank makes an account known to the fake bank, under its number there, so that payments to
// it have a record. change is as in [BankClient].
func (e *Env) OpenAtBank(bank *fakebank.Bank, account uuid.UUID, change ...func(*nomba.Options)) {
	e.T.Helper()
	a, err := BankClient(e.T, bank, e.Clock, change...).CreateAccount(context.Background(), provider.NewAccount{Ref: account.String(), Name: "Ada Obi Stores"})
	must(e.T, err)
	e.Exec(`UPDATE accounts SET bank_account_number = $2 WHERE id = $1`, account, a.Number)
}

// PaySilently makes a payment at the bank of which no event comes.
func PaySilently(t testing.TB, bank *fakebank.Bank, account uuid.UUID, amount string) fakebank.Transaction {
	t.Helper()
	txn, err := bank.Pay(context.Background(), fakebank.Payment{AccountRef: account.String(), Amount: money.Must(amount), SenderName: "Bola Ade", Silent: true, Force: true})
	must(t, err)
	return txn
}

// EventBody is the body of an event.
func EventBody(t testing.TB, e fakebank.Event) []byte {
	t.Helper()
	body, err := json.Marshal(e)
	must(t, err)
	return body
}

// Sign returns the bank's headers for the body of an event.
func Sign(t testing.TB, bank *fakebank.Bank, body []byte) (signature, timestamp string) {
	t.Helper()
	h, err := bank.SignedHeaders(body)
	must(t, err)
	return h.Get(fakebank.DefaultSignatureHeader), h.Get(fakebank.DefaultTimestampHeader)
}

// stranger answers each question with a record of another id that says something else than the bank
// does, while it lies: what an adapter would not pass on, and what the use cases must not believe
// either.
type stranger struct {
	provider.Bank
	says provider.Status
	lies bool
}

func (s *stranger) Transaction(ctx context.Context, id string) (provider.Transaction, error) {
	t, err := s.Bank.Transaction(ctx, id)
	if s.lies {
		t.ID, t.Status = "somebody-elses-id", s.says
	}
	return t, err
}

func (s *stranger) Payout(ctx context.Context, ref string) (provider.Payout, error) {
	p, err := s.Bank.Payout(ctx, ref)
	if s.lies {
		p.Ref, p.Status = "somebody-elses-reference", s.says
	}
	return p, err
}

// Strangers runs a test against a bank whose answers on the wire are of other records, which the
// adapter must see, and against an adapter that passes them on, which the use cases must. Setup
// makes the use cases, with what wrap makes of their adapter, and returns the bank too. The bank
// answers truly before lie and after honest.
func Strangers[B any](t *testing.T, setup func(t *testing.T, wrap func(provider.Bank) provider.Bank) (B, *fakebank.Bank), test func(t *testing.T, b B, lie, honest func())) {
	t.Helper()
	t.Run("on the wire", func(t *testing.T) {
		t.Parallel()
		b, bank := setup(t, func(b provider.Bank) provider.Bank { return b })
		test(t, b, func() {
			bank.Faults.Set(
				fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.WrongRecord}, fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.WrongRecord})
		}, bank.Faults.Clear)
	})
	for _, says := range []provider.Status{provider.Success, provider.Refunded, provider.Failed} {
		t.Run("from an adapter, "+string(says), func(t *testing.T) {
			t.Parallel()
			s := &stranger{says: says}
			b, _ := setup(t, func(own provider.Bank) provider.Bank {
				s.Bank = own
				return s
			})
			test(t, b, func() { s.lies = true }, func() { s.lies = false })
		})
	}
}
