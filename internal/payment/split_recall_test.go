package payment_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// moves moves money between two of the accounts.
func (b *splits) moves(from, to, amount string) {
	b.T.Helper()
	_, err := b.accounts.Transfer(b.ctx, b.tenant, from, account.BookOrder{ToAccountRef: to, Amount: amount}, idempotency.Request{})
	require.NoError(b.T, err)
}

// takenBack is a payment of which the partner had spent so much when the bank took it back.
func (b *splits) takenBack(spent string) (id uuid.UUID, txn fakebank.Transaction) {
	b.T.Helper()
	id, txn = b.confirmedPayment("5000.00")
	b.moves("partner", "customer-1", spent)
	require.Equal(b.T, id, b.receive(b.reversal(txn)).Recalled)
	b.taken(txn, "REFUND")
	b.toTheEnd(id, 10)
	b.has("0.00", "0.00", "0.00")
	return id, txn
}

// restored posts a payment again that the bank has after all, and returns its event.
func (b *splits) restored(id uuid.UUID, txn fakebank.Transaction) uuid.UUID {
	b.T.Helper()
	b.taken(txn, "SUCCESS")
	again, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(b.T, err)
	b.toTheEnd(again.Replacement, 10)
	return again.Replacement
}

// What a party had spent when the bank took the payment back counts towards its share of the
// payment that is posted again. Another recall holds it, where the party has money by then, and
// takes it back or ends the hold.
func TestSecondRecallOfASplit(t *testing.T) {
	for _, spent := range []string{"500.00", "400.00"} {
		for _, taken := range []bool{true, false} {
			t.Run(fmt.Sprint("spent ", spent, " taken ", taken), func(t *testing.T) {
				b := setupSplit(t)
				id, txn := b.takenBack(spent)
				again := b.restored(id, txn)
				b.moves("customer-1", "partner", spent)
				b.has("3977.50", "497.50", "500.00")
				b.confirmedPayment("5000.00") // the parties' parts of another are theirs

				require.Equal(t, again, b.receive(b.reversal(txn)).Recalled)
				b.has("3977.50 of 7955.00", "497.50 of 995.00", "500.00 of 1000.00")
				if !taken {
					b.toTheEnd(again, 10)
					b.has("7955.00", "995.00", "1000.00")
					return
				}
				b.taken(txn, "REFUND")
				b.toTheEnd(again, 10)
				b.has("3977.50", "497.50", "500.00")
			})
		}
	}
}

// If a policy holds all of a payment that is posted again, a recall of it holds less than that,
// since a party has kept a part. Nothing of what the policy holds may leave meanwhile.
func TestSecondRecallOfASplitThatIsHeld(t *testing.T) {
	by := audit.By{Actor: "ops@example.com", Reason: "the bank wrote"}
	b := setupSplit(t)
	id, _ := b.takenBack("500.00")
	_, err := b.accounts.Update(b.ctx, b.tenant, "customer-1", account.Changes{Policy: &account.Policy{Under: account.Hold}}, byHand)
	require.NoError(t, err)
	again, err := b.svc.Correct(b.ctx, id, sums("4999.00", "25.00"), by)
	require.NoError(t, err)
	b.has("0.00 of 4974.00", "0.00", "0.00")
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, again.Replacement, by))
	b.has("0.00 of 4974.00", "0.00", "0.00")
	_, err = b.svc.DecideRecall(b.ctx, again.Replacement, payment.RecallReversed, by)
	require.NoError(t, err)
	b.has("0.00", "0.00", "0.00")
}

// If the account's split changes before a payment is posted again, its parties together may have
// more than it brings: what one kept, and the new share of another. It can be recalled all the
// same.
func TestSecondRecallOfAPaymentThatIsSplitOtherwise(t *testing.T) {
	b := setupSplit(t)
	b.share(account.NewShare{AccountRef: "partner", Remainder: true})
	id, txn := b.takenBack("4975.00")
	b.share(account.NewShare{AccountRef: "platform", Remainder: true})
	again := b.restored(id, txn)
	b.moves("platform", "partner", "100.00")
	b.has("0.00", "4875.00", "100.00")

	require.Equal(t, again, b.receive(b.reversal(txn)).Recalled)
	b.has("0.00", "0.00 of 4875.00", "0.00 of 100.00")
	b.taken(txn, "REFUND")
	b.toTheEnd(again, 10)
	b.has("0.00", "0.00", "0.00")
}

// If the account has no split any more when a payment is posted again, what a party has kept of it
// is a part of it all the same: another recall holds that, and takes it back.
func TestSecondRecallOfAPaymentThatIsNotSplitAnyMore(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprint("taken ", taken), func(t *testing.T) {
			b := setupSplit(t)
			id, txn := b.takenBack("500.00")
			b.share()
			again := b.restored(id, txn)
			b.moves("customer-1", "partner", "500.00")
			b.has("4475.00", "0.00", "500.00")

			require.Equal(t, again, b.receive(b.reversal(txn)).Recalled)
			b.has("0.00 of 4475.00", "0.00", "0.00 of 500.00")
			if !taken {
				b.toTheEnd(again, 10)
				b.has("4475.00", "0.00", "500.00")
				return
			}
			b.taken(txn, "REFUND")
			b.toTheEnd(again, 10)
			b.has("0.00", "0.00", "0.00")
		})
	}
}

// The bank does not confirm a payment that is posted again: what a party kept of it when it was
// posted before is the party's, as it was.
func TestWhatAPartyKeptOfAPaymentThatIsNotConfirmedAgain(t *testing.T) {
	b := setupSplit(t)
	id, txn := b.takenBack("500.00")
	b.share()
	b.taken(txn, "SUCCESS")
	again, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	b.confirmedPayment("5000.00")
	b.moves("customer-1", "partner", "500.00")
	b.taken(txn, "REFUND")
	b.toTheEnd(again.Replacement, 10)
	b.has("4475.00", "0.00", "500.00")
}

// What the account itself has of a payment that is posted again is held by another recall, also the
// part that makes up for what a party has spent.
func TestSecondRecallHoldsWhatAPartyHasSpent(t *testing.T) {
	b := setupSplit(t)
	id, txn := b.takenBack("400.00")
	again := b.restored(id, txn)
	b.has("4377.50", "497.50", "100.00")

	require.Equal(t, again, b.receive(b.reversal(txn)).Recalled)
	b.has("0.00 of 4377.50", "0.00 of 497.50", "0.00 of 100.00")
	b.taken(txn, "REFUND")
	b.toTheEnd(again, 10)
	b.has("0.00", "0.00", "0.00")
}

// A recall of a payment that is posted again holds nothing of what a party has kept of it, as long
// as the bank has not confirmed the payment: that is the party's.
func TestRecallOfASplitThatIsNotConfirmedAgain(t *testing.T) {
	b := setupSplit(t)
	id, txn := b.takenBack("500.00")
	b.share()
	b.taken(txn, "SUCCESS")
	again, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	b.confirmedPayment("5000.00")
	b.moves("customer-1", "partner", "500.00")
	b.has("4475.00 of 9450.00", "0.00", "500.00")
	require.Equal(t, again.Replacement, b.receive(b.reversal(txn)).Recalled)
	b.has("4475.00 of 9450.00", "0.00", "500.00")
}

// What the recall of one account's payment holds makes nothing available on another account that
// has a recall too.
func TestRecallsOfTwoAccounts(t *testing.T) {
	b := setupSplit(t)
	b.share()
	b.OpenAtBank(b.bank, b.platform)
	own, ownTxn := b.pays("5000.00")
	other, otherTxn := b.pays("5000.00", func(p *fakebank.Payment) { p.AccountRef = b.platform.String() })
	b.toTheEnd(other, 5)
	require.Equal(t, own, b.receive(b.reversal(ownTxn)).Recalled)
	require.Equal(t, other, b.receive(b.reversal(otherTxn)).Recalled)
	b.has("0.00 of 4975.00", "0.00 of 4975.00", "0.00")
}

// passedOn is what a payment's page says that the split passed on of it.
func (b *splits) passedOn(id uuid.UUID) string {
	b.T.Helper()
	p, err := b.svc.Timeline(b.ctx, b.tenant, id)
	require.NoError(b.T, err)
	return p.PassedOn.String()
}

// A payment says what the split passed on of it.
func TestWhatASplitPassedOn(t *testing.T) {
	b := setupSplit(t)
	whole, _ := b.pays("5000.00")
	require.Equal(t, "0.00", b.passedOn(whole), "it is not confirmed")
	b.toTheEnd(whole, 5)
	require.Equal(t, "997.50", b.passedOn(whole))
	strangers, err := ledger.PassedOn(b.ctx, b.Pool, b.Tenant(), testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1`, whole))
	require.NoError(t, err)
	require.Equal(t, "0.00", strangers.String())
}

// What the parties have kept of a payment that is posted again was passed on too, as soon as it is
// confirmed.
func TestWhatASplitPassedOnOfAPaymentThatIsPostedAgain(t *testing.T) {
	b := setupSplit(t)
	id, txn := b.takenBack("400.00")
	require.Equal(t, "400.00", b.passedOn(id), "the partner kept what it had spent")
	b.taken(txn, "SUCCESS")
	again, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	require.Equal(t, "0.00", b.passedOn(again.Replacement))
	b.toTheEnd(again.Replacement, 10)
	b.has("4377.50", "497.50", "100.00")
	require.Equal(t, "997.50", b.passedOn(again.Replacement))
	require.Equal(t, "400.00", b.passedOn(id))
}
