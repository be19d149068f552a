package payment_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/reconcile"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// lastHour reconciles the hour before now.
func (b *bundle) lastHour() reconcile.Report {
	b.T.Helper()
	svc := reconcile.New(reconcile.Options{Pool: b.Pool, Bank: b.client(), Payments: b.svc, Clock: b.Clock, Log: b.svc.Log, MinAge: b.svc.ConfirmMinAge})
	r, err := svc.Run(b.ctx, b.Clock.Now().Add(-time.Hour), b.Clock.Now().Add(time.Second))
	require.NoError(b.T, err)
	return r
}

func sums(amount, fee string) payment.Correction {
	return payment.Correction{Amount: money.Must(amount), Fee: money.Must(fee)}
}

// wronglyReversed is a payment that the bank said had failed, and whose record it has corrected
// since.
func (b *bundle) wronglyReversed() (uuid.UUID, fakebank.Transaction) {
	b.T.Helper()
	id, txn := b.paid()
	b.taken(txn, "PAYMENT_FAILED")
	require.Equal(b.T, time.Duration(-1), b.check(id))
	b.taken(txn, "SUCCESS")
	return id, txn
}

// toldOf are the deliveries, by their type, group and sum.
func (b *bundle) toldOf(group uuid.UUID) string {
	b.T.Helper()
	var published []string
	for _, d := range b.Delivered(`transaction_group_id = $1`, group) {
		var body struct{ Amount string }
		require.NoError(b.T, json.Unmarshal([]byte(d.Body), &body))
		published = append(published, d.EventType+" "+body.Amount)
		require.Equal(b.T, b.replacedBy(group), replacesOf(b.T, d.Body), "an event names the payment in whose place this one counts")
	}
	slices.Sort(published)
	slices.Reverse(published)
	return strings.Join(published, ", ")
}

// replacedBy is the event in whose place this one was posted; empty: it is the first.
func (b *bundle) replacedBy(id uuid.UUID) string {
	return testenv.Value[string](b.Env, `SELECT coalesce(replaces::text, '') FROM inbound_events WHERE id = $1`, id)
}

// replacesOf is the payment that an event says was posted again; empty where it says nothing.
func replacesOf(t require.TestingT, body string) string {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &fields))
	id, _ := fields["replaces"].(string)
	return id
}

func (b *bundle) tellsAll() {
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook', webhook_events = '{payment.confirmed,payment.reversed}' WHERE id = $1`, b.tenant)
}

// The true sum of a payment is neither its event's nor zero: the held entry is reversed, and the
// true sum counts in its place.
func TestReviewIsCorrected(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.review.corrected")
	b := setup(t)
	b.tellsAll()
	id := b.held()
	v, err := b.svc.Review(b.ctx, id)
	require.NoError(t, err)
	got, err := b.svc.Correct(b.ctx, id, sums("5000.00", "10.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, []any{id, b.account, ledger.Confirmed, "4990.00", "10.00", "4990.00"},
		[]any{got.EventID, got.AccountID, got.Status, got.Amount.String(), got.Fee.String(), got.Balance.String()})
	balance, entries := b.books()
	require.Equal(t, "4990.00", balance)
	require.Equal(t, []string{"credit reversed", "debit reversed", "credit confirmed"}, entries)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls(), "and all invariants hold")
	require.Equal(t, "payment.reversed 4975.00, payment.received 4975.00", b.toldOf(id))
	require.Equal(t, "payment.received 4990.00, payment.confirmed 4990.00", b.toldOf(got.Replacement))
	e, err := b.svc.InboundEvent(b.ctx, got.Replacement)
	require.NoError(t, err)
	require.Equal(t, []any{id, "Bola Ade", payment.Processed, v.ProviderTxnRef}, []any{*e.Replaces, e.SenderName, e.Status, e.ProviderTxnRef})
	require.Nil(t, e.NextAttemptAt, "nobody is asked any more")
	require.Empty(t, e.LastError)
	given, err := b.svc.InboundEvent(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, heldWhy, given.LastError, "it says why it was given up")
	require.NoError(t, b.svc.Confirm(b.ctx, id))
	require.NoError(t, b.svc.Confirm(b.ctx, got.Replacement))

	log := b.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"cli:ada", "review.correct", "event:" + id.String(), "asked the bank"}, []string{log[0].Actor, log[0].Action, log[0].Target, log[0].Reason})
	require.Contains(t, string(log[0].Detail), `"FromFee": "25.00"`)
	require.Contains(t, string(log[0].Detail), `"ToFee": "10.00"`)
	require.Contains(t, string(log[0].Detail), got.Replacement.String())

	// The bank's list says the same: there is nothing to report.
	r := b.lastHour()
	require.Empty(t, r.Exceptions)
	require.Equal(t, 1, r.Books.Confirmed.Count)

	for range 2 {
		_, err = b.svc.Correct(b.ctx, id, sums("5000.00", "10.00"), byHand)
		require.ErrorIs(t, err, payment.ErrNotInReview)
	}
	_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrCounts)
	again, entriesAgain := b.books()
	require.Equal(t, balance, again)
	require.Equal(t, entries, entriesAgain)
	require.Len(t, b.audited(), 1)
}

func TestCorrectionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	provisional, _ := b.paid()
	confirmed, _ := b.confirmed()
	restored, _ := b.wronglyReversed()
	_, err := b.svc.RestoreReversed(b.ctx, restored, byHand)
	require.NoError(t, err)
	held := b.held()
	balance, entries := b.books()
	for name, c := range map[string]struct {
		id   uuid.UUID
		to   payment.Correction
		want error
	}{
		"provisional": {provisional, sums("10.00", "1.00"), payment.ErrNotInReview}, "confirmed": {confirmed, sums("10.00", "1.00"), payment.ErrNotInReview},
		"reversed, and another event counts": {restored, sums("10.00", "1.00"), payment.ErrNotInReview}, "unknown": {uuid.New(), sums("10.00", "1.00"), payment.ErrEventNotFound},
		"nothing is left": {held, sums("10.00", "10.00"), payment.ErrSums}, "a fee above it": {held, sums("10.00", "10.01"), payment.ErrSums},
		"a fee below zero": {held, payment.Correction{Amount: money.Must("10.00"), Fee: money.Must("1.00").Neg()}, payment.ErrSums},
		"the event's own":  {held, sums("5000.00", "25.00"), payment.ErrSameSums},
	} {
		_, err := b.svc.Correct(b.ctx, c.id, c.to, byHand)
		require.ErrorIs(t, err, c.want, name)
	}
	by := byHand
	by.Reason = " "
	_, err = b.svc.Correct(b.ctx, held, sums("10.00", "1.00"), by)
	require.Error(t, err)
	again, entriesAgain := b.books()
	require.Equal(t, balance, again)
	require.Equal(t, entries, entriesAgain)
	require.Len(t, b.audited(), 1, "the restoration")
}

// Many operators decide one payment at once, in all three ways: it is decided once, and one sum at
// most counts.
// A credit that was reversed, and that the bank has with another sum, counts with that sum, once;
// what takes its place can be corrected again when it is reversed in its turn.
func TestReversedIsCorrected(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.review.corrected")
	b := setup(t)
	b.tellsAll()
	id, txn := b.wronglyReversed()
	_, err := b.svc.Correct(b.ctx, id, sums("5000.00", "25.00"), byHand)
	require.ErrorIs(t, err, payment.ErrSameSums, "that is a restoration")
	v, err := b.svc.Correctable(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, []any{ledger.Reversed, "5000.00", "4975.00"}, []any{v.Status, v.GrossAmount.String(), v.Amount.String()})
	got, err := b.svc.Correct(b.ctx, id, sums("4000.00", "25.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, []any{ledger.Confirmed, "3975.00", "3975.00"}, []any{got.Status, got.Amount.String(), got.Balance.String()})
	require.True(t, got.Posted.ConfirmAt.IsZero())
	for range 2 {
		_, err = b.svc.Correct(b.ctx, id, sums("4000.00", "25.00"), byHand)
		require.ErrorIs(t, err, payment.ErrNotInReview)
		_, err = b.svc.Correctable(b.ctx, id)
		require.ErrorIs(t, err, payment.ErrNotInReview)
		_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
		require.ErrorIs(t, err, payment.ErrCounts)
	}
	balance, entries := b.books()
	require.Equal(t, "3975.00", balance)
	require.Equal(t, []string{"credit reversed", "debit reversed", "credit confirmed"}, entries)
	require.Equal(t, "payment.reversed 4975.00, payment.received 4975.00", b.toldOf(id))
	require.Equal(t, "payment.received 3975.00, payment.confirmed 3975.00", b.toldOf(got.Replacement))
	log := b.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"review.correct", "event:" + id.String()}, []string{log[0].Action, log[0].Target})
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Amount = money.Must("4000.00") })
	require.Empty(t, b.lastHour().Exceptions)

	b.taken(txn, "REFUND")
	_, err = b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), b.check(got.Replacement))
	_, err = b.svc.Correct(b.ctx, id, sums("3000.00", "25.00"), byHand)
	require.ErrorIs(t, err, payment.ErrNotInReview, "the newest one is corrected")
	_, err = b.svc.Correct(b.ctx, got.Replacement, sums("3000.00", "25.00"), byHand)
	require.NoError(t, err)
	balance, _ = b.books()
	require.Equal(t, "2975.00", balance)
	require.Equal(t, [2]string{"0.00", "3975.00"}, b.recalls())
}

// Operators who correct and restore a reversed payment at once post one credit.
func TestReversedIsSettledOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.wronglyReversed()
	require.Equal(t, 1, atOnce(t, 16, payment.ErrCounts, func(i int) error {
		if i%2 == 0 {
			_, err := b.svc.RestoreReversed(b.ctx, id, byHand)
			return err
		}
		_, err := b.svc.Correct(b.ctx, id, sums("4000.00", "25.00"), byHand)
		if errors.Is(err, payment.ErrNotInReview) {
			err = payment.ErrCounts
		}
		return err
	}))
	_, entries := b.books()
	require.Len(t, entries, 3)
	require.Len(t, b.audited(), 1)
}

func TestCorrectionsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.held()
	other := b.service(b.bank.URL())
	require.Equal(t, 1, atOnce(t, 24, payment.ErrNotInReview, func(i int) (err error) {
		switch svc := []*payment.Service{b.svc, other}[i%2]; i % 3 {
		case 0:
			_, err = svc.Correct(b.ctx, id, sums("6000.00", "10.00"), byHand)
		case 1:
			_, err = svc.Correct(b.ctx, id, sums("7000.00", "10.00"), byHand)
		default:
			_, err = svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
		}
		return err
	}))
	require.Len(t, b.audited(), 1)
	balance, _ := b.books()
	require.Contains(t, []string{"5990.00", "6990.00", "4975.00"}, balance)
	b.recalls()
}

// A correction ends a recall of the payment that it replaces, and the replacement can be recalled
// like any payment.
func TestCorrectionOfARecalledPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.held()
	txn := testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
	_, err := b.svc.OpenRecall(b.ctx, txn, payment.RecallByOperator)
	require.NoError(t, err)
	got, err := b.svc.Correct(b.ctx, id, sums("5000.00", "10.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	require.NoError(t, b.svc.Confirm(b.ctx, id), "nothing is left to ask")

	b.bank.SetTransaction(txn, func(x *fakebank.Transaction) { x.Status = "REFUND" })
	opened, err := b.svc.OpenRecall(b.ctx, txn, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, got.Replacement, opened)
	require.Equal(t, [2]string{"4990.00", "0.00"}, b.recalls())
	require.Equal(t, time.Duration(-1), b.check(got.Replacement))
	require.Equal(t, [2]string{"0.00", "4990.00"}, b.recalls())
	balance, _ := b.books()
	require.Equal(t, "0.00", balance)
}

// The bank said failed, and says success now: the payment is posted again, once, and confirmed as
// any.
func TestReversedIsRestored(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.restored")
	b := setup(t)
	b.tellsAll()
	id, txn := b.wronglyReversed()
	plan, err := b.svc.PlanRestore(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, []any{id, txn.ID, "4975.00"}, []any{plan.Event.ID, plan.Record.ID, plan.Amount.String()})
	got, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	require.Equal(t, []any{id, b.account, ledger.Provisional, "4975.00", "25.00", "4975.00"},
		[]any{got.EventID, got.AccountID, got.Status, got.Amount.String(), got.Fee.String(), got.Balance.String()})
	require.Equal(t, b.Clock.Now().Add(30*time.Second), got.Posted.ConfirmAt)
	for range 2 {
		_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
		require.ErrorIs(t, err, payment.ErrCounts)
	}
	b.Clock.Advance(30 * time.Second)
	require.Equal(t, time.Duration(-1), b.check(got.Replacement))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit reversed", "debit reversed", "credit confirmed"}, entries)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls(), "and all invariants hold")
	require.Equal(t, "payment.reversed 4975.00, payment.received 4975.00", b.toldOf(id))
	require.Equal(t, "payment.received 4975.00, payment.confirmed 4975.00", b.toldOf(got.Replacement))
	log := b.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"cli:ada", "review.restore", "event:" + id.String(), "asked the bank"}, []string{log[0].Actor, log[0].Action, log[0].Target, log[0].Reason})
	require.Contains(t, string(log[0].Detail), got.Replacement.String())
	require.Empty(t, b.lastHour().Exceptions)

	// It comes back once more: the replacement is what is restored then.
	b.taken(txn, "REFUND")
	_, err = b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByOperator)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), b.check(got.Replacement))
	b.taken(txn, "SUCCESS")
	_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrReplaced)
	_, err = b.svc.RestoreReversed(b.ctx, got.Replacement, byHand)
	require.NoError(t, err)
	balance, _ = b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
}

// Whatever the bank's record has but success for the same money, to the same account, restores
// nothing.
func TestRestorationIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	provisional, _ := b.paid()
	confirmed, _ := b.confirmed()
	held := b.held()
	misdirected := b.misdirected(nil)
	id, txn := b.wronglyReversed()
	balance, entries := b.books()
	for name, c := range map[string]struct {
		id   uuid.UUID
		want error
	}{
		"provisional": {provisional, payment.ErrNotReversed}, "confirmed": {confirmed, payment.ErrNotReversed}, "under review": {held, payment.ErrNotReversed},
		"misdirected": {misdirected, payment.ErrNotReversed}, "unknown": {uuid.New(), payment.ErrEventNotFound},
	} {
		_, err := b.svc.RestoreReversed(b.ctx, c.id, byHand)
		require.ErrorIs(t, err, c.want, name)
	}
	for name, c := range map[string]struct {
		change func(*fakebank.Transaction)
		want   string
	}{
		"failed":    {func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" }, "the bank says failed"},
		"refunded":  {func(x *fakebank.Transaction) { x.Status = "REFUND" }, "the bank says refunded"},
		"under way": {func(x *fakebank.Transaction) { x.Status = "PENDING_BILLING" }, "the bank says pending"},
		"sum":       {func(x *fakebank.Transaction) { x.Amount = money.Must("50.00") }, "the bank's record differs: amount is 50.00, not 5000.00"},
		"fee":       {func(x *fakebank.Transaction) { x.Fee = money.Must("1.00") }, "the bank's record differs: fee is 1.00, not 25.00"},
		"hidden":    {func(x *fakebank.Transaction) { x.Hidden = true }, "the bank does not know the transaction"},
	} {
		b.bank.SetTransaction(txn.ID, c.change)
		_, err := b.svc.RestoreReversed(b.ctx, id, byHand)
		require.EqualError(t, err, c.want, name)
		b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { *x = txn; x.Status = "SUCCESS" })
	}
	b.bank.Faults.SetDown(fakebank.DownAnswer)
	_, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.ErrorContains(t, err, "ask the bank")
	b.bank.Faults.Clear()
	by := byHand
	by.Reason = ""
	_, err = b.svc.RestoreReversed(b.ctx, id, by)
	require.Error(t, err)
	again, entriesAgain := b.books()
	require.Equal(t, balance, again)
	require.Equal(t, entries, entriesAgain)
	require.Empty(t, b.audited())
}

func TestRestorationsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.wronglyReversed()
	other := b.service(b.bank.URL())
	require.Equal(t, 1, atOnce(t, 16, payment.ErrCounts, func(i int) error {
		_, err := []*payment.Service{b.svc, other}[i%2].RestoreReversed(b.ctx, id, byHand)
		return err
	}))
	require.Len(t, b.audited(), 1)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	b.recalls()
}

// The schema itself lets no replacement stand beside a credit that counts.
func TestSchemaRefusesASecondCredit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.confirmed()
	_, err := b.Pool.Exec(b.ctx, `
		INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, digest, received_at, replaces)
		SELECT $2, 'replacement', false, true, 'x:1', provider_txn_ref, 'x:1', 'received', digest, received_at, id FROM inbound_events WHERE id = $1`, id, uuid.New())
	require.ErrorContains(t, err, "another credit of transaction")
}

// A recall by hand names the event by which the payment counts, and not the one that it replaces:
// what would be held is another one's.
func TestRecallByHandOfWhatWasReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.wronglyReversed()
	got, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	require.ErrorIs(t, b.svc.OpenRecallByHand(b.ctx, id, byHand), payment.ErrReplaced)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
	require.NoError(t, b.svc.OpenRecallByHand(b.ctx, got.Replacement, byHand))
	require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
}

// Nor one that was never posted, such as the bank's event that it took the payment back.
func TestRecallByHandOfWhatIsNoPayment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	word := b.receive(b.reversal(txn)).ID
	_, err := b.svc.DecideRecall(b.ctx, id, payment.RecallKept, byHand)
	require.NoError(t, err)
	require.ErrorIs(t, b.svc.OpenRecallByHand(b.ctx, word, byHand), payment.ErrNotRecallable)
	require.ErrorIs(t, b.svc.OpenRecallByHand(b.ctx, b.misdirected(nil), byHand), payment.ErrNotRecallable)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.recalls())
}
