package payment_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// stolen is a payment to the test's account whose event's word has brought it to another one, and
// that an operator has reversed.
func (b *bundle) stolen() (id, thief uuid.UUID) {
	b.T.Helper()
	b.openAtBank()
	thief = b.Account(b.tenant, "thief")
	id = b.paidTo(b.account.String(), func(x *fakebank.EventTransaction) { x.AliasReference = "urn:uuid:" + thief.String() }, payment.CategoryPayment)
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.ErrorIs(b.T, err, payment.ErrNotMisdirected, "it counts where it is")
	require.Equal(b.T, time.Duration(-1), b.check(id))
	_, err = b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.ErrorIs(b.T, err, payment.ErrNotMisdirected, "a person must decide the review first")
	_, err = b.svc.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
	require.NoError(b.T, err)
	return id, thief
}

// postedAgain is the event that stands in for another, confirmed; all invariants hold.
func (b *bundle) postedAgain(id uuid.UUID) uuid.UUID {
	b.T.Helper()
	again := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE replaces = $1`, id)
	require.Equal(b.T, time.Duration(-1), b.check(again))
	balance, entries := b.books()
	require.Equal(b.T, "4975.00", balance)
	require.Equal(b.T, []string{"credit confirmed"}, entries)
	require.Equal(b.T, [2]string{"0.00", "0.00"}, b.recalls())
	return again
}

// A payment that its event's word has brought to another account than the one that was paid is
// assigned, once, to the account that the bank's record names.
func TestPaymentToAnotherAccountIsAssigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tellsAll()
	id, thief := b.stolen()
	plan, err := b.svc.PlanAssign(b.ctx, id, b.here())
	require.NoError(t, err)
	require.Equal(t, []any{b.account, true}, []any{plan.AccountID, plan.Again})
	errs := make([]error, 2)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = b.svc.Assign(b.ctx, id, b.here(), byHand) })
	}
	all.Wait()
	require.ElementsMatch(t, []error{nil, payment.ErrNotMisdirected}, errs)
	again := b.postedAgain(id)
	require.Equal(t, "payment.received 4975.00, payment.confirmed 4975.00", b.toldOf(again))
	require.Equal(t, []string{"reversed", "reversed"}, testenv.Value[[]string](b.Env, `SELECT array_agg(status) FROM ledger_entries WHERE account_id = $1`, thief))
}

// To an account that was not paid either, it is not confirmed by itself.
func TestPaymentToAnotherAccountIsHeldToTheOneThatWasPaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.stolen()
	third := b.Account(b.tenant, "third")
	_, err := b.svc.Assign(b.ctx, id, payment.Destination{AccountID: third}, byHand)
	require.NoError(t, err)
	again := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE replaces = $1`, id)
	require.Equal(t, time.Duration(-1), b.check(again))
	require.Equal(t, "needs_review", testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE account_id = $1`, third))
	_, err = b.svc.DecideReview(b.ctx, again, ledger.EventReverse, byHand)
	require.NoError(t, err)
	_, err = b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.ErrorIs(t, err, payment.ErrNotMisdirected, "another event stands in for it")
	_, err = b.svc.Assign(b.ctx, again, b.here(), byHand)
	require.NoError(t, err)
	b.postedAgain(again)
}

// A payment that an operator has assigned to an account of the wrong tenant is taken back from it,
// and assigned to the right one, whose tenant is not told of the other's event.
func TestWronglyAssignedPaymentIsAssignedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tellsAll()
	other := b.Account(b.Tenant(), "other")
	id := b.misdirected(nil)
	_, err := b.svc.Assign(b.ctx, id, payment.Destination{AccountID: other}, byHand)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), b.check(id))
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	_, err = b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.ErrorIs(t, err, payment.ErrNotMisdirected, "a recall is open")
	_, err = b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
	require.NoError(t, err)
	_, err = b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	again := b.postedAgain(id)
	events := b.Delivered(`transaction_group_id = $1`, again)
	require.Len(t, events, 2)
	for _, d := range events {
		require.Empty(t, replacesOf(t, d.Body))
	}
	suspense, tenants := b.suspense()
	require.Equal(t, []string{"0.00", "4975.00"}, []string{suspense, tenants})
}

// A payment comes back to a tenant by way of another one: each of the two is told which payment of
// its own does not count any more, however many of the other's lie between them.
func TestAPaymentThatComesBackToItsTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.tellsAll()
	stranger := b.Tenant()
	b.Subscribe(stranger, "{payment.confirmed,payment.reversed}")
	first := b.misdirected(nil)
	_, err := b.svc.Assign(b.ctx, first, b.here(), byHand)
	require.NoError(t, err)
	goes := func(id, account uuid.UUID) uuid.UUID {
		t.Helper()
		require.Equal(t, time.Duration(-1), b.check(id))
		require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
		_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
		require.NoError(t, err)
		_, err = b.svc.Assign(b.ctx, id, payment.Destination{AccountID: account}, byHand)
		require.NoError(t, err)
		return testenv.Value[uuid.UUID](b.Env, `SELECT id FROM inbound_events WHERE replaces = $1`, id)
	}
	second := goes(first, b.Account(stranger, "other"))
	third := goes(second, b.Account(stranger, "another"))
	fourth := goes(third, b.account)
	fifth := goes(fourth, b.Account(b.tenant, "customer-2"))
	require.Equal(t, time.Duration(-1), b.check(fifth))
	for _, c := range []struct {
		id       uuid.UUID
		events   int
		replaces string
	}{{first, 3, ""}, {second, 3, ""}, {third, 3, second.String()}, {fourth, 3, first.String()}, {fifth, 2, fourth.String()}} {
		events := b.Delivered(`transaction_group_id = $1`, c.id)
		require.Len(t, events, c.events)
		for _, d := range events {
			require.Equal(t, c.replaces, replacesOf(t, d.Body), d.Body)
		}
	}
	require.Equal(t, [2]string{"0.00", "9950.00"}, b.recalls(), "the invariants hold")
}

// The bank's record must have the payment, with its sums.
func TestMispostedPaymentMustBeAtTheBank(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.stolen()
	ref := testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
	for says, change := range map[string]func(*fakebank.Transaction){
		"the bank says refunded": func(x *fakebank.Transaction) { x.Status = "REFUND" },
		"the bank's record differs: amount is 4000.00, not 5000.00": func(x *fakebank.Transaction) {
			x.Amount = money.Must("4000.00")
		},
	} {
		b.bank.SetTransaction(ref, change)
		_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
		require.EqualError(t, err, says)
		b.bank.SetTransaction(ref, func(x *fakebank.Transaction) { x.Status, x.Amount = "SUCCESS", money.Must("5000.00") })
	}
}

// What was refunded from the wrong account is with its payer, and is not posted once more.
func TestMispostedPaymentThatWasRefunded(t *testing.T) {
	b := setupPolicy(t, account.Policy{})
	id, txn := b.pays("5000.00")
	b.toTheEnd(id, 10)
	require.NoError(t, b.refundByHand(id, "1000.00"))
	b.sent()
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
	require.NoError(t, err)
	b.taken(txn, "SUCCESS")
	_, err = b.svc.Assign(b.ctx, id, payment.Destination{AccountID: b.Account(b.tenant, "other")}, byHand)
	require.ErrorIs(t, err, payment.ErrRefunding)
}

// A refund that failed has paid nobody: the payment is assigned to the account that was paid.
func TestMispostedPaymentWhoseRefundFailed(t *testing.T) {
	b := setupPolicy(t, account.Policy{})
	id, txn := b.pays("5000.00")
	b.toTheEnd(id, 10)
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Reject, Next: 1})
	require.NoError(t, b.refundByHand(id, "1000.00"))
	require.Equal(t, []string{"failed 1000.00 058 0123456789 false"}, b.sent())
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, id, byHand))
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallReversed, byHand)
	require.NoError(t, err)
	b.taken(txn, "SUCCESS")
	other := b.Account(b.tenant, "other")
	_, err = b.svc.Assign(b.ctx, id, payment.Destination{AccountID: other}, byHand)
	require.NoError(t, err)
	require.Equal(t, "4975.00", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, other).String())
}
