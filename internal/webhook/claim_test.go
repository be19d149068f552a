package webhook

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
)

// take claims deliveries as attempts do; nil for one that is not to be had.
func (b *bundle) take(ids ...uuid.UUID) []*work.Claim {
	b.T.Helper()
	out := make([]*work.Claim, len(ids))
	for i, d := range together(b, b.claims, ids...) {
		if d != nil && !d.DueAt.After(b.Clock.Now()) {
			out[i] = &d.Claim
		}
	}
	return out
}

func TestClaimIsGivenOnce(t *testing.T) {
	b := setup(t)
	later := b.queueOne("https://example.com/later")
	b.Schedule(work.Deliver, later, b.Clock.Now().Add(time.Second))
	one, two := b.queueOne("https://example.com/1"), b.queueOne("https://example.com/2")
	got := b.take(two, one, two, uuid.New(), b.in(Dead), b.in(Delivered), later)
	require.NotNil(t, got[0])
	require.NotNil(t, got[1])
	require.Equal(t, make([]*work.Claim, 5), got[2:])
	require.Nil(t, b.get(later).LeasedUntil, "it is not due yet")
	require.Equal(t, b.Clock.Now().Add(work.Term), b.get(one).LeasedUntil.UTC())
	require.Equal(t, make([]*work.Claim, 2), b.take(one, two))
}

// Of two that claim the same at once, in opposite orders, the second waits for the first and then
// gets nothing; neither gets what a third one claims meanwhile.
func TestClaimAtOnceIsGivenOnce(t *testing.T) {
	b := setup(t)
	var ids []uuid.UUID
	for range 40 {
		ids = append(ids, b.queueOne("https://example.com/"))
	}
	const taken = 20
	third, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = third.Rollback(b.ctx) }()
	due, err := work.Due(b.ctx, third, work.Deliver, b.Clock.Now(), ids[taken:taken+1])
	require.NoError(t, err)
	_, err = work.Lease(b.ctx, third, work.Deliver, b.Clock.Now().Add(time.Minute), []work.Claim{due[ids[taken]]})
	require.NoError(t, err)
	reversed := slices.Clone(ids)
	slices.Reverse(reversed)
	var wg sync.WaitGroup
	var counts [2]map[uuid.UUID]int
	for i, order := range [][]uuid.UUID{ids, reversed} {
		wg.Go(func() {
			counts[i] = map[uuid.UUID]int{}
			for j, c := range b.claims.Together(b.ctx, order) {
				assert.NoError(t, c.Err)
				if c.Value != nil {
					counts[i][order[j]]++
				}
			}
		})
	}
	testenv.Eventually(t, 10*time.Second, "both wait", func() bool { return b.LockWaits() == 2 })
	require.Equal(t, ids[taken+1:], b.unlocked(), "locked in the order of ids")
	require.NoError(t, third.Commit(b.ctx))
	wg.Wait()
	require.Equal(t, len(ids)-1, len(counts[0])+len(counts[1]))
	for i, id := range ids {
		want := 1
		if i == taken {
			want = 0
		}
		require.Equal(t, want, counts[0][id]+counts[1][id])
	}
}

// unlocked lists the deliveries whose items nobody holds, in the order of their ids.
func (b *bundle) unlocked() []uuid.UUID {
	b.T.Helper()
	ids, err := pg.Collect(b.ctx, b.Pool, pgx.RowTo[uuid.UUID], `SELECT id FROM work ORDER BY id FOR UPDATE SKIP LOCKED`)
	require.NoError(b.T, err)
	return ids
}

// Attempts come in any order: their rows are locked in one, each gets its own, and each caller its
// own answer.
func TestRecordInOrder(t *testing.T) {
	b := setup(t)
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, b.queueOne("https://example.com/"))
	}
	claims := b.take(ids...)
	now := b.Clock.Now()
	var attempts []attemptResult
	for _, i := range []int{3, 0, 4, 2, 1} {
		a := attemptResult{claim: *claims[i], event: EventFail, StartedAt: now, NextAttemptAt: &now, Failure: strconv.Itoa(i)}
		if i == 4 {
			a.claim.Version = -1
		}
		attempts = append(attempts, a)
	}
	other, err := b.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = other.Rollback(b.ctx) }()
	_, err = other.Exec(b.ctx, `SELECT FROM work WHERE id = $1 FOR UPDATE`, ids[2])
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.Equal(t, []bool{true, true, false, true, true}, together(b, b.records, attempts...))
	})
	testenv.Eventually(t, 10*time.Second, "it waits", func() bool { return b.LockWaits() == 1 })
	require.Equal(t, ids[3:], b.unlocked(), "locked in the order of ids")
	require.NoError(t, other.Commit(b.ctx))
	wg.Wait()
	for i, id := range ids {
		if i == 4 {
			require.Empty(t, b.attempts(id))
			continue
		}
		require.Equal(t, strconv.Itoa(i), b.get(id).LastError)
		require.Equal(t, strconv.Itoa(i), b.attempts(id)[0].Error)
	}
}

func TestBadRowDoesNotFailItsNeighbours(t *testing.T) {
	b := setup(t)
	ids := []uuid.UUID{b.queueOne("https://example.com/"), b.queueOne("https://example.com/"), b.queueOne("https://example.com/")}
	claims := b.take(ids...)
	// Somebody has written the second one's attempt by hand.
	b.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, error) VALUES ($1, 1, $2, 0, 'HTTP 500')`, ids[1], b.Clock.Now())
	attempts := make([]attemptResult, len(ids))
	for i := range ids {
		now := b.Clock.Now()
		attempts[i] = attemptResult{claim: *claims[i], event: EventFail, StartedAt: now, NextAttemptAt: &now, Failure: "HTTP 503", Body: []byte("\x00\xff")}
	}
	out := b.records.Together(b.ctx, attempts)
	require.True(t, out[0].Value)
	require.True(t, pg.IsUnique(out[1].Err, ""))
	require.True(t, out[2].Value)
	for i, want := range []string{"HTTP 503", "", "HTTP 503"} {
		require.Equal(t, want, b.get(ids[i]).LastError)
	}
}

func TestRecordTellsTwoClaimsApart(t *testing.T) {
	b := setup(t)
	id := b.queueOne("https://example.com/")
	first := b.take(id)
	b.Clock.Advance(30 * time.Second)
	second := b.take(id)
	require.NotNil(t, second[0])
	now := b.Clock.Now()
	late := attemptResult{claim: *first[0], event: EventSucceed, StartedAt: now, DeliveredAt: &now}
	current := attemptResult{claim: *second[0], event: EventFail, StartedAt: now, NextAttemptAt: &now, Failure: "HTTP 500"}
	require.Equal(t, []bool{false, true, false, false}, together(b, b.records, late, current, late, current))
	require.Equal(t, Pending, b.get(id).Status)
	require.Len(t, b.attempts(id), 1)
}

func TestDueIsOldestFirst(t *testing.T) {
	b := setup(t)
	start := b.Clock.Now()
	var ids []uuid.UUID
	for range 4 {
		ids = append(ids, b.queueOne("https://example.com/"))
		b.Clock.Advance(time.Minute)
	}
	b.in(Dead)
	b.in(Delivered)
	b.take(ids[0])
	got := b.Overdue(work.Deliver, b.Clock.Now(), start.Add(3*time.Minute), 10)
	require.Equal(t, ids[1:3], got, "neither the claimed one nor the one that is not overdue")
	b.Clock.Advance(30 * time.Second)
	require.Equal(t, ids[:2], b.Overdue(work.Deliver, b.Clock.Now(), start.Add(time.Hour), 2))
}
