package work_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// leased leases n items of a kind, and returns their claims in the order of the ids.
func (b *bundle) leased(kind work.Kind, n int, term time.Duration) []work.Claim {
	b.T.Helper()
	ids := b.items(kind, n)
	b.Clock.Advance(time.Duration(n) * time.Second)
	leased, err := work.Lease(b.ctx, b.Pool, kind, b.Clock.Now().Add(term), b.due(kind, ids...))
	require.NoError(b.T, err)
	var claims []work.Claim
	for _, c := range leased {
		require.NotNil(b.T, c)
		claims = append(claims, *c)
	}
	return claims
}

// ends is when the item's lease ends.
func (b *bundle) ends(kind work.Kind, id uuid.UUID) time.Time {
	b.T.Helper()
	return testenv.Value[time.Time](b.Env, `SELECT leased_until FROM work WHERE kind = $1 AND id = $2`, string(kind), id)
}

// What a process holds, of any kind, is renewed while it is held, and the claims stay as they are.
func TestHeldLeasesAreRenewed(t *testing.T) {
	b := setup(t)
	type holding struct {
		kind work.Kind
		work.Claim
		*work.Kept
	}
	var held, left []holding
	for _, k := range []work.Kind{work.Confirm, work.Settle, work.Deliver, work.Expire} {
		for i, c := range b.leased(k, 3, time.Minute) {
			if i == 0 {
				left = append(left, holding{kind: k, Claim: c})
				continue
			}
			held = append(held, holding{k, c, work.KeepLease(b.ctx, b.Pool, b.Clock, k, c, time.Minute)})
		}
	}
	for range 3 {
		now := b.Clock.Advance(30 * time.Second)
		for _, h := range held {
			testenv.Eventually(t, 10*time.Second, "a renewed lease", func() bool { return b.ends(h.kind, h.ID).Equal(now.Add(time.Minute)) })
			testenv.Eventually(t, 10*time.Second, "its holder to know", func() bool { return h.Stands() == nil })
		}
	}
	for _, h := range left {
		require.Len(t, b.due(h.kind, h.ID), 1, "nobody holds it, so its lease has ended")
	}
	for _, h := range held {
		h.Release()
		require.Empty(t, b.due(h.kind, h.ID), "the lease goes on")
		require.Equal(t, []bool{true}, b.finish(h.kind, work.Outcome{Claim: h.Claim}), "the claim is the same")
	}
}

// A call that is answered soon costs no statement, nor does what is not held any more, or for a
// context that has ended. What somebody else has locked is left out, and waited for by nobody.
func TestLeasesThatAreNotRenewed(t *testing.T) {
	b := setup(t)
	claims := b.leased(work.Settle, 5, work.Term)
	end := b.ends(work.Settle, claims[0].ID)
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, claims[0], time.Minute).Release()
	defer work.KeepLease(over, b.Pool, b.Clock, work.Settle, claims[1], time.Minute).Release()
	defer work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, claims[2], work.Term).Release() // too soon
	defer work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, claims[3], time.Minute).Release()
	defer work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, claims[4], time.Minute).Release()
	renewed := func(i int) bool { return b.ends(work.Settle, claims[i].ID).After(end) }
	b.inTx(func(tx pg.Tx) error {
		require.NoError(t, work.Lock(b.ctx, tx, work.Settle, claims[3].ID))
		testenv.Eventually(t, 10*time.Second, "the renewal of what nobody has locked", func() bool { return renewed(4) })
		for i := range 4 {
			require.False(t, renewed(i), "%d", i)
		}
		return nil
	})
	testenv.Eventually(t, 10*time.Second, "the renewal of what is locked no more", func() bool { return renewed(3) })
}

// A holder that was stopped, or that does not reach the database, knows that its lease has ended a
// moment before anybody else can have the item, and does not renew it again.
func TestLeaseEndsForItsHolderFirst(t *testing.T) {
	b := setup(t)
	pool, err := pgxpool.New(b.ctx, b.DatabaseURL)
	require.NoError(t, err)
	claims := b.leased(work.Settle, 2, work.Term)
	cut := work.KeepLease(b.ctx, pool, b.Clock, work.Settle, claims[0], work.Term)
	defer cut.Release()
	pool.Close()
	b.Clock.Advance(work.Term - time.Second - time.Microsecond)
	require.NoError(t, cut.Stands())
	b.Clock.Advance(time.Microsecond)
	require.ErrorIs(t, cut.Stands(), work.ErrLeaseEnded)
	require.Empty(t, b.due(work.Settle, claims[0].ID))
	b.Clock.Advance(time.Second)
	require.Len(t, b.due(work.Settle, claims[0].ID), 1)

	stopped := work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, claims[1], work.Term)
	defer stopped.Release()
	other := b.leased(work.Settle, 1, work.Term)[0]
	defer work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, other, time.Hour).Release()
	before := b.ends(work.Settle, other.ID)
	testenv.Eventually(t, 10*time.Second, "a renewal", func() bool { return b.ends(work.Settle, other.ID).After(before) })
	require.ErrorIs(t, stopped.Stands(), work.ErrLeaseEnded)
	require.Len(t, b.due(work.Settle, claims[1].ID), 1)
}

// Whoever has taken an item since has it: its former holder renews nothing.
func TestLostLeaseIsNotRenewed(t *testing.T) {
	b := setup(t)
	lost := b.leased(work.Settle, 2, work.Term)
	first := work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, lost[0], time.Hour)
	defer first.Release()
	until := b.Clock.Now().Add(time.Second)
	b.Lease(work.Settle, lost[0].ID, until)
	defer work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, lost[1], time.Hour).Release()
	end := b.ends(work.Settle, lost[1].ID)
	testenv.Eventually(t, 10*time.Second, "a renewal", func() bool { return b.ends(work.Settle, lost[1].ID).After(end) })
	require.True(t, b.ends(work.Settle, lost[0].ID).Equal(until))
	b.Clock.Advance(work.Term)
	require.ErrorIs(t, first.Stands(), work.ErrLeaseEnded)
	require.Equal(t, []bool{false}, b.finish(work.Settle, work.Outcome{Claim: lost[0]}))
}

// Who keeps no lease has no goroutine that renews, whether it has kept one before or not.
func TestNobodyRenewsForWhoKeepsNothing(t *testing.T) {
	b := setup(t)
	renews := func() bool {
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Contains(string(stacks), fmt.Sprintf("work.renewAll(%p", b.Pool))
	}
	require.False(t, renews())
	for _, c := range b.leased(work.Settle, 2, time.Minute) {
		h := work.KeepLease(b.ctx, b.Pool, b.Clock, work.Settle, c, time.Minute)
		testenv.Eventually(t, 10*time.Second, "a goroutine that renews", renews)
		h.Release()
		testenv.Eventually(t, 10*time.Second, "no goroutine that renews", func() bool { return !renews() })
	}
}
