package payment_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/ledger"
)

var byHand = audit.By{Actor: "cli:ada", Reason: "asked the bank"}

const heldWhy = "the bank's record differs: fee is 10.00, not 25.00"

// held is a payment whose entry is under review.
func (b *bundle) held() uuid.UUID {
	b.T.Helper()
	id, txn := b.paid()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = money.Must("10.00") })
	require.Equal(b.T, time.Duration(-1), b.check(id))
	require.Equal(b.T, "needs_review", testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE transaction_group_id = $1`, id))
	return id
}

// atOnce makes n calls at once, and returns how many succeeded; the others must be refused.
func atOnce(t *testing.T, n int, refused error, call func(i int) error) int {
	t.Helper()
	var wg sync.WaitGroup
	var succeeded atomic.Int32
	for i := range n {
		wg.Go(func() {
			switch err := call(i); {
			case err == nil:
				succeeded.Add(1)
			case !errors.Is(err, refused):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return int(succeeded.Load())
}

// audited returns the record of what was done by hand, newest first.
func (b *bundle) audited() []audit.Record {
	b.T.Helper()
	list, _, err := audit.List(b.ctx, b.Pool, audit.Filter{}, page.Request{Limit: 100})
	require.NoError(b.T, err)
	return list
}

func TestReviewsAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.post(b.receive(b.event(nil)).ID) // provisional: not shown
	first, second := b.held(), b.held()
	list, info, err := b.svc.Reviews(b.ctx, page.Request{Limit: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	v := list[0]
	require.Equal(t, second, v.EventID)
	require.Equal(t, []any{b.tenant, "Test tenant", b.account, "customer-1", "4975.00", "5000.00", "25.00", "Bola Ade", heldWhy},
		[]any{v.TenantID, v.TenantName, v.AccountID, v.AccountRef, v.Amount.String(), v.GrossAmount.String(), v.Fee.String(), v.SenderName, v.Why})
	list, info, err = b.svc.Reviews(b.ctx, page.Request{Limit: 1, After: *info.NextCursor})
	require.NoError(t, err)
	require.Equal(t, first, list[0].EventID)
	require.False(t, info.HasMore)
	_, err = b.svc.DecideReview(b.ctx, second, ledger.EventReverse, byHand)
	require.NoError(t, err)
	list, _, err = b.svc.Reviews(b.ctx, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1, "one is decided")
	require.Equal(t, first, list[0].EventID)
	_, _, err = b.svc.Reviews(b.ctx, page.Request{Limit: 1, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}

func TestReviewIsDecided(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.entry.review.out")
	for name, c := range map[string]struct {
		event   ledger.Event
		status  ledger.Status
		balance string
		entries []string
		why     string
	}{
		"confirm": {
			ledger.EventConfirm, ledger.Confirmed, "4975.00",
			[]string{"credit confirmed"},
			"",
		},
		"reverse": {
			ledger.EventReverse, ledger.Reversed, "0.00",
			[]string{"credit reversed", "debit reversed"},
			heldWhy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.held()
			v, err := b.svc.Review(b.ctx, id)
			require.NoError(t, err)
			got, err := b.svc.DecideReview(b.ctx, id, c.event, byHand)
			require.NoError(t, err)
			require.Equal(t, []any{id, v.EntryID, c.status, "4975.00", c.balance}, []any{got.EventID, got.EntryID, got.Status, got.Amount.String(), got.Balance.String()})
			balance, entries := b.books()
			require.Equal(t, c.balance, balance)
			require.Equal(t, c.entries, entries)
			require.Equal(t, c.why, testenv.Value[string](b.Env, `SELECT last_error FROM inbound_events`))
			require.NoError(t, b.svc.Confirm(b.ctx, id), "nothing is left to ask")
			_, again := b.books()
			require.Equal(t, entries, again)

			log := b.audited()
			require.Len(t, log, 1)
			require.Equal(t, []string{"cli:ada", "review." + name, "event:" + id.String(), "asked the bank"},
				[]string{log[0].Actor, log[0].Action, log[0].Target, log[0].Reason})
			require.JSONEq(t, `{"EntryID":"`+v.EntryID.String()+`","AccountID":"`+b.account.String()+`","Amount":"4975.00","Balance":"`+c.balance+
				`","Why":"`+heldWhy+`"}`, string(log[0].Detail))

			_, err = b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
			require.ErrorIs(t, err, payment.ErrNotInReview)
			_, err = b.svc.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
			require.ErrorIs(t, err, payment.ErrNotInReview)
			_, err = b.svc.Review(b.ctx, id)
			require.ErrorIs(t, err, payment.ErrNotInReview)
			require.Len(t, b.audited(), 1)
		})
	}
}

// In every other state both decisions are refused, and nothing changes.
func TestOnlyWhatIsInReviewIsDecided(t *testing.T) {
	t.Parallel()
	b := setup(t)
	provisional, _ := b.paid()
	confirmed, _ := b.paid()
	require.Equal(t, time.Duration(-1), b.check(confirmed))
	reversed, txn := b.paid()
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status = "PAYMENT_FAILED" })
	require.Equal(t, time.Duration(-1), b.check(reversed))
	received := b.receive(b.event(nil)).ID
	misdirected := b.misdirected(nil)
	balance, entries := b.books()
	for name, c := range map[string]struct {
		id   uuid.UUID
		want error
	}{
		"provisional": {provisional, payment.ErrNotInReview}, "confirmed": {confirmed, payment.ErrNotInReview}, "reversed": {reversed, payment.ErrNotInReview},
		"received": {received, payment.ErrNotInReview}, "misdirected": {misdirected, payment.ErrNotInReview}, "unknown": {uuid.New(), payment.ErrEventNotFound},
	} {
		_, err := b.svc.DecideReview(b.ctx, c.id, ledger.EventConfirm, byHand)
		require.ErrorIs(t, err, c.want, name)
		_, err = b.svc.DecideReview(b.ctx, c.id, ledger.EventReverse, byHand)
		require.ErrorIs(t, err, c.want, name)
		_, err = b.svc.Review(b.ctx, c.id)
		require.ErrorIs(t, err, c.want, name)
	}
	again, entriesAgain := b.books()
	require.Equal(t, balance, again)
	require.Equal(t, entries, entriesAgain)
	require.Empty(t, b.audited())
}

func TestNoDecisionWithoutAReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.held()
	for _, by := range []audit.By{{}, {Actor: "cli:ada"}, {Actor: "cli:ada", Reason: "  "}, {Reason: "because"}} {
		_, err := b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, by)
		require.Error(t, err)
		_, err = b.svc.DecideReview(b.ctx, id, ledger.EventReverse, by)
		require.Error(t, err)
	}
	balance, entries := b.books()
	require.Equal(t, "0.00", balance)
	require.Equal(t, []string{"credit needs_review"}, entries)
	require.Empty(t, b.audited())
}

// Many operators decide the same payments at once, half of them one way and half the other: each
// payment is decided once.
func TestOperatorsAtOnceDecideOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []uuid.UUID{b.held(), b.held(), b.held()}
	other := b.service(b.bank.URL())
	require.Equal(t, 3, atOnce(t, 24, payment.ErrNotInReview, func(i int) (err error) {
		if id := ids[i%len(ids)]; i/3%2 == 0 {
			_, err = b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
		} else {
			_, err = other.DecideReview(b.ctx, id, ledger.EventReverse, byHand)
		}
		return err
	}))
	require.Len(t, b.audited(), 3)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE status = 'needs_review'`))
	b.books()
}
