package payment_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/ledger"
)

func (b *bundle) misses(id uuid.UUID) int {
	b.T.Helper()
	return testenv.Value[int](b.Env, `SELECT misses FROM inbound_events WHERE id = $1`, id)
}

// gone is a payment that the bank neither finds by its id nor lists.
func (b *bundle) gone() uuid.UUID {
	b.T.Helper()
	id, txn := b.paid()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	return id
}

// What a gateway says is not the bank's word: after a day a person looks, and no money was taken
// back.
func TestGatewaysWordReversesNothing(t *testing.T) {
	t.Parallel()
	for _, body := range fakebank.GatewayBodies() {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, _ := b.paid()
			b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnAll, Do: fakebank.Gateway, Value: body})
			posted := b.Clock.Now()
			for b.check(id) >= 0 {
				_, entries := b.books()
				require.Equal(t, []string{"credit provisional"}, entries)
			}
			require.GreaterOrEqual(t, b.Clock.Now().Sub(posted), 24*time.Hour)
			require.Zero(t, b.misses(id))
			_, entries := b.books()
			require.Equal(t, []string{"credit needs_review"}, entries)
		})
	}
}

// A bank that has lost its index finds nothing, and says so in its own envelope. It is not believed
// while it does not find a payment either that it has confirmed; once it does, what it does not
// find is reversed.
func TestEmptyIndexReversesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	confirmed, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(confirmed))
	genuine, _ := b.paid()
	forged := b.gone()
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound})
	for range 8 {
		require.Positive(t, b.check(genuine))
		require.Positive(t, b.check(forged))
	}
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed", "credit provisional", "credit provisional"}, entries)
	b.log.Has(t, "alert=not_found_doubted")
	require.Contains(t, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, genuine), "finds no other payment either")
	b.bank.Faults.Clear()
	require.Equal(t, time.Duration(-1), b.check(genuine))
	require.Equal(t, time.Duration(-1), b.check(forged))
	_, entries = b.books()
	require.Equal(t, []string{"credit confirmed", "credit confirmed", "credit reversed", "debit reversed"}, entries)
}

// What only a person's word has confirmed, in a review or with another sum, is no proof that the
// bank finds nothing: the newest payment that its own record confirmed is.
func TestAPersonsWordIsNoKnownRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	confirmed, txn := b.paid()
	require.Equal(t, time.Duration(-1), b.check(confirmed))
	_, err := b.svc.DecideReview(b.ctx, b.held(), ledger.EventConfirm, byHand)
	require.NoError(t, err)
	_, err = b.svc.Correct(b.ctx, b.held(), sums("4000.00", "10.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, 3, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE direction = 'credit' AND status = 'confirmed'`))
	known, err := payment.KnownAtBank(b.ctx, b.Pool, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, txn.ID, known)
}

// What the bank lists is there, though it is not found by its id; and a list that cannot be read
// proves nothing.
func TestListedIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	confirmed, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(confirmed))
	b.Clock.Advance(time.Minute)
	listed, txn := b.paid()
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound, Match: txn.ID})
	for b.check(listed) >= 0 {
	}
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed", "credit confirmed"}, entries)
	require.GreaterOrEqual(t, b.misses(listed), 2, "the last check found it in the list")

	unread := b.gone()
	for range 3 {
		require.Positive(t, b.check(unread))
	}
	b.Clock.Advance(30 * time.Minute)
	// Only the list fails: every second question is the list's.
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.Fail, Skip: 2, Next: 1})
	require.Positive(t, b.check(unread))
	require.Contains(t, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, unread), "its list could not be read")
	require.Equal(t, time.Duration(-1), b.check(unread))
	_, entries = b.books()
	require.Equal(t, []string{"credit confirmed", "credit confirmed", "credit reversed", "debit reversed"}, entries)
}

// The bank may date a payment a moment later or earlier in its list than in its event
// (AlikeWithin).
func TestListedAMomentLaterIsFound(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{5 * time.Second, payment.AlikeWithin, -payment.AlikeWithin} {
		b := setup(t)
		confirmed, _ := b.paid()
		require.Equal(t, time.Duration(-1), b.check(confirmed))
		b.Clock.Advance(time.Hour)
		txn := b.paySilently("5000.00")
		e := b.bank.Event(fakebank.PaymentSuccess, txn)
		e.Data.Transaction.Time = txn.Time.UTC().Add(-later).Format(time.RFC3339)
		listed := b.receive(b.eventOf(e)).ID
		require.Equal(t, payment.CategoryPayment, b.post(listed).Category)
		b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound, Match: txn.ID})
		for b.check(listed) >= 0 {
		}
		_, entries := b.books()
		require.Equal(t, []string{"credit confirmed", "credit confirmed"}, entries, later.String())
	}
}

// What the bank lists can be restored, though it is not found by its id.
func TestListedIsRestored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	confirmed, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(confirmed))
	b.Clock.Advance(time.Hour)
	id, txn := b.wronglyReversed()
	b.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound, Match: txn.ID})
	b.taken(txn, "PAYMENT_FAILED")
	_, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.ErrorContains(t, err, "the bank says failed")
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden = true })
	_, err = b.svc.RestoreReversed(b.ctx, id, byHand)
	require.ErrorIs(t, err, payment.ErrNotAtBank)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Hidden, x.Status = false, fakebank.StatusSuccess })
	r, err := b.svc.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	for b.check(r.Replacement) >= 0 {
	}
	_, entries := b.books()
	require.Equal(t, []string{"credit confirmed", "credit reversed", "debit reversed", "credit confirmed"}, entries)
}

// longList is a bank whose list of more than endless has no end, and has the records that are given
// as unreadable.
type longList struct {
	provider.Bank
	endless    time.Duration
	unreadable string
	pages      atomic.Int64
}

func (l *longList) Transactions(_ context.Context, from, to time.Time, _ string) (page provider.Page, err error) {
	n := l.pages.Add(1)
	if to.Sub(from) > l.endless {
		page.Next = strconv.FormatInt(n, 10)
	}
	if l.unreadable != "" {
		page.Unreadable = []provider.Unreadable{{ID: l.unreadable, Why: "no amount"}}
	}
	return page, nil
}

// On a busy service the list of a minute may be too long to be read for one payment: then that of
// the seconds around it decides, which must be read to its end, and without the payment on it.
func TestLongListsProveWhatTheySay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endless    time.Duration
		unreadable bool
		pages      int64
		why        string // empty: it is reversed
	}{
		"all are short":     {endless: time.Hour, pages: 2},
		"a long minute":     {endless: 3 * time.Second, pages: 1 + 20},
		"long seconds":      {pages: 40, why: "its list is too long to be read"},
		"it cannot be read": {endless: time.Hour, unreadable: true, pages: 1, why: "its record in the list cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.gone()
			bank := &longList{Bank: b.client(), endless: c.endless}
			if c.unreadable {
				bank.unreadable = testenv.Value[string](b.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
			}
			b.svc = b.serviceWith(bank)
			for bank.pages.Load() == 0 {
				next := b.check(id)
				require.Equal(t, bank.pages.Load() > 0 && c.why == "", next < 0)
			}
			require.Equal(t, c.pages, bank.pages.Load())
			want := []string{"credit reversed", "debit reversed"}
			if c.why != "" {
				want = []string{"credit provisional"}
				require.Contains(t, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events WHERE id = $1`, id), c.why)
			}
			_, entries := b.books()
			require.Equal(t, want, entries)
		})
	}
}

// Two checks are not enough however old the payment is, and three not while it is young: both bind.
func TestNotFoundNeedsChecksAndAge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gap    time.Duration // between the checks
		misses int           // at which it is reversed
	}{
		"checks bind":       {time.Hour, 3},
		"age and checks":    {15 * time.Minute, 3},
		"age just agrees":   {10 * time.Minute, 3},
		"age binds":         {9 * time.Minute, 4},
		"age binds longer":  {4 * time.Minute, 8},
		"the first is late": {40 * time.Minute, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.svc = payment.New(payment.Options{
				Pool: b.Pool, Bank: b.client(), Clock: b.Clock, Log: b.svc.Log, WebhookSecret: b.svc.WebhookSecret,
				ConfirmDelays: []time.Duration{c.gap}, ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
			})
			t.Cleanup(b.svc.Close)
			id := b.gone()
			for n := 1; n < c.misses; n++ {
				require.Positive(t, b.check(id), "after %d checks", n)
				require.Equal(t, n, b.misses(id))
			}
			require.Equal(t, time.Duration(-1), b.check(id))
			require.Equal(t, c.misses, b.misses(id))
			_, entries := b.books()
			require.Equal(t, []string{"credit reversed", "debit reversed"}, entries)
		})
	}
}

// No setting reverses sooner than it says, whatever the age is.
func TestMissesAreCountedExactly(t *testing.T) {
	t.Parallel()
	for _, misses := range []int{1, 2, 5} {
		b := setup(t)
		b.svc = payment.New(payment.Options{
			Pool: b.Pool, Bank: b.client(), Clock: b.Clock, Log: b.svc.Log, WebhookSecret: b.svc.WebhookSecret,
			ConfirmDelays: []time.Duration{time.Minute}, ConfirmMisses: misses, ConfirmMinAge: time.Second, ConfirmDeadline: 24 * time.Hour,
		})
		t.Cleanup(b.svc.Close)
		id := b.gone()
		asked := 1
		for ; b.check(id) >= 0; asked++ {
		}
		require.Equal(t, misses, asked)
	}
}
