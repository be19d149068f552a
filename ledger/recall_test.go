package ledger_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

func (b *books) hold(entries ...ledger.Entry) map[uuid.UUID]ledger.Held {
	b.T.Helper()
	var groups []uuid.UUID
	for _, e := range entries {
		groups = append(groups, e.TransactionGroupID)
	}
	var out map[uuid.UUID]ledger.Held
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.HoldRecalled(b.ctx, tx, b.Clock.Now(), groups)
		return err
	}))
	return out
}

func (b *books) release(amount string) error {
	return b.tx(func(tx pg.Tx) error {
		return ledger.ReleaseRecalled(b.ctx, tx, map[uuid.UUID]money.Amount{b.account: money.Must(amount)})
	})
}

// What is held stays in the balance; only what a recall takes back leaves it, and may bring it
// below zero.
func TestHoldAndRecall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, [2]string{"0.00", "0.00"}, b.Recalled(b.account))
	confirmed, provisional, review, reversed := b.credit("100.00"), b.credit("20.00"), b.credit("3.00"), b.credit("0.40")
	require.NoError(t, b.move(confirmed, ledger.EventConfirm).Err)
	require.NoError(t, b.move(review, ledger.EventHold).Err)
	require.NoError(t, b.move(reversed, ledger.EventReverse).Err)
	held := b.hold(confirmed, provisional, review, reversed, ledger.Entry{TransactionGroupID: uuid.New()})
	require.Len(t, held, 4)
	for e, want := range map[*ledger.Entry][2]string{
		&confirmed: {"confirmed", "100.00"}, &provisional: {"provisional", "20.00"}, &review: {"needs_review", "0.00"}, &reversed: {"reversed", "0.00"},
	} {
		h := held[e.TransactionGroupID]
		require.Equal(t, want, [2]string{string(h.Status), h.Amount.String()})
	}
	require.Equal(t, "120.00", b.balance())
	require.Equal(t, [2]string{"120.00", "0.00"}, b.Recalled(b.account))
	b.verify()

	_, err := b.debit("110.00")
	require.NoError(t, err, "accepted: it waits for its cover")
	moved := b.move(confirmed, ledger.EventRecall)
	require.NoError(t, moved.Err)
	require.Equal(t, []string{"reversed", "-90.00"}, []string{string(moved.Status), moved.Balance.String()})
	require.NoError(t, b.release("100.00"))
	require.Equal(t, [2]string{"20.00", "100.00"}, b.Recalled(b.account))
	require.ErrorIs(t, b.move(confirmed, ledger.EventRecall).Err, ledger.ErrMove, "once")
	require.ErrorIs(t, b.move(provisional, ledger.EventRecall).Err, ledger.ErrMove)
	b.verify()
	require.Error(t, b.release("20.01"), "no more is released than is held")
	require.Equal(t, [2]string{"20.00", "100.00"}, b.Recalled(b.account))
}

// The schema lets a confirmed credit be reversed by a recall alone.
func TestNoReversalOfAConfirmedCreditWithoutARecall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.credit("10.00")
	require.NoError(t, b.move(e, ledger.EventConfirm).Err)
	err := b.tx(func(tx pg.Tx) error {
		_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), []ledger.Move{{TransactionGroupID: e.TransactionGroupID, Direction: ledger.Credit, Event: ledger.EventRecall}})
		return err
	})
	require.Equal(t, "23514", pg.Code(err))
	require.Equal(t, "10.00", b.balance())
	b.verify()
}

// A call that moves an entry twice is refused, and the error names the entry.
func TestNoEntryMovesTwiceInOneCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.credit("10.00")
	err := b.tx(func(tx pg.Tx) error {
		var moves []ledger.Move
		for _, event := range []ledger.Event{ledger.EventHold, ledger.EventConfirm} {
			moves = append(moves, ledger.Move{TransactionGroupID: e.TransactionGroupID, Direction: ledger.Credit, Event: event})
		}
		_, err := ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), moves)
		return err
	})
	require.ErrorContains(t, err, e.ID.String()+" moved twice in one call")
	require.Equal(t, "10.00", b.balance())
	b.verify()
}

// Many move the entries of few accounts at once, each in another order: each entry moves once, and
// the books hold.
func TestMovesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.Tenant()
	accounts := []uuid.UUID{b.account, b.Account(tenant, "second"), b.Account(tenant, "third")}
	var entries []ledger.Entry
	for i := range 24 {
		run := &books{Env: b.Env, ctx: b.ctx, account: accounts[i%3]}
		entries = append(entries, run.credit("10.00"))
	}
	var mu sync.Mutex
	done := map[uuid.UUID]int{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range entries {
				// Two entries a call, of two accounts, in an order that differs from worker to
				// worker.
				a, c := (i*(2*w+1))%len(entries), (i*(2*w+1)+w+1)%len(entries)
				event := []ledger.Event{ledger.EventConfirm, ledger.EventReverse, ledger.EventHold}[w%3]
				var moves []ledger.Move
				for _, k := range []int{a, c} {
					if len(moves) == 0 || k != a {
						moves = append(moves, ledger.Move{TransactionGroupID: entries[k].TransactionGroupID, Direction: ledger.Credit, Event: event})
					}
				}
				var out []ledger.Moved
				err := b.tx(func(tx pg.Tx) (err error) {
					out, err = ledger.MoveEntries(b.ctx, tx, b.Clock.Now(), moves)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, m := range out {
					if m.Err == nil && m.Status != ledger.NeedsReview {
						done[m.EntryID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, done, len(entries))
	for id, n := range done {
		require.Equal(t, 1, n, "entry %s came to its end %d times", id, n)
	}
	b.verify()
}
