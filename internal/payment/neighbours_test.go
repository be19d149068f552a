package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// states are payments to one account, by the state that they are in.
type states struct {
	received, provisional, confirmed, held, recalled, reversed, unposted, misdirected uuid.UUID
}

// fill makes a payment in each state.
func (b *bundle) fill() (s states) {
	b.T.Helper()
	s.confirmed, _ = b.confirmed()
	s.held = b.held()
	var err error
	s.recalled, _ = b.confirmed()
	recalled, err := b.svc.InboundEvent(b.ctx, s.recalled)
	require.NoError(b.T, err)
	_, err = b.svc.OpenRecall(b.ctx, recalled.ProviderTxnRef, payment.RecallByEvent)
	require.NoError(b.T, err)
	s.reversed, _ = b.wronglyReversed()
	s.unposted, _ = b.unposted()
	s.misdirected = b.misdirected(nil)
	s.provisional, _ = b.paid()
	s.received = b.receive(b.sign(b.bank.EventFor(b.paySilently("700.00")))).ID
	return s
}

// neighbours fills an account of another tenant's and another one of the test's own tenant, and
// returns what the latter has.
func (b *bundle) neighbours() (s states) {
	b.T.Helper()
	for _, tenant := range []uuid.UUID{b.Tenant(), b.tenant} {
		other := *b
		other.tenant, other.account = tenant, b.Account(tenant, "filled")
		s = other.fill()
	}
	return s
}

// common are the rows of all payments of a day and of the service's own accounts.
var common = []string{"ledger_days (", "ledger_balances (" + ledger.Suspense.ID().String()}

// Whatever is done with the payments of an account changes nothing of another's, be it the same
// tenant's.
func TestNothingOfTheNeighboursChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.neighbours()
	account := append([]string{b.account.String()}, common...)
	var own states
	b.Touches(func() { own = b.fill() }, account...)
	touches := func(id uuid.UUID, do func() error) {
		t.Helper()
		b.Touches(func() { require.NoError(t, do()) }, append([]string{id.String()}, account...)...)
	}
	touches(own.received, func() error { b.post(own.received); return nil })
	touches(own.provisional, func() error { b.check(own.provisional); return nil })
	touches(own.held, func() error { _, err := b.svc.DecideReview(b.ctx, own.held, ledger.EventConfirm, byHand); return err })
	touches(own.recalled, func() error {
		_, err := b.svc.DecideRecall(b.ctx, own.recalled, payment.RecallKept, byHand)
		return err
	})
	touches(own.confirmed, func() error { return b.svc.OpenRecallByHand(b.ctx, own.confirmed, byHand) })
	touches(own.confirmed, func() error {
		_, err := b.svc.DecideRecall(b.ctx, own.confirmed, payment.RecallReversed, byHand)
		return err
	})
	touches(own.reversed, func() error { _, err := b.svc.RestoreReversed(b.ctx, own.reversed, byHand); return err })
	touches(own.unposted, func() error { _, err := b.svc.Repost(b.ctx, own.unposted, byHand); return err })
	touches(own.misdirected, func() error { _, err := b.svc.Assign(b.ctx, own.misdirected, b.here(), byHand); return err })
	held := b.held()
	touches(held, func() error { _, err := b.svc.DecideReview(b.ctx, held, ledger.EventReverse, byHand); return err })
	corrected := b.held()
	touches(corrected, func() error { _, err := b.svc.Correct(b.ctx, corrected, sums("5000.00", "10.00"), byHand); return err })
	b.books()
}

// A tenant sees the recalls that hold money of its account: of this account alone, while they do,
// the newest first and each once.
func TestRecallsThatHoldMoney(t *testing.T) {
	t.Parallel()
	b := setup(t)
	same := b.neighbours()
	var own []uuid.UUID
	for range 3 {
		id, txn := b.confirmed()
		_, err := b.svc.OpenRecall(b.ctx, txn.ID, payment.RecallByEvent)
		require.NoError(t, err)
		own = append(own, id)
	}
	_, err := b.svc.DecideRecall(b.ctx, own[1], payment.RecallKept, byHand)
	require.NoError(t, err)
	opened := b.Clock.Now()
	list := func(account uuid.UUID) (ids []uuid.UUID) {
		t.Helper()
		r := page.Request{Limit: 1, Total: true}
		for {
			got, info, err := b.svc.HeldRecalls(b.ctx, b.tenant, account, r)
			require.NoError(t, err)
			for _, h := range got {
				ids = append(ids, h.TransactionGroupID)
				require.Equal(t, []any{"4975.00", "Bola Ade"}, []any{h.Amount.String(), h.SenderName})
				require.Equal(t, h.EntryID, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1`, h.TransactionGroupID))
				require.False(t, h.OpenedAt.After(opened) || h.PostedAt.After(h.OpenedAt))
			}
			if !info.HasMore {
				require.Equal(t, &page.Total{Count: len(ids), Exact: true}, info.Total)
				return ids
			}
			r.After = *info.NextCursor
		}
	}
	require.Equal(t, []uuid.UUID{own[2], own[0]}, list(b.account))
	require.Equal(t, []uuid.UUID{same.recalled}, list(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id = $1 AND account_ref = 'filled'`, b.tenant)))
	require.Empty(t, list(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM accounts WHERE tenant_id <> $1 AND account_ref = 'filled'`, b.tenant)), "another tenant's")
	_, _, err = b.svc.HeldRecalls(b.ctx, b.tenant, b.account, page.Request{Limit: 1, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}

// An operator's list of recalls has each with its own payment, account and tenant, and when the
// bank is asked about it next.
func TestRecallsOfAllTenants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.neighbours()
	id, txn := b.confirmed()
	kept, keptTxn := b.confirmed()
	reversed, reversedTxn := b.confirmed()
	for _, x := range []string{txn.ID, keptTxn.ID, reversedTxn.ID} {
		_, err := b.svc.OpenRecall(b.ctx, x, payment.RecallByEvent)
		require.NoError(t, err)
	}
	_, err := b.svc.DecideRecall(b.ctx, kept, payment.RecallKept, byHand)
	require.NoError(t, err)
	_, err = b.svc.DecideRecall(b.ctx, reversed, payment.RecallReversed, byHand)
	require.NoError(t, err)
	b.Exec(`UPDATE tenants SET name = 'Ours' WHERE id = $1`, b.tenant)
	list := func(status payment.RecallStatus) (found []uuid.UUID) {
		t.Helper()
		r := page.Request{Limit: 1}
		for {
			got, info, err := b.svc.Recalls(b.ctx, status, r)
			require.NoError(t, err)
			for _, v := range got {
				found = append(found, v.EventID)
			}
			if !info.HasMore {
				return found
			}
			r.After = *info.NextCursor
		}
	}
	require.Equal(t, []uuid.UUID{kept}, list(payment.RecallKept))
	require.Equal(t, id, list(payment.RecallOpen)[0])
	require.Len(t, list(payment.RecallOpen), 3)
	require.Equal(t, []uuid.UUID{reversed}, list(payment.RecallReversed))
	require.Len(t, list(""), 5)
	_, _, err = b.svc.Recalls(b.ctx, "lost", page.Request{Limit: 1})
	require.ErrorIs(t, err, payment.ErrFilter)
	v, err := b.svc.Recall(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, []any{b.tenant, "Ours", b.account, "customer-1", "4975.00", "4975.00", ledger.Confirmed, txn.ID, payment.RecallByEvent, payment.RecallOpen},
		[]any{v.TenantID, v.TenantName, v.AccountID, v.AccountRef, v.Amount.String(), v.Held.String(), v.EntryStatus, v.ProviderTxnRef, v.Source, v.Status})
	require.NotNil(t, v.NextAttemptAt)
	require.WithinDuration(t, b.Clock.Now(), *v.NextAttemptAt, time.Hour)
	v, err = b.svc.Recall(b.ctx, kept)
	require.NoError(t, err)
	require.Nil(t, v.NextAttemptAt)
	v, err = b.svc.Recall(b.ctx, reversed)
	require.NoError(t, err)
	require.Equal(t, ledger.Reversed, v.EntryStatus)
	_, err = b.svc.Recall(b.ctx, uuid.New())
	require.ErrorIs(t, err, payment.ErrNoRecall)
}

// What is read of a payment is its own: its steps, its entry and account, its event, what came of
// it and when it is asked about; by time, from a moment on and before another.
func TestReadingAPaymentBesideOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.neighbours()
	b.Clock.Advance(time.Hour)
	own := b.fill()
	event := func(id uuid.UUID) payment.InboundEvent {
		t.Helper()
		e, err := b.svc.InboundEvent(b.ctx, id)
		require.NoError(t, err)
		require.Equal(t, id, e.ID)
		require.Contains(t, e.Body, e.ProviderTxnRef)
		return e
	}
	recalled, misdirected, provisional := event(own.recalled), event(own.misdirected), event(own.provisional)
	require.Equal(t, b.DueAt(work.Confirm, own.provisional).UTC(), provisional.NextAttemptAt.UTC())
	require.Equal(t, b.DueAt(work.Confirm, own.recalled).UTC(), recalled.NextAttemptAt.UTC())
	_, err := b.svc.InboundEvent(b.ctx, uuid.New())
	require.ErrorIs(t, err, payment.ErrEventNotFound)

	entry := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1`, own.recalled)
	var steps []payment.StepName
	line, err := b.svc.Timeline(b.ctx, b.tenant, entry)
	require.NoError(t, err)
	for _, s := range line.Timeline {
		steps = append(steps, s.Step)
	}
	require.Equal(t, []payment.StepName{payment.StepPaid, payment.StepReceived, payment.StepPosted, payment.StepConfirmed, payment.StepRecalled}, steps)
	require.Equal(t, recalled.ProviderTxnRef, line.Timeline[1].Reference)
	require.Equal(t, testenv.Value[string](b.Env, `SELECT request_id FROM inbound_events WHERE id = $1`, own.recalled), line.RequestID)
	_, err = b.svc.Timeline(b.ctx, b.Tenant(), entry)
	require.ErrorIs(t, err, payment.ErrNotFound)
	_, err = b.svc.DecideRecall(b.ctx, own.recalled, payment.RecallKept, byHand)
	require.NoError(t, err)
	steps = nil
	line, err = b.svc.Timeline(b.ctx, b.tenant, own.recalled)
	require.NoError(t, err)
	for _, s := range line.Timeline[len(line.Timeline)-2:] {
		steps = append(steps, s.Step)
	}
	require.Equal(t, []payment.StepName{payment.StepRecalled, payment.StepRecallClosed}, steps)
	reversed := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'debit'`, own.reversed)
	line, err = b.svc.Timeline(b.ctx, b.tenant, own.reversed)
	require.NoError(t, err)
	last := line.Timeline[len(line.Timeline)-1]
	require.Equal(t, []any{payment.StepReversed, reversed.String()}, []any{last.Step, last.Reference})

	known, err := b.svc.Known(b.ctx, []string{recalled.ProviderTxnRef, misdirected.ProviderTxnRef, "nobody's"})
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.Nil(t, known[misdirected.ProviderTxnRef].Entry)
	require.Equal(t, own.misdirected, known[misdirected.ProviderTxnRef].EventID)
	found := known[recalled.ProviderTxnRef]
	require.Equal(t, []any{own.recalled, own.recalled, b.account, b.number(), "5000.00"},
		[]any{found.EventID, found.Entry.ID, found.Entry.AccountID, found.Entry.AccountNumber, found.Entry.Amount.String()})

	at := *recalled.OccurredAt
	between := func(from, to time.Time) (ids map[uuid.UUID]uuid.UUID) {
		t.Helper()
		ids = map[uuid.UUID]uuid.UUID{}
		require.NoError(t, b.svc.EntriesBetween(b.ctx, from, to, func(e payment.Entry) { ids[e.ID] = e.AccountID }))
		return ids
	}
	require.Equal(t, b.account, between(at, at.Add(time.Microsecond))[own.recalled])
	require.NotContains(t, between(at.Add(time.Microsecond), at.Add(24*time.Hour)), own.recalled)
	require.NotContains(t, between(at.Add(-24*time.Hour), at), own.recalled)
	require.NotContains(t, between(at.Add(-24*time.Hour), at.Add(24*time.Hour)), own.misdirected)
	at = *misdirected.OccurredAt
	for want, c := range map[int][2]time.Time{1: {at, at.Add(time.Microsecond)}, 0: {at.Add(time.Microsecond), at.Add(24 * time.Hour)}, 2: {at.Add(-24 * time.Hour), at}} {
		list, err := b.svc.MisdirectedBetween(b.ctx, c[0], c[1], uuid.Nil, 10)
		require.NoError(t, err)
		require.Len(t, list, want)
		require.Equal(t, want == 1, want == len(list) && len(list) > 0 && list[0].EventID == own.misdirected)
	}
	newest, err := payment.KnownAtBank(b.ctx, b.Pool, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, recalled.ProviderTxnRef, newest)
	but, err := payment.KnownAtBank(b.ctx, b.Pool, own.recalled)
	require.NoError(t, err)
	require.Equal(t, event(own.confirmed).ProviderTxnRef, but)
}
