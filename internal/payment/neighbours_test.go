package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/testenv"
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
	touches(own.held, func() error { _, err := b.svc.ConfirmReviewed(b.ctx, own.held, byHand); return err })
	touches(own.recalled, func() error { _, err := b.svc.KeepRecalled(b.ctx, own.recalled, byHand); return err })
	touches(own.confirmed, func() error { return b.svc.OpenRecallByHand(b.ctx, own.confirmed, byHand) })
	touches(own.confirmed, func() error { _, err := b.svc.ReverseRecalled(b.ctx, own.confirmed, byHand); return err })
	touches(own.reversed, func() error { _, err := b.svc.RestoreReversed(b.ctx, own.reversed, byHand); return err })
	touches(own.unposted, func() error { _, err := b.svc.Repost(b.ctx, own.unposted, byHand); return err })
	touches(own.misdirected, func() error { _, err := b.svc.Assign(b.ctx, own.misdirected, b.here(), byHand); return err })
	held := b.held()
	touches(held, func() error { _, err := b.svc.ReverseReviewed(b.ctx, held, byHand); return err })
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
	_, err := b.svc.KeepRecalled(b.ctx, own[1], byHand)
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
	for _, x := range []string{txn.ID, keptTxn.ID} {
		_, err := b.svc.OpenRecall(b.ctx, x, payment.RecallByEvent)
		require.NoError(t, err)
	}
	_, err := b.svc.KeepRecalled(b.ctx, kept, byHand)
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
	require.Empty(t, list(payment.RecallReversed))
	require.Len(t, list(""), 4)
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
	_, err = b.svc.Recall(b.ctx, uuid.New())
	require.ErrorIs(t, err, payment.ErrNoRecall)
}
